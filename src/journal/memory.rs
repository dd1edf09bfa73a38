//! Logs that no journal stores: in memory, or nowhere.

use crate::run::{Durability, Log};
use bytes::Bytes;

/// The size of a full piece of memory for records. Arbitrary.
const CHUNK_BYTES: usize = 64 << 10;

/// Retains the records of a run in memory, up to a bound: beyond it they would be incomplete, and
/// all are dropped. Processes of such a run cannot be rebuilt; the run itself continues.
pub struct Memory {
    /// Full pieces. A record never spans two.
    full: Vec<Bytes>,
    /// The piece that takes further records.
    last: Vec<u8>,
    /// Where each record ends: the number of its piece, and the offset in it.
    ends: Vec<(u32, u32)>,
    bytes: usize,
    bytes_max: usize,
}

impl Memory {
    /// Makes an empty log that retains at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { full: Vec::new(), last: Vec::new(), ends: Vec::new(), bytes: 0, bytes_max }
    }

    /// Begins a piece with room for a record of this length. The first pieces are small, since most
    /// runs are.
    #[cold]
    fn begin_piece(&mut self, length: usize) {
        let piece = Vec::with_capacity(length.max(CHUNK_BYTES.min(1_024 + self.bytes)));
        let full = std::mem::replace(&mut self.last, piece);
        if self.ends.is_empty() {
            return;
        }
        self.full.push(full.into());
    }
}

impl Default for Memory {
    /// 256 MiB. Arbitrary.
    fn default() -> Self {
        Self::new(256 << 20)
    }
}

impl Log for Memory {
    fn append(&mut self, record: &[u8]) -> Durability {
        let length = record.len();
        self.bytes = self.bytes.saturating_add(length + size_of::<(u32, u32)>());
        if self.bytes > self.bytes_max {
            self.full = Vec::new();
            self.last = Vec::new();
            self.ends = Vec::new();
            return Durability::Now;
        }
        if self.last.capacity() - self.last.len() < length {
            self.begin_piece(length);
        }
        self.last.extend_from_slice(record);
        self.ends.push((self.full.len() as u32, self.last.len() as u32));
        Durability::Now
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        if self.bytes > self.bytes_max {
            return None;
        }
        let last = Bytes::copy_from_slice(&self.last);
        let mut from = (0, 0);
        let records = self.ends.iter().map(|&(piece, end)| {
            let start = if from.0 == piece { from.1 } else { 0 };
            from = (piece, end);
            self.full.get(piece as usize).unwrap_or(&last).slice(start as usize..end as usize)
        });
        Some(records.collect())
    }
}

/// Retains nothing: for runs whose records are never read.
#[derive(Clone, Copy, Default, Debug)]
pub struct Nothing;

impl Log for Nothing {
    fn append(&mut self, _: &[u8]) -> Durability {
        Durability::Now
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        None
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_back_what_was_appended(lengths in proptest::collection::vec(0_usize..40_000, 0..60)) {
            let mut log = Memory::default();
            let mut model = Vec::new();
            for (number, length) in lengths.into_iter().enumerate() {
                let record = vec![number as u8; length];
                log.append(&record);
                model.push(record);
            }
            prop_assert_eq!(log.records().unwrap(), model);
        }
    }

    #[test]
    fn beyond_its_bound_it_retains_nothing() {
        let mut log = Memory::new(100);
        log.append(&[1; 50]);
        assert_eq!(log.records().unwrap().len(), 1);
        log.append(&[1; 50]);
        assert_eq!(log.records(), None);
        assert_eq!(log.last.capacity(), 0);
    }
}
