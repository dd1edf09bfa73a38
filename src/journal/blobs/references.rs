//! Which runs hold which blobs.

use crate::process::Blob;
use crate::run::{BlobBounds, BlobError};

/// A blob that a run is to hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    /// The BLAKE3 of the content.
    pub(crate) hash: [u8; 32],
    pub(crate) size: u64,
    pub(crate) media_type: String,
}

impl Reference {
    /// The blob's digest as handles have it.
    pub(crate) fn digest(&self) -> String {
        digest_of(&self.hash)
    }

    pub(crate) fn blob(&self) -> Blob {
        Blob { digest: self.digest(), size: self.size, media_type: self.media_type.clone() }
    }
}

/// A digest as handles have it.
pub(crate) fn digest_of(hash: &[u8; 32]) -> String {
    format!("blake3:{}", blake3::Hash::from_bytes(*hash).to_hex())
}

/// Removes the file of a blob that no run holds.
pub(crate) type Removal<'a> = dyn FnMut(&[u8; 32]) -> std::io::Result<()> + 'a;

/// Moves the file of a blob to its place.
pub(crate) type Place<'a> = dyn FnMut() -> Result<(), BlobError> + 'a;

/// Which runs hold which blobs. A change is durable when its call returns.
pub(crate) trait References: Send + Sync {
    /// Makes a run hold a blob. If it does already, that changes nothing but the time. `place` is
    /// called while none can be removed, and before the change is durable.
    fn hold(
        &self,
        run: &str,
        reference: &Reference,
        bounds: &BlobBounds,
        place: &mut Place<'_>,
    ) -> Result<(), BlobError>;

    /// Makes a run hold a blob that another one holds, unless that holds it no more: then its file
    /// may be gone.
    fn share(&self, hash: &[u8; 32], from: &str, to: &str, bounds: &BlobBounds) -> Result<(), BlobError>;

    /// Returns what a run holds under a digest.
    fn held(&self, run: &str, hash: &[u8; 32]) -> Result<Option<Reference>, BlobError>;

    /// Returns all that a run holds, ordered by digest.
    fn held_by(&self, run: &str) -> Result<Vec<Reference>, BlobError>;

    /// Returns the size of each blob that is stored, ordered by digest.
    fn all(&self) -> Result<Vec<([u8; 32], u64)>, BlobError>;

    /// Makes a run hold nothing.
    fn release(&self, run: &str) -> Result<(), BlobError>;

    /// Removes the blobs that no run holds: each while none can be added. Returns their bytes.
    fn remove_unheld(&self, remove: &mut Removal<'_>) -> Result<u64, BlobError>;

    /// Removes those of these files that no run holds: each while none can be added.
    fn remove_if_unheld(&self, hashes: &[[u8; 32]], remove: &mut Removal<'_>) -> Result<(), BlobError>;
}

/// Checks what a run would hold besides, and what all would.
pub(crate) fn check(
    size: u64,
    (blobs, bytes): (u64, u64),
    stored: Option<u64>,
    bounds: &BlobBounds,
) -> Result<(), BlobError> {
    if blobs >= bounds.run_blobs || bytes.saturating_add(size) > bounds.run_bytes {
        let (blobs_max, bytes_max) = (bounds.run_blobs, bounds.run_bytes);
        return Err(BlobError::RunFull { blobs, bytes, blobs_max, bytes_max });
    }
    match stored {
        Some(bytes) if bytes.saturating_add(size) > bounds.store_bytes => {
            Err(BlobError::StoreFull { bytes, bytes_max: bounds.store_bytes })
        }
        _ => Ok(()),
    }
}
