//! A folder of blobs with its references, as a [`BlobStore`].

use super::folder::{self, BlobFolder, NewFile, hash_from_hex, read_at};
use super::references::{Reference, References, digest_of};
use crate::process::Blob;
use crate::run::{BlobBounds, BlobCheck, BlobError, BlobReader, BlobStore, BlobWriter, MEDIA_TYPE_BYTES_MAX};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

/// Bytes whose digests a check computes, of the first blobs; of the others it compares the length.
/// Arbitrary: some seconds.
const CHECKED_BYTES_MAX: u64 = 4 << 30;

/// A folder of blobs, and who holds them. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct StoredBlobs {
    folder: Arc<BlobFolder>,
    references: Arc<dyn References>,
}

impl StoredBlobs {
    pub(crate) fn new(folder: Arc<BlobFolder>, references: Arc<dyn References>) -> Self {
        Self { folder, references }
    }

    /// Removes those of these blobs that no run holds.
    pub(crate) fn remove_if_unheld(&self, hashes: &[[u8; 32]]) -> Result<(), BlobError> {
        self.references.remove_if_unheld(hashes, &mut |hash| self.folder.remove(hash))
    }

    /// The digests that a run holds.
    pub(crate) fn hashes_of(&self, run: &str) -> Result<Vec<[u8; 32]>, BlobError> {
        Ok(self.references.held_by(run)?.into_iter().map(|reference| reference.hash).collect())
    }

    fn reference(&self, run: &str, digest: &str) -> Result<Reference, BlobError> {
        self.references.held(run, &hash_of(digest)?)?.ok_or_else(|| BlobError::unknown(digest))
    }
}

/// The hash in the digest of a handle.
fn hash_of(digest: &str) -> Result<[u8; 32], BlobError> {
    digest.strip_prefix("blake3:").and_then(hash_from_hex).ok_or_else(|| BlobError::unknown(digest))
}

impl BlobStore for StoredBlobs {
    fn create(&self, run: &str, bounds: &BlobBounds) -> Result<Box<dyn BlobWriter>, BlobError> {
        let file = self.folder.create()?;
        Ok(Box::new(Writer { store: self.clone(), run: run.to_owned(), bounds: *bounds, file }))
    }

    fn open(&self, run: &str, digest: &str) -> Result<Box<dyn BlobReader>, BlobError> {
        let reference = self.reference(run, digest)?;
        let file = self.folder.open(&reference.hash, reference.size)?;
        let file = file.ok_or_else(|| BlobError::Gone { digest: digest_of(&reference.hash) })?;
        Ok(Box::new(Reader { file, reference }))
    }

    fn held_by(&self, run: &str) -> Result<Vec<Blob>, BlobError> {
        Ok(self.references.held_by(run)?.iter().map(Reference::blob).collect())
    }

    fn share(&self, digest: &str, from: &str, to: &str, bounds: &BlobBounds) -> Result<(), BlobError> {
        self.references.share(&hash_of(digest)?, from, to, bounds)
    }

    fn release(&self, run: &str) -> Result<(), BlobError> {
        self.references.release(run)?;
        self.references.remove_unheld(&mut |hash| self.folder.remove(hash)).map(drop)
    }

    fn check(&self, most: usize) -> Result<BlobCheck, BlobError> {
        let mut checked = BlobCheck::default();
        let mut left = CHECKED_BYTES_MAX;
        for (hash, size) in self.references.all()? {
            checked.blobs += 1;
            checked.bytes += size;
            let path = self.folder.path_of(&hash);
            let finding = match std::fs::metadata(&path) {
                Err(error) => Some(error.to_string()),
                Ok(file) if file.len() != size => Some(format!("it has {} bytes of {size}", file.len())),
                Ok(_) if size > left => None,
                Ok(_) => {
                    left -= size;
                    self.folder.open(&hash, size).err().map(|_| "its content is not that of its digest".to_owned())
                }
            };
            if let Some(finding) = finding.filter(|_| checked.findings.len() < most) {
                checked.findings.push(format!("{}: {finding}", path.display()));
            }
        }
        Ok(checked)
    }

    fn sweep(&self) -> Result<u64, BlobError> {
        let bytes = self.references.remove_unheld(&mut |hash| self.folder.remove(hash))?;
        let fails = folder::of(self.folder.path());
        self.folder.remove_abandoned().map_err(&fails)?;
        // What is there and in no table: a process was killed as it stored it.
        let known: BTreeSet<_> = self.references.all()?.into_iter().map(|(hash, _)| hash).collect();
        let files = self.folder.hashes().map_err(&fails)?;
        let strays: Vec<_> = files.into_iter().filter(|hash| !known.contains(hash)).collect();
        self.remove_if_unheld(&strays)?;
        Ok(bytes)
    }
}

struct Writer {
    store: StoredBlobs,
    run: String,
    bounds: BlobBounds,
    file: NewFile,
}

impl BlobWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if self.file.size().saturating_add(bytes.len() as u64) > self.bounds.blob_bytes {
            return Err(BlobError::TooLarge { bytes_max: self.bounds.blob_bytes });
        }
        self.file.write(bytes)
    }

    fn size(&self) -> u64 {
        self.file.size()
    }

    fn finish(self: Box<Self>, media_type: &str) -> Result<Blob, BlobError> {
        let Self { store, run, bounds, file } = *self;
        let hash = file.sync()?;
        let size = file.size();
        let media_type = media_type[..media_type.floor_char_boundary(MEDIA_TYPE_BYTES_MAX)].to_owned();
        let reference = Reference { hash, size, media_type };
        let mut file = Some(file);
        store.references.hold(&run, &reference, &bounds, &mut || {
            file.take().map_or(Ok(()), |file| store.folder.place(file, &hash))
        })?;
        Ok(reference.blob())
    }
}

struct Reader {
    file: File,
    reference: Reference,
}

impl BlobReader for Reader {
    fn size(&self) -> u64 {
        self.reference.size
    }

    fn media_type(&self) -> &str {
        &self.reference.media_type
    }

    fn read(&self, offset: u64, length: usize) -> Result<Bytes, BlobError> {
        let left = self.reference.size.saturating_sub(offset);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        let digest = || digest_of(&self.reference.hash);
        // It was as long as its reference says when it was opened.
        let bytes = read_at(&self.file, offset, length).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => BlobError::Damaged { digest: digest() },
            _ => BlobError::Unusable(format!("{}: {error}", digest())),
        })?;
        Ok(bytes.into())
    }
}
