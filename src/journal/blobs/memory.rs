//! References that do not outlive their host.

use super::references::{Place, Reference, References, Removal, check, digest_of};
use crate::run::{BlobBounds, BlobError};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// References of runs that do not outlive their host.
#[derive(Default)]
pub(crate) struct MemoryReferences(Mutex<Held>);

#[derive(Default)]
struct Held {
    by_run: BTreeMap<String, BTreeMap<[u8; 32], Reference>>,
    /// The size of each blob that is stored, and how many runs hold it.
    blobs: BTreeMap<[u8; 32], (u64, u64)>,
}

impl Held {
    fn hold(
        &mut self,
        run: &str,
        reference: &Reference,
        bounds: &BlobBounds,
        place: &mut Place<'_>,
    ) -> Result<(), BlobError> {
        let Self { by_run, blobs } = self;
        let of_run = by_run.entry(run.to_owned()).or_default();
        if of_run.contains_key(&reference.hash) {
            return place();
        }
        let counts = (of_run.len() as u64, of_run.values().map(|reference| reference.size).sum());
        let is_stored = blobs.contains_key(&reference.hash);
        let stored = (!is_stored).then(|| blobs.values().map(|(size, _)| size).sum());
        check(reference.size, counts, stored, bounds)?;
        place()?;
        of_run.insert(reference.hash, reference.clone());
        blobs.entry(reference.hash).or_insert((reference.size, 0)).1 += 1;
        Ok(())
    }
}

impl References for MemoryReferences {
    fn hold(
        &self,
        run: &str,
        reference: &Reference,
        bounds: &BlobBounds,
        place: &mut Place<'_>,
    ) -> Result<(), BlobError> {
        self.0.lock().hold(run, reference, bounds, place)
    }

    fn share(&self, hash: &[u8; 32], from: &str, to: &str, bounds: &BlobBounds) -> Result<(), BlobError> {
        let mut held = self.0.lock();
        let reference = held.by_run.get(from).and_then(|held| held.get(hash)).cloned();
        let reference = reference.ok_or_else(|| BlobError::unknown(&digest_of(hash)))?;
        held.hold(to, &reference, bounds, &mut || Ok(()))
    }

    fn all(&self) -> Result<Vec<([u8; 32], u64)>, BlobError> {
        Ok(self.0.lock().blobs.iter().map(|(hash, (size, _))| (*hash, *size)).collect())
    }

    fn held(&self, run: &str, hash: &[u8; 32]) -> Result<Option<Reference>, BlobError> {
        Ok(self.0.lock().by_run.get(run).and_then(|held| held.get(hash)).cloned())
    }

    fn held_by(&self, run: &str) -> Result<Vec<Reference>, BlobError> {
        Ok(self.0.lock().by_run.get(run).map(|held| held.values().cloned().collect()).unwrap_or_default())
    }

    fn release(&self, run: &str) -> Result<(), BlobError> {
        let mut held = self.0.lock();
        let released = held.by_run.remove(run).unwrap_or_default();
        for hash in released.keys() {
            if let Some((_, runs)) = held.blobs.get_mut(hash) {
                *runs -= 1;
            }
        }
        Ok(())
    }

    fn remove_unheld(&self, remove: &mut Removal<'_>) -> Result<u64, BlobError> {
        let mut held = self.0.lock();
        let unheld: Vec<_> = held.blobs.iter().filter(|(_, (_, runs))| *runs == 0).map(|(hash, _)| *hash).collect();
        let mut bytes = 0;
        for hash in unheld {
            remove(&hash).map_err(|error| BlobError::Unusable(error.to_string()))?;
            bytes += held.blobs.remove(&hash).map_or(0, |(size, _)| size);
        }
        Ok(bytes)
    }

    fn remove_if_unheld(&self, hashes: &[[u8; 32]], remove: &mut Removal<'_>) -> Result<(), BlobError> {
        let mut held = self.0.lock();
        for hash in hashes {
            if held.blobs.get(hash).is_none_or(|(_, runs)| *runs == 0) {
                remove(hash).map_err(|error| BlobError::Unusable(error.to_string()))?;
                held.blobs.remove(hash);
            }
        }
        Ok(())
    }
}
