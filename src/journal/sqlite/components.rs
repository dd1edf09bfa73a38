//! Components by their content, in the folder of the store.
//!
//! A file is written under a temporary name, synced, and renamed. A host that is about to name it
//! in a run touches it first: a file that no run names is deleted when it is old, and not before.
//! Its name is the BLAKE3 of its content, and is checked whenever the file is read: a disk, or a
//! person, may have changed it.

use crate::journal::component::{COMPONENT_BYTES_MAX, is_digest, is_of, other_content};
use crate::journal::{ComponentStoreError, layout};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Age from which on a component is touched: well below the age at which it may be deleted.
/// Arbitrary.
const TOUCH_AGE_MIN: Duration = Duration::from_mins(1);

/// The components that runs of a data folder name.
#[derive(Debug)]
pub(crate) struct ComponentStore {
    folder: PathBuf,
    /// Files whose content this process has checked, as they were then: starts of further runs do
    /// not read them again.
    checked: Mutex<HashMap<String, FileVersion>>,
}

/// A file that changes has another time or length.
type FileVersion = (SystemTime, u64);

impl ComponentStore {
    /// The components of a data folder.
    pub(crate) fn of(data: &Path) -> Self {
        Self { folder: data.join(layout::COMPONENTS), checked: Mutex::default() }
    }

    /// The path of the component with this BLAKE3 in hexadecimal.
    fn path(&self, hash: &str) -> PathBuf {
        self.folder.join(format!("{hash}.wasm"))
    }

    /// Reads a stored component and checks its content.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is not what its name says.
    pub(crate) fn read(&self, hash: &str) -> Result<Vec<u8>, ComponentStoreError> {
        let path = self.path(hash);
        if !is_digest(hash) {
            return Err(ComponentStoreError::Unreadable { path, error: io::ErrorKind::NotFound.into() });
        }
        let read = File::open(&path).and_then(|file| Ok((file.metadata()?, read_file(&path)?)));
        let (metadata, bytes) = read.map_err(|error| ComponentStoreError::Unreadable { path: path.clone(), error })?;
        if !is_of(&bytes, hash) {
            return Err(ComponentStoreError::Damaged { path });
        }
        self.note_checked(hash, &metadata);
        Ok(bytes)
    }

    /// Stores a component, or touches its file. When it returns, the file is durable. A file with
    /// other content is replaced.
    ///
    /// # Errors
    /// Returns the error of the operating system; or the bytes have another digest.
    pub(crate) fn store(&self, hash: &str, bytes: &[u8]) -> io::Result<()> {
        if self.is_checked(hash) || self.is_there(hash, bytes) {
            match self.touch(hash) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                touched => return touched,
            }
        }
        if !is_of(bytes, hash) {
            return Err(other_content());
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
        self.note_checked(hash, &file.metadata()?);
        File::open(&self.folder)?.sync_all()
    }

    /// Returns whether the file exists and has these bytes.
    fn is_there(&self, hash: &str, bytes: &[u8]) -> bool {
        let path = self.path(hash);
        let read = File::open(&path).and_then(|file| Ok((file.metadata()?, read_file(&path)?)));
        read.is_ok_and(|(metadata, stored)| {
            let is_same = stored == bytes;
            if is_same {
                self.note_checked(hash, &metadata);
            }
            is_same
        })
    }

    /// Returns the number of bytes of a stored component; `None` if there is none, or the text is
    /// no BLAKE3 in hexadecimal. It stays for a while from now on.
    pub(crate) fn bytes(&self, hash: &str) -> Option<u64> {
        if !is_digest(hash) {
            return None;
        }
        self.touch(hash).ok()?;
        Some(std::fs::metadata(self.path(hash)).ok()?.len())
    }

    /// Makes the file of a stored component young, if it is not.
    fn touch(&self, hash: &str) -> io::Result<()> {
        let path = self.path(hash);
        let is_young = |at: SystemTime| at.elapsed().is_ok_and(|age| age < TOUCH_AGE_MIN);
        if std::fs::metadata(&path)?.modified().is_ok_and(is_young) {
            return Ok(());
        }
        let file = File::options().append(true).open(path)?;
        file.set_modified(SystemTime::now())?;
        self.note_checked(hash, &file.metadata()?);
        Ok(())
    }

    fn note_checked(&self, hash: &str, metadata: &Metadata) {
        if let Ok(modified) = metadata.modified() {
            self.checked.lock().insert(hash.to_owned(), (modified, metadata.len()));
        }
    }

    /// Returns whether a file is still the one that was checked.
    fn is_checked(&self, hash: &str) -> bool {
        let checked = self.checked.lock().get(hash).copied();
        let now = std::fs::metadata(self.path(hash)).and_then(|file| Ok((file.modified()?, file.len())));
        checked.is_some() && now.ok() == checked
    }
}

/// Reads a file, up to one byte more than any component may have.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let most = COMPONENT_BYTES_MAX as u64 + 1;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    // A pipe might never end.
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    // One more than the file has, so that its end is found without another allocation.
    let mut bytes = Vec::with_capacity(metadata.len().min(most) as usize + 1);
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_one() -> (tempfile::TempDir, ComponentStore, String) {
        let folder = tempfile::tempdir().unwrap();
        let components = ComponentStore::of(folder.path());
        let hash = blake3::hash(b"wasm").to_hex().to_string();
        components.store(&hash, b"wasm").unwrap();
        (folder, components, hash)
    }

    fn make_old(path: &Path) -> SystemTime {
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        File::options().append(true).open(path).unwrap().set_modified(old).unwrap();
        old
    }

    #[test]
    fn a_component_is_stored_once_and_touched() {
        let (folder, components, hash) = with_one();
        let path = components.path(&hash);
        assert_eq!(std::fs::read(&path).unwrap(), b"wasm");
        let old = make_old(&path);
        components.store(&hash, b"wasm").unwrap();
        assert!(std::fs::metadata(&path).unwrap().modified().unwrap() > old);
        assert_eq!(std::fs::read_dir(folder.path().join("components")).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_what_its_name_says_is_not_read_and_is_replaced() {
        let (folder, components, hash) = with_one();
        let path = components.path(&hash);
        for bytes in [&b"wasp"[..], b"", b"more than there was"] {
            std::fs::write(&path, bytes).unwrap();
            assert!(
                matches!(components.read(&hash), Err(ComponentStoreError::Damaged { path: named }) if named == path)
            );
            // By one that has not checked it before, and by one that has.
            for components in [&ComponentStore::of(folder.path()), &components] {
                std::fs::write(&path, bytes).unwrap();
                make_old(&path);
                components.store(&hash, b"wasm").unwrap();
                assert_eq!(components.read(&hash).unwrap(), b"wasm");
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(components.read(&hash), Err(ComponentStoreError::Unreadable { .. })));
        components.store(&hash, b"wasm").unwrap();
        assert_eq!(components.read(&hash).unwrap(), b"wasm");
    }
}
