//! Where the blobs of each run are: with its records, if it is durable, else in a folder that ends
//! with the host.

use super::durable::DataFolder;
use super::{Host, LoadError};
use crate::journal::blobs::{BlobFolder, MemoryReferences, StoredBlobs};
use crate::process::Blob;
use crate::run::{
    BlobBounds, BlobCheck, BlobError, BlobReader, BlobStore, BlobWriter, Durability, Log, Reading, RunBlobs, RunEnd,
};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

/// The blobs of all runs of a host.
pub(super) struct HostBlobs {
    data: Option<Weak<DataFolder>>,
    /// The runs that are in no journal.
    passing: Mutex<BTreeSet<Arc<str>>>,
    folder: OnceLock<Result<Passing, BlobError>>,
}

/// The folder of the runs that are in no journal.
struct Passing {
    path: PathBuf,
    blobs: StoredBlobs,
}

impl Passing {
    fn new() -> Result<Self, BlobError> {
        let mut random = [0; 32];
        super::random::fill(&mut random);
        let name = format!("wfhost-blobs-{}", blake3::Hash::from_bytes(random).to_hex());
        let path = std::env::temp_dir().join(name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| BlobError::Unusable(format!("{}: {error}", path.display())))?;
        let blobs = StoredBlobs::new(Arc::new(BlobFolder::new(path.clone())), Arc::new(MemoryReferences::default()));
        Ok(Self { path, blobs })
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl HostBlobs {
    pub(super) fn new(data: Option<&Arc<DataFolder>>) -> Arc<Self> {
        Arc::new(Self { data: data.map(Arc::downgrade), passing: Mutex::default(), folder: OnceLock::new() })
    }

    fn passing(&self) -> Result<&StoredBlobs, BlobError> {
        let folder = self.folder.get_or_init(Passing::new);
        folder.as_ref().map(|passing| &passing.blobs).map_err(Clone::clone)
    }

    /// Where the blobs of a run are.
    fn of(&self, run: &str) -> Result<Arc<dyn BlobStore>, BlobError> {
        let data = self.data.as_ref().filter(|_| !self.passing.lock().contains(run));
        let Some(data) = data else { return Ok(Arc::new(self.passing()?.clone())) };
        let data = data.upgrade().ok_or_else(|| BlobError::Unusable("the host has ended".to_owned()))?;
        let journal = data.journal().map_err(|error| BlobError::Unusable(error.to_string()))?;
        journal.store().blobs().ok_or_else(|| BlobError::Unusable("the journal stores no blobs".to_owned()))
    }

    /// The log of a run that is in no journal: while it exists, so do the run's blobs.
    pub(super) fn passing_log(self: &Arc<Self>, run: &Arc<str>, log: impl Log + 'static) -> Box<dyn Log> {
        self.passing.lock().insert(Arc::clone(run));
        Box::new(PassingLog { log, run: Arc::clone(run), blobs: Arc::clone(self) })
    }
}

impl BlobStore for HostBlobs {
    fn create(&self, run: &str, bounds: &BlobBounds) -> Result<Box<dyn BlobWriter>, BlobError> {
        self.of(run)?.create(run, bounds)
    }

    fn open(&self, run: &str, digest: &str) -> Result<Box<dyn BlobReader>, BlobError> {
        self.of(run)?.open(run, digest)
    }

    fn held_by(&self, run: &str) -> Result<Vec<Blob>, BlobError> {
        self.of(run)?.held_by(run)
    }

    fn share(&self, digest: &str, from: &str, to: &str, bounds: &BlobBounds) -> Result<(), BlobError> {
        let is_passing = |run: &str| self.passing.lock().contains(run);
        if is_passing(from) == is_passing(to) {
            return self.of(to)?.share(digest, from, to, bounds);
        }
        // They are in two folders.
        let reader = self.open(from, digest)?;
        let mut writer = self.create(to, bounds)?;
        let mut offset = 0;
        while offset < reader.size() {
            let chunk = reader.read(offset, 1 << 20)?;
            writer.write(&chunk)?;
            offset += chunk.len() as u64;
        }
        writer.finish(reader.media_type()).map(drop)
    }

    fn release(&self, run: &str) -> Result<(), BlobError> {
        self.of(run)?.release(run)
    }

    fn check(&self, most: usize) -> Result<BlobCheck, BlobError> {
        self.of("")?.check(most)
    }

    fn sweep(&self) -> Result<u64, BlobError> {
        self.of("")?.sweep()
    }
}

/// The log of a run that is in no journal.
struct PassingLog<L> {
    log: L,
    run: Arc<str>,
    blobs: Arc<HostBlobs>,
}

impl<L: Log> Log for PassingLog<L> {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.log.append(record)
    }

    fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    fn ended(&mut self, end: &RunEnd) -> Durability {
        self.log.ended(end)
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.log.records()
    }

    fn reading(&self) -> Option<Reading> {
        self.log.reading()
    }
}

impl<L> Drop for PassingLog<L> {
    fn drop(&mut self) {
        if let Some(Ok(folder)) = self.blobs.folder.get() {
            // What cannot be removed now goes with the folder.
            let _ = folder.blobs.release(&self.run);
        }
        self.blobs.passing.lock().remove(&self.run);
    }
}

impl Host {
    /// Returns the blobs of a run, whether or not it has begun: a run is given its inputs first. A
    /// run that is not durable is known by [`RunOptions`](super::RunOptions) only when it begins,
    /// so that `durable` says where its blobs are until then.
    pub fn blobs(&self, run: &str, durable: bool) -> RunBlobs {
        let run: Arc<str> = run.into();
        if !durable {
            self.shared.blobs.passing.lock().insert(Arc::clone(&run));
        }
        RunBlobs::new(Arc::clone(&self.shared.blobs) as Arc<dyn BlobStore>, run, self.shared.blob_bounds)
    }

    /// Returns an id that no run has.
    #[must_use]
    pub fn fresh_id() -> String {
        super::start::fresh_id()
    }

    /// Removes the blobs that no run holds, and returns their bytes. A run's removal removes its
    /// own; this finds those that a killed process has left.
    ///
    /// # Errors
    /// Fails if the store cannot be read or written.
    pub fn sweep_blobs(&self) -> Result<u64, BlobError> {
        self.shared.blobs.sweep()
    }

    /// Makes a holder that is no run hold nothing any more.
    ///
    /// # Errors
    /// Fails if the store cannot be written; after a day it holds nothing in any case.
    pub fn release_blobs(&self, holder: &str) -> Result<(), BlobError> {
        self.shared.blobs.release(holder)
    }

    /// Gives a new run the blobs that its inputs name.
    ///
    /// # Errors
    /// Fails if neither it nor one of the holders has one of them.
    pub(super) fn give_blobs(
        &self,
        run: &Arc<str>,
        inputs: &Map<String, Value>,
        holders: &[Arc<str>],
    ) -> Result<(), LoadError> {
        let (blobs, bounds) = (&self.shared.blobs, &self.shared.blob_bounds);
        for (name, value) in inputs {
            for blob in Blob::all_of(value) {
                let holders = std::iter::once(run).chain(holders);
                let mut given = Err(BlobError::unknown(&blob.digest));
                for holder in holders {
                    given = blobs.share(&blob.digest, holder, run, bounds);
                    if given.is_ok() {
                        break;
                    }
                }
                given.map_err(|error| LoadError::Inputs(vec![(format!("/{name}"), unfit(&error))]))?;
            }
        }
        Ok(())
    }

    /// Makes a new run hold all that another holds.
    pub(super) fn inherit_blobs(&self, from: &str, to: &Arc<str>) -> Result<(), BlobError> {
        let (blobs, bounds) = (&self.shared.blobs, &self.shared.blob_bounds);
        for blob in blobs.held_by(from)? {
            blobs.share(&blob.digest, from, to, bounds)?;
        }
        Ok(())
    }
}

/// Why a run is not given a blob.
fn unfit(error: &BlobError) -> String {
    match error {
        BlobError::Unknown { digest } => {
            format!("names the blob {digest}, which was not uploaded for this run, or not within the last day")
        }
        other => format!("names a blob that cannot be given to the run: {other}"),
    }
}
