//! Where blobs are: values that are too large to be carried, stored once by their digest.
//!
//! A run holds the blobs that it was given or has made. A handle is only text: it names a blob of a
//! run that holds it, and nothing anywhere else.
//!
//! - **B1** What a run holds is stored, durably; and a blob's handle is returned only when its run
//!   holds it. So no record names a blob that is not stored.
//! - **B2** What a run holds is not removed. What no run holds is removed, at the latest when the
//!   store is swept.
//! - **B3** What is read are the bytes of the digest, or it is an error.

use crate::process::problem::kind;
use crate::process::{Blob, Problem, ProblemClass};
use std::sync::Arc;

/// Bytes of the longest media type of a blob. Arbitrary.
pub const MEDIA_TYPE_BYTES_MAX: usize = 255;

/// The media type of a blob that was given none.
pub const MEDIA_TYPE: &str = "application/octet-stream";

/// How large blobs may be. All are the operator's, and arbitrary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BlobBounds {
    /// Bytes of one blob: 1 GiB.
    pub blob_bytes: u64,
    /// Bytes of all blobs that one run holds: 8 GiB.
    pub run_bytes: u64,
    /// Blobs that one run holds: 10,000.
    pub run_blobs: u64,
    /// Bytes of all blobs of a store: 64 GiB.
    pub store_bytes: u64,
}

impl Default for BlobBounds {
    fn default() -> Self {
        Self { blob_bytes: 1 << 30, run_bytes: 8 << 30, run_blobs: 10_000, store_bytes: 64 << 30 }
    }
}

/// Why a blob cannot be read or stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// The run was given no such blob.
    #[error("the run was given no blob {digest}")]
    Unknown {
        /// The digest that was asked for, as it was given, or cut.
        digest: String,
    },
    /// The stored bytes have another digest.
    #[error("the stored bytes of the blob {digest} are damaged")]
    Damaged {
        /// The blob.
        digest: String,
    },
    /// The run was given it, and its file is gone.
    #[error("the file of the blob {digest} is gone")]
    Gone {
        /// The blob.
        digest: String,
    },
    /// It is larger than a blob may be.
    #[error("a blob has at most {bytes_max} bytes")]
    TooLarge {
        /// The bound.
        bytes_max: u64,
    },
    /// The run would hold more than it may.
    #[error("the run holds {blobs} blobs of {bytes} bytes; it may hold {blobs_max} of {bytes_max}")]
    RunFull {
        /// Blobs that it holds.
        blobs: u64,
        /// Their bytes.
        bytes: u64,
        /// The bound of their number.
        blobs_max: u64,
        /// The bound of their bytes.
        bytes_max: u64,
    },
    /// The store would have more than it may.
    #[error("the blobs of all runs have {bytes} bytes; they may have {bytes_max}")]
    StoreFull {
        /// Bytes of all blobs.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// The disk has no room.
    #[error("{path}: the disk is full")]
    DiskFull {
        /// The file that was written.
        path: String,
    },
    /// The store cannot be read or written.
    #[error("{0}")]
    Unusable(String),
}

impl BlobError {
    /// The error for a digest that a run does not hold.
    #[must_use]
    pub fn unknown(digest: &str) -> Self {
        let mut digest = digest.to_owned();
        crate::process::problem::cut(&mut digest, 80);
        Self::Unknown { digest }
    }
}

impl From<BlobError> for Problem {
    fn from(error: BlobError) -> Self {
        let (kind, title, class) = match &error {
            BlobError::Unknown { .. } => (kind::BAD_BLOB, "The run was given no such blob", ProblemClass::Definite),
            BlobError::Damaged { .. } => (kind::BLOB_DAMAGED, "A stored blob is damaged", ProblemClass::Definite),
            BlobError::Gone { .. } => (kind::BLOB_DAMAGED, "A stored blob is gone", ProblemClass::Definite),
            BlobError::TooLarge { .. } => {
                (kind::BLOB_TOO_LARGE, "A blob is larger than allowed", ProblemClass::Definite)
            }
            BlobError::RunFull { .. } => {
                (kind::RUN_BLOBS_EXHAUSTED, "The run holds more blobs than allowed", ProblemClass::Definite)
            }
            BlobError::StoreFull { .. } => {
                (kind::BLOB_STORE_FULL, "The folder holds more blobs than allowed", ProblemClass::Retryable)
            }
            BlobError::DiskFull { .. } => {
                (kind::DISK_FULL, "There is no room on the disk for a blob", ProblemClass::Retryable)
            }
            BlobError::Unusable(_) => (kind::HOST_FAULT, "A blob cannot be stored or read", ProblemClass::Retryable),
        };
        Problem::new(kind, title).with_detail(error.to_string()).with_class(class)
    }
}

/// What a check of a store has found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlobCheck {
    /// The number of blobs.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong, each with the place of the blob.
    pub findings: Vec<String>,
}

/// Stores blobs. Its calls may wait for a disk.
#[allow(clippy::missing_errors_doc, reason = "BlobError says which there are")]
pub trait BlobStore: Send + Sync {
    /// Begins a blob that this run will hold.
    fn create(&self, run: &str, bounds: &BlobBounds) -> Result<Box<dyn BlobWriter>, BlobError>;

    /// Opens a blob that this run holds. Its bytes are those of its digest, as far as is known when
    /// it is opened.
    fn open(&self, run: &str, digest: &str) -> Result<Box<dyn BlobReader>, BlobError>;

    /// Returns the blobs that a run holds, ordered by their digests.
    fn held_by(&self, run: &str) -> Result<Vec<Blob>, BlobError>;

    /// Makes a run hold a blob that another one holds.
    fn share(&self, digest: &str, from: &str, to: &str, bounds: &BlobBounds) -> Result<(), BlobError>;

    /// Makes a run hold nothing any more.
    fn release(&self, run: &str) -> Result<(), BlobError>;

    /// Says how many blobs are stored, of how many bytes, and what is wrong with at most `most` of
    /// them.
    fn check(&self, most: usize) -> Result<BlobCheck, BlobError>;

    /// Removes what no run holds, and returns the number of its bytes.
    fn sweep(&self) -> Result<u64, BlobError>;
}

/// Writes one blob. Dropping it before it is finished leaves nothing.
#[allow(clippy::missing_errors_doc, reason = "BlobError says which there are")]
pub trait BlobWriter: Send {
    /// Appends bytes. After an error it is only good for being dropped.
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError>;

    /// Returns the bytes that were written.
    fn size(&self) -> u64;

    /// Makes it durable, and the run hold it.
    fn finish(self: Box<Self>, media_type: &str) -> Result<Blob, BlobError>;
}

/// Reads one blob.
#[allow(clippy::missing_errors_doc, reason = "BlobError says which there are")]
pub trait BlobReader: Send + Sync {
    /// Returns how many bytes it has.
    fn size(&self) -> u64;

    /// Returns the media type with which the run got it first.
    fn media_type(&self) -> &str;

    /// Reads at most so many bytes from an offset on; fewer only at its end.
    fn read(&self, offset: u64, length: usize) -> Result<bytes::Bytes, BlobError>;
}

/// The blobs of one run: what its handlers and guests see of a store.
#[derive(Clone)]
pub struct RunBlobs {
    store: Arc<dyn BlobStore>,
    run: Arc<str>,
    bounds: BlobBounds,
}

#[allow(clippy::missing_errors_doc, reason = "BlobError says which there are")]
impl RunBlobs {
    /// The blobs of this run.
    pub fn new(store: Arc<dyn BlobStore>, run: Arc<str>, bounds: BlobBounds) -> Self {
        Self { store, run, bounds }
    }

    /// Returns the bounds of its blobs.
    pub fn bounds(&self) -> &BlobBounds {
        &self.bounds
    }

    /// Begins a blob.
    pub fn create(&self) -> Result<Box<dyn BlobWriter>, BlobError> {
        self.store.create(&self.run, &self.bounds)
    }

    /// Stores bytes that are in memory.
    pub fn put(&self, bytes: &[u8], media_type: &str) -> Result<Blob, BlobError> {
        let mut writer = self.create()?;
        writer.write(bytes)?;
        writer.finish(media_type)
    }

    /// Opens a blob.
    pub fn open(&self, digest: &str) -> Result<Box<dyn BlobReader>, BlobError> {
        self.store.open(&self.run, digest)
    }

    /// Returns all of them.
    pub fn all(&self) -> Result<Vec<Blob>, BlobError> {
        self.store.held_by(&self.run)
    }
}

impl std::fmt::Debug for RunBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunBlobs").field("run", &self.run).finish_non_exhaustive()
    }
}
