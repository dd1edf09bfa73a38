//! Folders of the machine that a program is granted: read when its workflow is loaded, and stored
//! with a durable run, so that it goes on with what it began with.
//!
//! - **I1** Only what is below the workflow's folder is read, after all links are followed.
//! - **I2** The same files have the same bytes here, in whatever order the machine lists them.

use crate::guest::{GRANTED_BYTES_MAX, GRANTED_ENTRIES_MAX, GrantedFolders};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The version of the stored form.
const VERSION: u32 = 1;

/// Before a component's key: the name of its folders among the files of a run.
pub(super) const FOLDERS: &str = "folders:";

/// Folders within one another, as programs may have them.
const DEPTH_MAX: usize = 60;

/// The content of granted folders: by name, files by path.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Content {
    #[serde(rename = "wfhost-folders")]
    version: u32,
    folders: BTreeMap<String, BTreeMap<String, Stored>>,
}

/// The bytes of a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Text(String),
    Bytes { bytes: String },
}

impl Stored {
    fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes)
            .map_or_else(|error| Self::Bytes { bytes: STANDARD.encode(error.as_bytes()) }, Self::Text)
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Bytes { bytes } => STANDARD.decode(bytes).map_err(|error| error.to_string()),
        }
    }
}

impl Content {
    pub(super) fn new() -> Self {
        Self { version: VERSION, folders: BTreeMap::new() }
    }

    /// Reads a folder below `root`, to be called `name`.
    ///
    /// # Errors
    /// Says what cannot be granted.
    pub(super) fn read(&mut self, root: &Path, name: &str, folder: &str) -> Result<(), String> {
        let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let from = root.join(folder).canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no folder `{folder}`"),
            _ => format!("cannot read the folder `{folder}`: {error}"),
        })?;
        if !from.starts_with(&root) {
            return Err(format!("`{folder}` is not below the workflow's folder"));
        }
        if !from.is_dir() {
            return Err(format!("`{folder}` is no folder"));
        }
        let mut walk = Walk { root: &root, files: BTreeMap::new(), bytes: 0, entries: 0 };
        walk.folder(&from, "", 1).map_err(|why| format!("the folder `{folder}` cannot be granted: {why}"))?;
        self.folders.insert(name.to_owned(), walk.files);
        Ok(())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("invariant: texts are JSON")
    }

    /// # Errors
    /// Says why the bytes are no folders.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let content: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match content.version {
            VERSION => Ok(content),
            other => Err(format!("they have version {other}; this release reads version {VERSION}")),
        }
    }

    /// # Errors
    /// Says which file cannot be granted.
    pub(super) fn granted(&self) -> Result<GrantedFolders, String> {
        let mut granted = GrantedFolders::default();
        for (name, files) in &self.folders {
            let files = files.iter().map(|(path, stored)| Ok((path.as_str(), stored.bytes()?)));
            let files = files.collect::<Result<Vec<_>, String>>()?;
            granted.add(name, files.iter().map(|(path, bytes)| (*path, bytes.as_slice())))?;
        }
        Ok(granted)
    }
}

/// Reads what is in a folder.
struct Walk<'a> {
    root: &'a Path,
    files: BTreeMap<String, Stored>,
    bytes: u64,
    entries: u64,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, before: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("`{before}` is more than {DEPTH_MAX} folders deep"));
        }
        let failed = |error: std::io::Error| format!("`{before}`: {error}");
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(format!("the name `{before}{}` is not UTF-8", name.to_string_lossy()));
            };
            let path = format!("{before}{name}");
            self.entries += 1;
            if self.entries >= GRANTED_ENTRIES_MAX {
                return Err(format!("it has more than {GRANTED_ENTRIES_MAX} files and folders"));
            }
            let kind = entry.file_type().map_err(|error| format!("`{path}`: {error}"))?;
            if kind.is_dir() {
                self.folder(&entry.path(), &format!("{path}/"), depth + 1)?;
            } else {
                let stored = self.file(&entry.path()).map_err(|why| format!("`{path}` {why}"))?;
                self.files.insert(path, stored);
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<Stored, String> {
        let said = |error: std::io::Error| format!("cannot be read: {error}");
        let path = path.canonicalize().map_err(said)?;
        if !path.starts_with(self.root) {
            return Err("is a link out of the workflow's folder".to_owned());
        }
        // A pipe might never end.
        if !path.metadata().map_err(said)?.is_file() {
            return Err("is no file, nor a link to one".to_owned());
        }
        let left = GRANTED_BYTES_MAX.saturating_sub(self.bytes);
        let mut bytes = Vec::new();
        File::open(&path).and_then(|file| file.take(left + 1).read_to_end(&mut bytes)).map_err(said)?;
        if bytes.len() as u64 > left {
            return Err(format!("does not fit: all files together have more than {GRANTED_BYTES_MAX} bytes"));
        }
        self.bytes += bytes.len() as u64;
        Ok(Stored::of(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_stored() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("docs/deep/empty")).unwrap();
        std::fs::write(at("docs/a.txt"), "text").unwrap();
        std::fs::write(at("docs/deep/b.bin"), [0, 255]).unwrap();
        std::os::unix::fs::symlink("../a.txt", at("docs/deep/link")).unwrap();
        let mut content = Content::new();
        content.read(root.path(), "docs", "./docs").unwrap();
        let bytes = content.to_bytes();
        let again = Content::from_bytes(&bytes).unwrap();
        assert_eq!(again.to_bytes(), bytes);
        let paths: Vec<_> = again.folders["docs"].keys().map(String::as_str).collect();
        assert_eq!(paths, ["a.txt", "deep/b.bin", "deep/link"]);
        assert_eq!(again.folders["docs"]["deep/b.bin"].bytes().unwrap(), [0, 255]);
        assert!(again.granted().is_ok());
        assert!(Content::from_bytes(b"{\"wfhost-folders\":2,\"folders\":{}}").err().unwrap().contains("version 2"));
    }

    #[test]
    fn nothing_outside_and_nothing_endless_is_read() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        let root = tempfile::tempdir().unwrap();
        let read = |folder: &str| Content::new().read(root.path(), "docs", folder).unwrap_err();
        assert!(read("none").contains("there is no folder"));
        for folder in ["..", "/", outside.path().to_str().unwrap(), "./docs/../.."] {
            std::fs::create_dir_all(root.path().join("docs")).unwrap();
            assert!(read(folder).contains("not below the workflow's folder"), "{folder}");
        }
        let docs = root.path().join("docs");
        std::os::unix::fs::symlink(outside.path(), root.path().join("out")).unwrap();
        assert!(read("out").contains("not below"));
        let link = |target: &Path| {
            let _ = std::fs::remove_file(docs.join("link"));
            std::os::unix::fs::symlink(target, docs.join("link")).unwrap();
            read("docs")
        };
        assert!(link(&outside.path().join("secret")).contains("out of the workflow's folder"));
        assert!(link(&docs).contains("nor a link to one"));
        assert!(link(Path::new("/dev/zero")).contains("out of the workflow's folder"));
        std::fs::remove_file(docs.join("link")).unwrap();
        std::fs::write(docs.join("file"), "").unwrap();
        assert!(read("docs/file").contains("is no folder"));
        let socket = std::os::unix::net::UnixListener::bind(docs.join("socket")).unwrap();
        assert!(read("docs").contains("nor a link to one"));
        drop(socket);
        std::fs::remove_file(docs.join("socket")).unwrap();
        std::fs::File::create(docs.join("large")).unwrap().set_len(GRANTED_BYTES_MAX + 1).unwrap();
        assert!(read("docs").contains("more than 67108864 bytes"));
    }
}
