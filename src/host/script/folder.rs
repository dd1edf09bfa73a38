//! The files that a script may import: those below one folder.
//!
//! - **I1** A file is read only if it is below the folder after all links are followed.
//! - **I2** A path names one file in one way: neither `.` nor `..`, nor an empty part.

use crate::guest::SCRIPT_SOURCE_BYTES_MAX;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Bytes and parts of a path that a script imports. Arbitrary.
const PATH_BYTES_MAX: usize = 1_024;
const PATH_PARTS_MAX: usize = 32;

/// The folder of a workflow file.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Without links.
    root: PathBuf,
}

impl Folder {
    /// # Errors
    /// Says why the folder cannot be used.
    pub(crate) fn new(path: &Path) -> Result<Self, String> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let root = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { root })
    }

    /// The path of a file within the folder, as imports name it: `lib/order.js` for
    /// `./lib/../lib/order.js`.
    ///
    /// # Errors
    /// Says why no file of the folder has such a path.
    pub(crate) fn within(path: &str) -> Result<String, String> {
        if path.len() > PATH_BYTES_MAX {
            return Err(format!("its path has more than {PATH_BYTES_MAX} bytes"));
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in Path::new(path).components() {
            match part {
                Component::CurDir => {}
                Component::Normal(part) => parts.push(part.to_str().unwrap_or_default()),
                Component::ParentDir => {
                    if parts.pop().is_none() {
                        return Err("it is not below the workflow's folder".to_owned());
                    }
                }
                _ => return Err("its path is not relative to the workflow's folder".to_owned()),
            }
        }
        if parts.is_empty() || path.ends_with('/') {
            return Err("it names no file".to_owned());
        }
        if parts.len() > PATH_PARTS_MAX {
            return Err(format!("it is more than {PATH_PARTS_MAX} folders deep"));
        }
        Ok(parts.join("/"))
    }

    /// That there is no file, and the one that may have been meant: elsewhere imports have no
    /// ending, or that of what a compiler makes.
    fn absent(&self, path: &str) -> String {
        let stem = ["js", "mjs", "jsx"].iter().find_map(|ending| path.strip_suffix(&format!(".{ending}")));
        let meant = [stem.unwrap_or(path), path].into_iter().flat_map(|stem| {
            ["ts", "js", "mts", "mjs", "json"].into_iter().map(move |ending| format!("{stem}.{ending}"))
        });
        let found = meant.into_iter().find(|meant| self.root.join(meant).is_file());
        match found {
            Some(meant) => format!("there is no such file; there is {meant}: an import names the whole file"),
            None => "there is no such file".to_owned(),
        }
    }

    /// Reads a source.
    ///
    /// # Errors
    /// Says why it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        let bytes = self.bytes(path, SCRIPT_SOURCE_BYTES_MAX)?;
        if bytes.len() > SCRIPT_SOURCE_BYTES_MAX {
            return Err(format!("it has more than {SCRIPT_SOURCE_BYTES_MAX} bytes"));
        }
        text(bytes)
    }

    /// Returns whether there is such a file.
    pub(crate) fn has(&self, path: &str) -> bool {
        Self::within(path).is_ok_and(|within| within == path) && self.root.join(path).is_file()
    }

    /// Reads a file, up to one byte more than it may have.
    ///
    /// # Errors
    /// Says why it cannot be read.
    pub(crate) fn bytes(&self, path: &str, bytes_max: usize) -> Result<Vec<u8>, String> {
        if path.contains(['\0', '\\']) || Self::within(path)? != path {
            return Err("its path is not one of a file below the workflow's folder".to_owned());
        }
        let file = self.root.join(path).canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => self.absent(path),
            _ => error.to_string(),
        })?;
        if !file.starts_with(&self.root) {
            return Err("it is a link out of the workflow's folder".to_owned());
        }
        // A pipe might never end.
        if !file.metadata().map_err(|error| error.to_string())?.is_file() {
            return Err("it is no file".to_owned());
        }
        let mut bytes = Vec::new();
        let most = bytes_max as u64 + 1;
        let read = File::open(&file).and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}

/// The text of a source.
///
/// # Errors
/// Says why it is none.
fn text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let line = before.matches('\n').count() + 1;
        format!("it is not UTF-8, in line {line}")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if let Some(at) = text.find('\0') {
        let line = text[..at].matches('\n').count() + 1;
        return Err(format!("it has a NUL byte, in line {line}"));
    }
    // The same script has the same digest whatever ends its lines.
    Ok(text.replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_folder_are_read() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.js"), "secret").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let root = inside.path();
        std::fs::create_dir(root.join("lib")).unwrap();
        std::fs::write(root.join("lib/a.js"), "\u{feff}a\r\nb\n").unwrap();
        std::fs::write(root.join("nul.js"), "a\n\0").unwrap();
        std::fs::write(root.join("latin.js"), b"a\n\xe4").unwrap();
        std::fs::write(root.join("big.js"), vec![b' '; SCRIPT_SOURCE_BYTES_MAX + 1]).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.js"), root.join("link.js")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("out")).unwrap();
        std::os::unix::fs::symlink("lib/a.js", root.join("good.js")).unwrap();
        let folder = Folder::new(root).unwrap();
        for path in ["lib/a.js", "good.js"] {
            assert_eq!(folder.read(path).unwrap(), "a\nb\n");
        }
        let of = |path: &str| folder.read(path).unwrap_err();
        for path in ["link.js", "out/secret.js"] {
            assert!(of(path).contains("out of the workflow's folder"), "{path}");
        }
        let secret = outside.path().join("secret.js");
        for path in
            ["../etc/passwd", "lib/../../x.js", secret.to_str().unwrap(), "./lib/a.js", "lib//a.js", "lib\\a.js", "a\0"]
        {
            assert!(of(path).contains("workflow's folder"), "{path}: {}", of(path));
        }
        assert!(of("missing.js").contains("no such file"));
        std::fs::write(root.join("lib/b.ts"), "").unwrap();
        for path in ["lib/b", "lib/b.js"] {
            assert!(of(path).contains("there is lib/b.ts"), "{}", of(path));
        }
        assert!(of("lib").contains("no file"));
        assert_eq!(of("nul.js"), "it has a NUL byte, in line 2");
        assert_eq!(of("latin.js"), "it is not UTF-8, in line 2");
        assert!(of("big.js").contains("more than"));
        assert!(of(&"a/".repeat(40)).contains("no file"));
        assert!(of(&format!("{}x.js", "a/".repeat(40))).contains("folders deep"));
    }

    #[test]
    fn a_path_has_one_name() {
        assert_eq!(Folder::within("./lib/../lib//order.js").unwrap(), "lib/order.js");
        assert!(Folder::within("../order.js").is_err());
        assert!(Folder::within("a/../../a/order.js").is_err());
        assert!(Folder::within("/etc/passwd").is_err());
        assert!(Folder::within(".").is_err());
    }
}
