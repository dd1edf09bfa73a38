//! Random bytes for the ids and seeds of runs.

use parking_lot::Mutex;

/// Bytes that are asked for at one time: a call of the operating system for some thirty runs. Arbitrary.
const BATCH_BYTES: usize = 2 << 10;

/// Bytes that are handed out at one time.
const BYTES: usize = 32;

/// Bytes of the operating system, got in batches. Each is handed out once.
///
/// It is a host's own, so that no two hosts share a batch: what a process that was forked off has
/// of its parent's host is without workers and starts nothing.
pub(super) struct RandomBytes(Mutex<Batch>);

struct Batch {
    bytes: [u8; BATCH_BYTES],
    given: usize,
}

impl Default for RandomBytes {
    /// Nothing is asked for until it is needed.
    fn default() -> Self {
        Self(Mutex::new(Batch { bytes: [0; BATCH_BYTES], given: BATCH_BYTES }))
    }
}

impl RandomBytes {
    /// Bytes that nobody else has.
    pub(super) fn bytes(&self) -> [u8; BYTES] {
        let mut batch = self.0.lock();
        if batch.given == BATCH_BYTES {
            fill(&mut batch.bytes);
            batch.given = 0;
        }
        let given = batch.given;
        batch.given += BYTES;
        let mut bytes = [0; BYTES];
        // What was handed out is not kept.
        bytes.swap_with_slice(&mut batch.bytes[given..given + BYTES]);
        bytes
    }
}

/// Fills with bytes of the operating system.
pub(super) fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("invariant: every system that is supported has a source of random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nothing_is_handed_out_twice_nor_kept() {
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
