//! How far SQLite's log went, from the index of it that SQLite shares between processes
//! (`journal.db-shm`).
//!
//! The file is memory that processes share, and stays when the last one is killed. What it says of
//! the log was written after the log, so the log contains it, or has lost it. After a restart of
//! the machine it may be any earlier state of that memory, and says nothing.
//!
//! The layout is <https://www.sqlite.org/walformat.html#the_wal_index_file_format>: a header of 48
//! bytes in the byte order of the machine, the same once more, and the state of checkpoints.
//! Nothing in it is trusted: it can only cause a scan and a copy.

use crate::journal::layout;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A header, twice, and the first number of the state of checkpoints.
const BYTES: usize = 100;
const HEADER_BYTES: usize = 48;
/// The version of the layout.
const VERSION: u32 = 3_007_000;

/// The fields of a header that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Index {
    /// The random number of the log.
    pub(super) salt: [u8; 8],
    /// Frames of the log up to the last transaction.
    pub(super) frames: u32,
    /// Of these, the frames that are in the store's file too.
    pub(super) copied: u32,
}

/// Reads the index of a log; `None` if it does not exist or is of no use.
pub(super) fn index_of(log: &Path) -> Option<Index> {
    let mut file = File::open(log.with_file_name(layout::JOURNAL_SHM)).ok()?;
    // Opening a store truncates the file first: one older than the machine's start is from before
    // it.
    let changed = file.metadata().ok()?.modified().ok()?;
    if changed < started()? {
        return None;
    }
    let mut bytes = [0; BYTES];
    file.read_exact(&mut bytes).ok()?;
    parse(&bytes)
}

/// The time when the machine was started.
fn started() -> Option<SystemTime> {
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = uptime.split(' ').next()?.parse().ok()?;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(seconds).ok()?)
}

fn parse(bytes: &[u8; BYTES]) -> Option<Index> {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("invariant: 4"));
    let (one, other) = (&bytes[..HEADER_BYTES], &bytes[HEADER_BYTES..2 * HEADER_BYTES]);
    // The checksum is that of the log, over words in the machine's order.
    let mut sum = (0_u32, 0_u32);
    for at in (0..40).step_by(8) {
        sum.0 = sum.0.wrapping_add(word(at)).wrapping_add(sum.1);
        sum.1 = sum.1.wrapping_add(word(at + 4)).wrapping_add(sum.0);
    }
    let is_whole = one == other && word(0) == VERSION && bytes[12] == 1 && sum == (word(40), word(44));
    let salt = bytes[32..40].try_into().expect("invariant: 8");
    is_whole.then(|| Index { salt, frames: word(16), copied: word(96) })
}
