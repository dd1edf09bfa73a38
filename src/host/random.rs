//! Random bytes for the ids and seeds of runs.

use parking_lot::Mutex;

/// Bytes that are fetched at one time: one call of the operating system for some thirty runs.
/// Arbitrary.
const BATCH_BYTES: usize = 2 << 10;

/// Bytes that a caller gets.
const BYTES: usize = 32;

/// Random bytes of the operating system, fetched in batches. Each byte is returned once.
///
/// Each host has its own, so that no two hosts share a batch: the copy of a host in a forked
/// operating system process has no workers and starts nothing.
pub(super) struct RandomBytes(Mutex<Batch>);

struct Batch {
    bytes: [u8; BATCH_BYTES],
    given: usize,
}

impl Default for RandomBytes {
    /// Fetches nothing yet.
    fn default() -> Self {
        Self(Mutex::new(Batch { bytes: [0; BATCH_BYTES], given: BATCH_BYTES }))
    }
}

impl RandomBytes {
    /// Returns bytes that no other caller gets.
    pub(super) fn bytes(&self) -> [u8; BYTES] {
        let mut batch = self.0.lock();
        if batch.given == BATCH_BYTES {
            fill(&mut batch.bytes);
            batch.given = 0;
        }
        let given = batch.given;
        batch.given += BYTES;
        let mut bytes = [0; BYTES];
        // Bytes that were returned are not retained.
        bytes.swap_with_slice(&mut batch.bytes[given..given + BYTES]);
        bytes
    }
}

/// Fills `bytes` with random bytes of the operating system.
pub(super) fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("invariant: every system that is supported has a source of random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_bytes_are_returned_twice_or_retained() {
        let (one, other) = (RandomBytes::default(), RandomBytes::default());
        let mut seen = HashSet::new();
        for _ in 0..3 * BATCH_BYTES / BYTES {
            for fresh in [&one, &other] {
                let bytes = fresh.bytes();
                assert!(seen.insert(bytes) && bytes != [0; BYTES]);
                let batch = fresh.0.lock();
                assert!(batch.bytes[..batch.given].iter().all(|byte| *byte == 0));
            }
        }
    }
}
