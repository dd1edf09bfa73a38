//! SQLite's log of pages, checked before SQLite reads it.
//!
//! SQLite believes its log (`journal.db-wal`) up to the first frame whose checksum is wrong, takes
//! that for the end of a log that a crash has cut short, and overwrites the rest. If whole
//! transactions follow, it is damage, and they would be gone without a word. So the log is checked
//! before a store is opened: a damaged log is retained beside it as it was, and reported.
//!
//! The layout is <https://www.sqlite.org/walformat.html>: a header of 32 bytes, then frames of 24
//! bytes and a page each. Every checksum continues the one before, which stands in the frame
//! before: so a frame shows by itself whether it follows a damaged one.
//!
//! Damage at the end looks like a log that a crash has cut short, and a log that is gone looks like
//! one that was never there. The index beside the log (`wal_index.rs`) says how far the log went,
//! as long as the machine was not restarted: what the log lacks of that was durable, and is lost.

use super::StoreError;
use super::error::io as fails;
use super::wal_index::{Index, index_of};
use crate::journal::layout;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The first bytes of a log, but for the last bit, which gives the byte order of checksums.
const MAGIC: u32 = 0x377f_0682;
/// The sizes that a page may have.
const PAGES_BYTES: std::ops::RangeInclusive<usize> = 512..=65_536;
/// The default size of a page.
const PAGE_BYTES: usize = 4_096;

/// A damaged log: where, and what it still has behind the damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Torn {
    /// Where the first invalid frame begins.
    at: u64,
    /// The number of whole transactions behind it.
    commits: u64,
    /// The random number in the log's frames.
    salt: [u8; 8],
}

/// What a log contains.
#[derive(Clone, Copy, Default)]
struct Scan {
    /// The random number of the header; `None` if there is no header, or a damaged one.
    salt: Option<[u8; 8]>,
    /// The number of frames before the first invalid one.
    valid: u32,
    /// The damage, if there is an invalid frame.
    torn: Option<Torn>,
}

/// The parts of the headers: `header[CHECKSUM]`, for instance.
const CHECKSUM: std::ops::Range<usize> = 24..32;
const HEADER_SALT: std::ops::Range<usize> = 16..24;
const FRAME_SALT: std::ops::Range<usize> = 8..16;
const FRAME_CHECKSUM: std::ops::Range<usize> = 16..24;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("invariant: so many are asked for"))
}

type Sum = (u32, u32);

fn stored(bytes: &[u8]) -> Sum {
    (word(bytes, 0), word(bytes, 4))
}

/// Computes the checksum of these words, which continues another.
fn sum(bytes: &[u8], is_big: bool, mut sum: Sum) -> Sum {
    let number = |bytes: &[u8]| {
        let bytes = bytes.try_into().expect("invariant: chunks of four");
        if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    for pair in bytes.chunks_exact(8) {
        sum.0 = sum.0.wrapping_add(number(&pair[..4])).wrapping_add(sum.1);
        sum.1 = sum.1.wrapping_add(number(&pair[4..])).wrapping_add(sum.0);
    }
    sum
}

/// Scans a log. `None` if another process begins it anew meanwhile.
fn scan(path: &Path) -> io::Result<Option<Scan>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Scan::default())),
        file => io::BufReader::with_capacity(1 << 20, file?),
    };
    let mut header = [0; HEADER_BYTES];
    let mut frame = Vec::new();
    if !fill(&mut file, &mut header)? {
        return Ok(Some(Scan::default()));
    }
    let (mut is_big, mut page) = (word(&header, 0) & 1 == 1, word(&header, 8) as usize);
    if word(&header, 0) & !1 != MAGIC || !page.is_power_of_two() || !PAGES_BYTES.contains(&page) {
        // The header is damaged itself: assume frames as this release of SQLite writes them.
        (is_big, page) = (cfg!(target_endian = "big"), PAGE_BYTES);
    }
    frame.resize(FRAME_HEADER_BYTES + page, 0);
    // The checksum that the next frame continues, as it is written and as it should be. If the
    // frame before is damaged, one of them is right: the first if its page is damaged, the other if
    // its checksum is.
    let mut before = [stored(&header[CHECKSUM]); 2];
    let mut torn: Option<Torn> =
        (sum(&header[..24], is_big, (0, 0)) != before[0]).then_some(Torn { at: 0, commits: 0, salt: [0; 8] });
    let own_salt = torn.is_none().then(|| header[HEADER_SALT].try_into().expect("invariant: 8"));
    let (mut salt, mut valid): (Option<[u8; 8]>, _) = (own_salt, 0);
    let mut at = HEADER_BYTES as u64;
    while fill(&mut file, &mut frame)? {
        let own: [u8; 8] = frame[FRAME_SALT].try_into().expect("invariant: 8");
        let is_of_the_log = own == *salt.get_or_insert(own);
        let after = stored(&frame[FRAME_CHECKSUM]);
        let follows = |before| sum(&frame[FRAME_HEADER_BYTES..], is_big, sum(&frame[..8], is_big, before));
        let computed = follows(before[0]);
        let is_whole = is_of_the_log && (computed == after || before[0] != before[1] && follows(before[1]) == after);
        match &mut torn {
            None if is_whole => valid += 1,
            // Or it is the rest of an earlier log in the file: then everything that follows is too.
            None => torn = Some(Torn { at, commits: 0, salt: own }),
            Some(torn) if is_whole => {
                torn.commits += u64::from(word(&frame, 4) > 0);
                torn.salt = own;
            }
            Some(_) => {}
        }
        before = if is_whole { [after; 2] } else { [after, computed] };
        at += frame.len() as u64;
    }
    // A process that begins the log anew meanwhile writes the header first.
    let mut again = [0; HEADER_BYTES];
    file.seek(SeekFrom::Start(0))?;
    let is_the_same = fill(&mut file, &mut again)? && again == header;
    Ok(is_the_same.then_some(Scan { salt: own_salt, valid, torn }))
}

/// Scans a log. `None` if it is whole, or ends as a crash leaves it. `index` says how far it went,
/// and was read before.
fn torn(path: &Path, index: Option<Index>) -> io::Result<Option<Torn>> {
    let Some(Scan { salt, valid, torn }) = scan(path)? else { return Ok(None) };
    let is_lost = |index: &Index| {
        salt.is_none_or(|salt| salt == index.salt) && index.frames > valid && index.frames > index.copied
    };
    let lost = |index: Index| Torn { at: torn.map_or(u64::MAX, |torn| torn.at), commits: 0, salt: index.salt };
    Ok(torn.filter(|torn| torn.commits > 0).or_else(|| index.filter(is_lost).map(lost)))
}

/// Fills `bytes`. Returns false if the file ends before.
fn fill(file: &mut impl io::Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// The path of SQLite's log: beside the file, and not beside a link to it.
pub(super) fn log_of(journal: &Path) -> PathBuf {
    journal.canonicalize().unwrap_or_else(|_| journal.to_owned()).with_file_name(layout::JOURNAL_WAL)
}

/// Scans the log of a store that is about to be opened. If it is damaged, copies it to a file
/// beside the store, and returns that file.
pub(super) fn retain_if_torn(journal: &Path) -> Result<Option<PathBuf>, StoreError> {
    let log = log_of(journal);
    // Twice: another process may have been in the middle of writing what was read.
    let scan = || torn(&log, index_of(&log)).map_err(fails(&log));
    let Some(first) = scan()? else { return Ok(None) };
    if scan()?.is_none_or(|torn| torn.at != first.at || torn.salt != first.salt) {
        return Ok(None);
    }
    let name = format!("{}{:016x}", layout::JOURNAL_WAL_DAMAGED, u64::from_be_bytes(first.salt));
    let retained = journal.with_file_name(name);
    if retained.exists() {
        return Ok(Some(retained));
    }
    let copy = || {
        let mut copy = File::options().write(true).create_new(true).mode(0o600).open(&retained)?;
        let copied = match File::open(&log) {
            // The log is gone: an empty copy says so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            log => log.and_then(|mut log| io::copy(&mut log, &mut copy)),
        };
        let copied = copied.and_then(|_| copy.flush()).and_then(|()| copy.sync_all());
        if copied.is_err() {
            let _ = std::fs::remove_file(&retained);
        }
        copied
    };
    match copy() {
        // Another process was quicker.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        copied => copied.map_err(fails(&retained))?,
    }
    Ok(Some(retained))
}

/// Returns whether a store has lost its file: it does not exist or is empty, and the folder was in
/// use.
///
/// # Errors
/// Fails if SQLite's log exists and is not empty: SQLite would throw it away.
pub(super) fn is_lost(journal: &Path) -> Result<bool, StoreError> {
    let log = log_of(journal);
    let folder = journal.parent().unwrap_or(Path::new("."));
    let has_any = |name: &str| std::fs::read_dir(folder.join(name)).is_ok_and(|mut files| files.next().is_some());
    // The file last: when a store is made, it is written before all of these.
    let has_log = std::fs::metadata(&log).is_ok_and(|file| file.len() > 0);
    let was_used = has_any(layout::COMPONENTS) || has_any(layout::HOSTS);
    match std::fs::metadata(journal) {
        Ok(file) if file.len() > 0 || !file.is_file() => Ok(false),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Ok(false),
        _ if has_log => Err(StoreError::Lost { path: journal.to_owned(), log }),
        _ => Ok(was_used),
    }
}

/// Returns the damaged logs that were retained, and how many whole transactions each has behind the
/// damage.
pub(super) fn retained(journal: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let folder = journal.parent().unwrap_or(Path::new("."));
    let mut retained = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(layout::JOURNAL_WAL_DAMAGED)) {
            let commits = torn(&path, None)?.map_or(0, |torn| torn.commits);
            retained.push((path, commits));
        }
    }
    retained.sort();
    Ok(retained)
}
