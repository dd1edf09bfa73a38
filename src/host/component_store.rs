//! Components by their content, in the folder of durable runs: a run is taken up with what it was started with, whatever became of the files.
//!
//! A file is written beside its place, synced, and renamed. Whoever is about to name it in a run makes it young again first: what
//! nobody names is deleted when it is old, and not before. Its name is the BLAKE3 of its content, and is believed of no file that is read:
//! a disk, or a person, may have changed it.

use super::component_file;
use crate::journal::layout;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long a component is young enough: well below the age at which it may be deleted. Arbitrary.
const YOUNG: Duration = Duration::from_mins(1);

/// The components that runs of a data folder name.
#[derive(Debug)]
pub(crate) struct ComponentStore {
    folder: PathBuf,
    /// Files whose content this process has seen to be right, as they were then: starts of many runs read none of them again.
    seen: Mutex<HashMap<String, Seen>>,
}

/// A file that changes has another time or length.
type Seen = (SystemTime, u64);

/// A kept component cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentStoreError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// It is not what it was when it was kept.
    #[error("{} is damaged: its content is not the one that it is named after", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl ComponentStore {
    /// Those of a data folder.
    pub(crate) fn of(data: &Path) -> Self {
        Self { folder: data.join(layout::COMPONENTS), seen: Mutex::default() }
    }

    /// Where the component with this BLAKE3 in hexadecimal is.
    fn path(&self, hash: &str) -> PathBuf {
        self.folder.join(format!("{hash}.wasm"))
    }

    /// The content of a kept component.
    ///
    /// # Errors
    /// It cannot be read, or is not what its name says.
    pub(crate) fn read(&self, hash: &str) -> Result<Vec<u8>, ComponentStoreError> {
        let path = self.path(hash);
        let read = File::open(&path).and_then(|file| Ok((file.metadata()?, component_file::read(&path)?)));
        let (metadata, bytes) = read.map_err(|error| ComponentStoreError::Unreadable { path: path.clone(), error })?;
        if !is_of(&bytes, hash) {
            return Err(ComponentStoreError::Damaged { path });
        }
        self.see(hash, &metadata);
        Ok(bytes)
    }

    /// Keeps a component, and makes it young. When it returns, the file is durable. One that is there and is not this one is replaced.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn keep(&self, hash: &str, bytes: &[u8]) -> io::Result<()> {
        if self.is_seen(hash) || self.is_there(hash, bytes) {
            match self.touch(hash) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                touched => return touched,
            }
        }
        let path = self.path(hash);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let temporary = self.folder.join(format!("{hash}.{}.new", std::process::id()));
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| std::fs::rename(&temporary, &path)) {
            let _ = std::fs::remove_file(&temporary);
            return Err(error);
        }
        self.see(hash, &file.metadata()?);
        File::open(&self.folder)?.sync_all()
    }

    /// Whether a file is there and has these bytes.
    fn is_there(&self, hash: &str, bytes: &[u8]) -> bool {
        let path = self.path(hash);
        let read = File::open(&path).and_then(|file| Ok((file.metadata()?, component_file::read(&path)?)));
        read.is_ok_and(|(metadata, kept)| {
            let is_same = kept == bytes;
            if is_same {
                self.see(hash, &metadata);
            }
            is_same
        })
    }

    /// Makes a kept component young.
    fn touch(&self, hash: &str) -> io::Result<()> {
        let path = self.path(hash);
        let is_young = |at: SystemTime| at.elapsed().is_ok_and(|age| age < YOUNG);
        if std::fs::metadata(&path)?.modified().is_ok_and(is_young) {
            return Ok(());
        }
        let file = File::options().append(true).open(path)?;
        file.set_modified(SystemTime::now())?;
        self.see(hash, &file.metadata()?);
        Ok(())
    }

    fn see(&self, hash: &str, metadata: &Metadata) {
        if let Ok(modified) = metadata.modified() {
            self.seen.lock().insert(hash.to_owned(), (modified, metadata.len()));
        }
    }

    /// Whether a file is still the one that was seen to be right.
    fn is_seen(&self, hash: &str) -> bool {
        let seen = self.seen.lock().get(hash).copied();
        let now = std::fs::metadata(self.path(hash)).and_then(|file| Ok((file.modified()?, file.len())));
        seen.is_some() && now.ok() == seen
    }
}

/// Whether bytes are those of the component with this BLAKE3 in hexadecimal.
pub(crate) fn is_of(bytes: &[u8], hash: &str) -> bool {
    *blake3::hash(bytes).to_hex() == *hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> (tempfile::TempDir, ComponentStore, String) {
        let folder = tempfile::tempdir().unwrap();
        let kept = ComponentStore::of(folder.path());
        let hash = blake3::hash(b"wasm").to_hex().to_string();
        kept.keep(&hash, b"wasm").unwrap();
        (folder, kept, hash)
    }

    fn make_old(path: &Path) -> SystemTime {
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        File::options().append(true).open(path).unwrap().set_modified(old).unwrap();
        old
    }

    #[test]
    fn what_is_kept_is_there_once_and_made_young() {
        let (folder, kept, hash) = kept();
        let path = kept.path(&hash);
        assert_eq!(std::fs::read(&path).unwrap(), b"wasm");
        let old = make_old(&path);
        kept.keep(&hash, b"wasm").unwrap();
        assert!(std::fs::metadata(&path).unwrap().modified().unwrap() > old);
        assert_eq!(std::fs::read_dir(folder.path().join("components")).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_what_its_name_says_is_not_read_and_is_replaced() {
        let (folder, kept, hash) = kept();
        let path = kept.path(&hash);
        for bytes in [&b"wasp"[..], b"", b"more than there was"] {
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(kept.read(&hash), Err(ComponentStoreError::Damaged { path: told }) if told == path));
            // By whoever has not seen it before, and by whoever has.
            for kept in [&ComponentStore::of(folder.path()), &kept] {
                std::fs::write(&path, bytes).unwrap();
                make_old(&path);
                kept.keep(&hash, b"wasm").unwrap();
                assert_eq!(kept.read(&hash).unwrap(), b"wasm");
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(kept.read(&hash), Err(ComponentStoreError::Unreadable { .. })));
        kept.keep(&hash, b"wasm").unwrap();
        assert_eq!(kept.read(&hash).unwrap(), b"wasm");
    }
}
