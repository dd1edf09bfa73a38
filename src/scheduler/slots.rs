//! The slot table: where processes are, found by index and generation.
//!
//! Chunks of doubling size are allocated once and never moved or given back, so a lookup is two
//! loads and writes no shared memory. Each worker has its own free places; they pass between
//! workers in batches.

use super::place::Place;
use crate::base::sync::{AtomicUsize, Mutex, Ordering};
use std::sync::OnceLock;

/// Places of the first chunk; each further chunk is twice as large as the one before. (A model pays
/// for each of them.)
const FIRST: usize = if cfg!(loom) { 2 } else { 64 };
/// Enough for every index of 32 bits.
const CHUNKS: usize = 27;
/// Free places that pass at once between a worker and the table. Arbitrary.
const BATCH: usize = FIRST;

type Chunk<P, E> = Box<[Place<P, E>]>;

/// All places.
#[derive(Debug)]
pub(crate) struct Table<P, E> {
    chunks: [OnceLock<Chunk<P, E>>; CHUNKS],
    /// Places that were given out at least once. Claimed by `fetch_update`; nothing is published by
    /// it.
    used: AtomicUsize,
    limit: usize,
    free: Mutex<Vec<u32>>,
}

impl<P, E> Table<P, E> {
    /// A table of at most `limit` places.
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.min(FIRST * ((1 << CHUNKS) - 1)).min(u32::MAX as usize);
        Self {
            chunks: std::array::from_fn(|_| OnceLock::new()),
            used: AtomicUsize::new(0),
            limit,
            free: Mutex::new(Vec::new()),
        }
    }

    /// The place of an index that is in use.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Place<P, E>> {
        let (chunk, offset) = locate(index);
        self.chunks[chunk].get()?.get(offset)
    }

    /// How many places were given out at least once: every occupied one has a smaller index.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Moves free places into `free`: some that were given back, or a block of new ones. `None` if
    /// the table is full.
    fn refill(&self, free: &mut Vec<u32>) {
        {
            let mut shared = self.free.lock();
            let keep = shared.len().saturating_sub(BATCH);
            free.extend(shared.drain(keep..));
        }
        if !free.is_empty() {
            return;
        }
        let claimed = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            (used < self.limit).then(|| (used + BATCH).min(self.limit))
        });
        let Ok(start) = claimed else { return };
        let end = (start + BATCH).min(self.limit);
        for index in start..end {
            let (chunk, offset) = locate(index as u32);
            if offset == 0 || index == start {
                self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| Place::new()).collect());
            }
        }
        // Popped from the back: the smallest index first.
        free.extend((start as u32..end as u32).rev());
    }
}

fn locate(index: u32) -> (usize, usize) {
    let place = index as usize + FIRST;
    let chunk = (place / FIRST).ilog2() as usize;
    (chunk, place - (FIRST << chunk))
}

/// One worker's free places, or those of all other threads behind a lock.
#[derive(Debug, Default)]
pub(crate) struct FreeSlots(Vec<u32>);

impl FreeSlots {
    /// A free place, `None` if the table is full.
    pub(crate) fn take<P, E>(&mut self, table: &Table<P, E>) -> Option<u32> {
        if self.0.is_empty() {
            table.refill(&mut self.0);
        }
        self.0.pop()
    }

    /// Gives a place back. Places beyond two batches go to the other workers.
    pub(crate) fn give<P, E>(&mut self, table: &Table<P, E>, index: u32) {
        self.0.push(index);
        if self.0.len() >= 2 * BATCH {
            let mut shared = table.free.lock();
            shared.extend(self.0.drain(..BATCH));
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_own_place() {
        let mut next = (0, 0);
        for index in 0..100_000 {
            assert_eq!(locate(index), next, "index {index}");
            next = if next.1 + 1 == FIRST << next.0 { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
        assert_eq!(locate(u32::MAX).0, CHUNKS - 1);
    }

    #[test]
    fn the_table_ends_at_its_limit_and_places_come_back() {
        let table: Table<(), ()> = Table::new(100);
        let (mut one, mut other) = (FreeSlots::default(), FreeSlots::default());
        let taken: Vec<u32> = std::iter::from_fn(|| one.take(&table)).collect();
        assert_eq!(taken, (0..100).collect::<Vec<_>>());
        assert!(table.get(99).is_some() && other.take(&table).is_none());
        for index in taken {
            one.give(&table, index);
        }
        assert!(other.take(&table).is_none(), "below two batches all stays with the worker");
        assert_eq!(std::iter::from_fn(|| one.take(&table)).count(), 100);
    }

    #[test]
    fn a_worker_that_only_frees_feeds_one_that_only_takes() {
        let table: Table<(), ()> = Table::new(1 << 20);
        let (mut one, mut other) = (FreeSlots::default(), FreeSlots::default());
        for _ in 0..10_000 {
            let index = one.take(&table).expect("there is room");
            other.give(&table, index);
        }
        assert!(table.used() <= 4 * BATCH, "{} places for one process at a time", table.used());
    }
}
