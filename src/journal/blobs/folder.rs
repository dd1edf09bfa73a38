//! The files of blobs.

use super::references::digest_of;
use crate::run::BlobError;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// The folder of files that are being written.
const NEW: &str = "new";

/// Bytes that are read at once to compute a digest. Arbitrary.
const CHUNK_BYTES: usize = 1 << 20;

/// Names that are tried for a file: a sweep may remove one before it is locked. Arbitrary.
const TRIES_MAX: usize = 100;

/// Distinguishes the files that this process writes.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A file that changes has another time, length or inode.
type FileVersion = (SystemTime, u64, u64);

/// A folder of blobs. Several processes may use it.
#[derive(Debug)]
pub(crate) struct BlobFolder {
    folder: PathBuf,
    /// Files whose content this process has checked, as they were then.
    checked: Mutex<HashMap<[u8; 32], FileVersion>>,
}

impl BlobFolder {
    /// The blobs of this folder, which is made when it is first needed.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, checked: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// The path of a blob's file.
    pub(crate) fn path_of(&self, hash: &[u8; 32]) -> PathBuf {
        let hex = blake3::Hash::from_bytes(*hash).to_hex();
        self.folder.join(&hex.as_str()[..2]).join(hex.as_str())
    }

    /// Begins a file.
    pub(super) fn create(&self) -> Result<NewFile, BlobError> {
        let folder = self.folder.join(NEW);
        for _ in 0..TRIES_MAX {
            let path = folder.join(format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed)));
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            let file = made.and_then(|()| create_locked(&path)).map_err(of(&path))?;
            if let Some(file) = file {
                return Ok(NewFile { path, file: Some(file), hasher: blake3::Hasher::new(), size: 0 });
            }
        }
        Err(BlobError::Unusable(format!("{}: files vanish as they are made", folder.display())))
    }

    /// Moves a finished file to the place of its digest, unless a good one is there.
    pub(super) fn place(&self, mut new: NewFile, hash: &[u8; 32]) -> Result<(), BlobError> {
        let path = self.path_of(hash);
        if self.is_checked(hash) {
            return Ok(());
        }
        let folder = path.parent().expect("invariant: it is in a folder");
        let rename = || {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            std::fs::rename(&new.path, &path)?;
            File::open(folder)?.sync_all()?;
            // The folder itself may be new.
            File::open(&self.folder)?.sync_all()
        };
        rename().map_err(of(&path))?;
        if let Some(metadata) = new.file.take().and_then(|file| file.metadata().ok()) {
            self.note_checked(hash, &metadata);
        }
        Ok(())
    }

    /// Opens the file of a blob of this size. `None` if there is none.
    pub(super) fn open(&self, hash: &[u8; 32], size: u64) -> Result<Option<File>, BlobError> {
        let path = self.path_of(hash);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(of(&path))?,
        };
        let metadata = file.metadata().map_err(of(&path))?;
        let is_known = self.checked.lock().get(hash).copied() == version(&metadata);
        if !is_known {
            let is_whole = metadata.is_file() && metadata.len() == size;
            if !is_whole || hash_of(&file).map_err(of(&path))? != *hash {
                return Err(BlobError::Damaged { digest: digest_of(hash) });
            }
            self.note_checked(hash, &metadata);
        }
        Ok(Some(file))
    }

    /// Removes the file of a blob.
    pub(super) fn remove(&self, hash: &[u8; 32]) -> io::Result<()> {
        self.checked.lock().remove(hash);
        match std::fs::remove_file(self.path_of(hash)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Returns the digests of the files that are there, in their order.
    pub(crate) fn hashes(&self) -> io::Result<Vec<[u8; 32]>> {
        let mut hashes = Vec::new();
        for folder in entries(&self.folder)?.into_iter().filter(|folder| folder.is_dir() && !folder.ends_with(NEW)) {
            let names = entries(&folder)?.into_iter();
            hashes.extend(names.filter_map(|path| hash_from_hex(path.file_name()?.to_str()?)));
        }
        hashes.sort_unstable();
        Ok(hashes)
    }

    /// Removes the files whose writers have ended.
    pub(crate) fn remove_abandoned(&self) -> io::Result<()> {
        entries(&self.folder.join(NEW))?.iter().try_for_each(|path| remove_abandoned(path))
    }

    fn note_checked(&self, hash: &[u8; 32], metadata: &Metadata) {
        if let Some(version) = version(metadata) {
            self.checked.lock().insert(*hash, version);
        }
    }

    /// Returns whether a file is still the one that was checked.
    fn is_checked(&self, hash: &[u8; 32]) -> bool {
        let known = self.checked.lock().get(hash).copied();
        known.is_some() && std::fs::metadata(self.path_of(hash)).ok().as_ref().and_then(version) == known
    }
}

/// The paths in a folder; none if there is no folder.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

fn version(metadata: &Metadata) -> Option<FileVersion> {
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

/// Makes a file that is locked as long as it is open. `None` if a sweep took it for one whose
/// writer has ended, in the moment before it was locked.
fn create_locked(path: &Path) -> io::Result<Option<File>> {
    // A process with this id may have left one.
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok((file.metadata()?.nlink() > 0).then_some(file)),
    }
}

/// Removes a file whose writer has ended: a living one has it locked.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let removed = File::options().write(true).open(path).and_then(|file| match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
        // Nobody locks it until it is gone.
        Ok(()) => std::fs::remove_file(path),
    });
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Reads a BLAKE3 in hexadecimal.
pub(super) fn hash_from_hex(text: &str) -> Option<[u8; 32]> {
    crate::journal::component::is_digest(text).then(|| blake3::Hash::from_hex(text).ok().map(Into::into))?
}

/// The digest of a whole file.
fn hash_of(mut file: &File) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(&chunk[..length]);
    }
}

/// Maps an error of the operating system with this file.
pub(super) fn of(path: &Path) -> impl Fn(io::Error) -> BlobError + use<> {
    let path = path.display().to_string();
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::DiskFull { path: path.clone() },
        _ => BlobError::Unusable(format!("{path}: {error}")),
    }
}

/// Reads a part of a file.
pub(super) fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// A file that is being written. Dropping it removes it.
pub(super) struct NewFile {
    path: PathBuf,
    /// `None` when it has been moved to its place.
    file: Option<File>,
    hasher: blake3::Hasher,
    size: u64,
}

impl NewFile {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let file = self.file.as_mut().expect("invariant: it is moved only by value");
        file.write_all(bytes).map_err(of(&self.path))?;
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Makes its bytes durable, and returns their digest.
    pub(super) fn sync(&self) -> Result<[u8; 32], BlobError> {
        let file = self.file.as_ref().expect("invariant: it is moved only by value");
        file.sync_all().map_err(of(&self.path))?;
        Ok(self.hasher.finalize().into())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
