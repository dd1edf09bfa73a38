//! Components by their content, in the folder of durable runs: a run is taken up with what it was started with, whatever became of the files.
//!
//! A file is written beside its place, synced, and renamed. Whoever is about to name it in a run makes it young again first: what
//! nobody names is deleted when it is old, and not before.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long a component is young enough: well below the age at which it may be deleted. Arbitrary.
const YOUNG: Duration = Duration::from_mins(1);

/// The components that runs of a data folder name.
#[derive(Clone, Debug)]
pub(crate) struct Kept(PathBuf);

impl Kept {
    /// Those of a data folder.
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.join("components"))
    }

    /// Where the component with this BLAKE3 in hexadecimal is.
    pub(crate) fn path(&self, hash: &str) -> PathBuf {
        self.0.join(format!("{hash}.wasm"))
    }

    /// Keeps a component, and makes it young. When it returns, the file is durable.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn keep(&self, hash: &str, bytes: &[u8]) -> io::Result<()> {
        match self.touch(hash) {
            // Only a whole file is ever renamed to its place.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            touched => return touched,
        }
        let path = self.path(hash);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let temporary = self.0.join(format!("{hash}.{}.new", std::process::id()));
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| std::fs::rename(&temporary, &path)) {
            let _ = std::fs::remove_file(&temporary);
            return Err(error);
        }
        File::open(&self.0)?.sync_all()
    }

    /// Makes a kept component young.
    ///
    /// # Errors
    /// It is not there, or the system says no.
    pub(crate) fn touch(&self, hash: &str) -> io::Result<()> {
        let path = self.path(hash);
        let is_young = |at: SystemTime| at.elapsed().is_ok_and(|age| age < YOUNG);
        if std::fs::metadata(&path)?.modified().is_ok_and(is_young) {
            return Ok(());
        }
        File::options().append(true).open(path)?.set_modified(SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_there_once_and_made_young() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::of(folder.path());
        kept.keep("a", b"wasm").unwrap();
        let path = kept.path("a");
        assert_eq!(std::fs::read(&path).unwrap(), b"wasm");
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
        kept.keep("a", b"wasm").unwrap();
        assert!(std::fs::metadata(&path).unwrap().modified().unwrap() > old);
        assert_eq!(std::fs::read_dir(folder.path().join("components")).unwrap().count(), 1);
    }
}
