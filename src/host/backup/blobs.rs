//! The blobs of a backup: their files, by the digests that are their names.

use super::{BackupError, io_of, sync_folder};
use crate::journal::blobs::BlobFolder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The blobs of a folder, and those that are copied from it.
pub(super) struct Blobs {
    from: BlobFolder,
    to: BlobFolder,
    /// The bytes of each, by its digest in hexadecimal.
    pub(super) copied: BTreeMap<String, u64>,
}

impl Blobs {
    /// The blobs of these folders, which may not exist.
    pub(super) fn new(from: PathBuf, to: PathBuf) -> Self {
        Self { from: BlobFolder::new(from), to: BlobFolder::new(to), copied: BTreeMap::new() }
    }

    /// Copies what is there now. A file that vanishes meanwhile was of a run that is removed, and
    /// one that is damaged is left out.
    pub(super) fn copy_all(&mut self) -> Result<(), BackupError> {
        for hash in self.from.hashes().map_err(io_of(self.from.path()))? {
            let name = blake3::Hash::from_bytes(hash).to_hex().to_string();
            if self.copied.contains_key(&name) {
                continue;
            }
            if let Copied::Whole(bytes) = self.copy(&hash)? {
                self.copied.insert(name, bytes);
            }
        }
        Ok(())
    }

    /// Copies one, and checks it on the way.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(super) fn copy(&self, hash: &[u8; 32]) -> Result<Copied, BackupError> {
        let (from, to) = (self.from.path_of(hash), self.to.path_of(hash));
        let source = match File::open(&from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Copied::Missing),
            source => source.map_err(io_of(&from))?,
        };
        let folder = to.parent().expect("invariant: it is in a folder");
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io_of(folder))?;
        let (bytes, found) = copy_file(source, &to).map_err(io_of(&to))?;
        if found != *hash {
            std::fs::remove_file(&to).map_err(io_of(&to))?;
            return Ok(Copied::Damaged);
        }
        sync_folder(folder)?;
        sync_folder(self.to.path())?;
        Ok(Copied::Whole(bytes))
    }

    /// Those of `named` that are not copied, and why.
    pub(super) fn missing(&self, named: &BTreeSet<String>) -> BTreeMap<String, String> {
        let missing = named.iter().filter(|hash| !self.copied.contains_key(*hash));
        missing.map(|hash| (hash.clone(), "the blob is missing or damaged".to_owned())).collect()
    }
}

/// What came of a copy.
#[derive(PartialEq, Eq)]
pub(super) enum Copied {
    /// Its bytes.
    Whole(u64),
    Missing,
    Damaged,
}

fn copy_file(mut source: File, to: &Path) -> io::Result<(u64, [u8; 32])> {
    let mut target = File::options().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let (mut hasher, mut bytes, mut chunk) = (blake3::Hasher::new(), 0, vec![0; CHUNK_BYTES]);
    loop {
        let length = source.read(&mut chunk)?;
        if length == 0 {
            target.sync_all()?;
            return Ok((bytes, hasher.finalize().into()));
        }
        hasher.update(&chunk[..length]);
        target.write_all(&chunk[..length])?;
        bytes += length as u64;
    }
}
