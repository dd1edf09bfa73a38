//! Replacing a file that people keep beside their workflows: as a whole or not at all, and by one
//! process at a time.
//!
//! A process that replaces a file locks its folder (`flock`), which leaves nothing behind, whatever
//! the end of the process. So a temporary file that it finds then has no writer any more, and is
//! removed. *Rejected*: a lock of the file itself, which the next rename replaces together with it.
//!
//! Some network file systems have no locks of folders. There processes can still overwrite what
//! another one has written a moment ago, and temporary files stay.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A file that no other process replaces in the meantime.
pub(crate) struct ReplacedFile {
    path: PathBuf,
    /// What ends the names of temporary files.
    suffix: &'static str,
    folder: File,
}

impl ReplacedFile {
    /// Waits for the processes that are replacing a file of this folder. A symbolic link stays one,
    /// and its target is replaced.
    ///
    /// # Errors
    /// The error of the operating system; that of a symbolic link without a target, too.
    pub(crate) fn hold(path: &Path, suffix: &'static str) -> io::Result<Self> {
        let path = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
        let folder = File::open(folder_of(&path))?;
        let held = Self { path, suffix, folder };
        if held.lock() {
            held.remove_abandoned();
        }
        Ok(held)
    }

    /// Locks the folder. Returns whether it can be locked.
    fn lock(&self) -> bool {
        loop {
            match self.folder.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked.is_ok(),
            }
        }
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a text in the place of the file, whose permissions stay. `is_current` is asked at last,
    /// before the text is in its place.
    ///
    /// # Errors
    /// The error of the operating system, or of `is_current`. The file is as it was.
    pub(crate) fn replace(&self, text: &str, is_current: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let permissions: Option<Permissions> = fs::metadata(&self.path).ok().map(|metadata| metadata.permissions());
        let mut name = self.start();
        name.push(format!("{}{}", std::process::id(), self.suffix));
        let temporary = self.path.with_file_name(name);
        let write = || {
            let mut out = File::options().write(true).create_new(true).open(&temporary)?;
            if let Some(permissions) = permissions {
                out.set_permissions(permissions)?;
            }
            out.write_all(text.as_bytes())?;
            out.sync_all()?;
            is_current()?;
            fs::rename(&temporary, &self.path)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }

    /// How the names of temporary files begin.
    fn start(&self) -> OsString {
        let mut name = OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(".");
        name
    }

    /// Removes the temporary files of processes that were killed. They are no reason to fail.
    fn remove_abandoned(&self) {
        let start = self.start();
        let is_temporary = |name: &OsString| {
            let number = name.as_encoded_bytes().strip_prefix(start.as_encoded_bytes());
            let number = number.and_then(|rest| rest.strip_suffix(self.suffix.as_bytes()));
            number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
        };
        let names = fs::read_dir(folder_of(&self.path)).into_iter().flatten().flatten().map(|entry| entry.file_name());
        for name in names.filter(is_temporary) {
            let _ = fs::remove_file(self.path.with_file_name(name));
        }
    }
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_have_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.yaml");
        let others = [".m.yaml.-fmt", ".m.yaml.1x-fmt", ".n.yaml.1-fmt", "m.yaml.1-fmt", ".m.yaml.1"];
        for name in others.iter().chain(&[".m.yaml.1-fmt", ".m.yaml.4194304-fmt"]) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        ReplacedFile::hold(&path, "-fmt").unwrap().replace("a: 1\n", || Ok(())).unwrap();
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        let mut expected = [&others[..], &["m.yaml"]].concat();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_file_that_is_refused_at_last_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.yaml");
        fs::write(&path, "old").unwrap();
        let held = ReplacedFile::hold(&path, "-fmt").unwrap();
        assert!(held.replace("new", || Err(io::Error::other("changed"))).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_second_one_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        fs::write(&path, "0").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let held = ReplacedFile::hold(&path, "-new").unwrap();
                        let count: u32 = fs::read_to_string(&path).unwrap().parse().unwrap();
                        held.replace(&(count + 1).to_string(), || Ok(())).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "40");
    }

    #[test]
    fn the_target_of_a_link_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink("target", &link).unwrap();
        assert_eq!(ReplacedFile::hold(&link, "").err().unwrap().kind(), io::ErrorKind::NotFound);
        fs::write(&target, "old").unwrap();
        ReplacedFile::hold(&link, "").unwrap().replace("new", || Ok(())).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    }
}
