//! SQLite's log of pages: whole, cut short, damaged, and settled.

use super::super::wal::retain_if_torn;
use super::*;
use std::path::PathBuf;

/// The file and SQLite's log of a store that was killed after so many commits.
fn killed(commits: usize) -> tempfile::TempDir {
    killed_with(commits, &["journal.db", "journal.db-wal"])
}

/// The same, with these files.
fn killed_with(commits: usize, files: &[&str]) -> tempfile::TempDir {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, _) = open(folder.path());
    // Releasing a run is written too: nothing is being written while the files are copied.
    let mut logs = Vec::new();
    for run in 0..commits {
        let mut log = store.begin(&new(&format!("run {run}"))).unwrap();
        let _ = log.append(&record(run, 1));
        store.flush().unwrap();
        logs.push(log);
    }
    for name in files {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    copy
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("journal.db-wal")
}

fn retained(folder: &Path) -> Option<PathBuf> {
    retain_if_torn(&folder.join("journal.db")).unwrap()
}

#[test]
fn a_log_that_a_crash_has_cut_short_is_whole() {
    let folder = killed(4);
    let whole = std::fs::read(log_of(folder.path())).unwrap();
    for length in (0..=whole.len()).step_by(97).chain([whole.len()]) {
        std::fs::write(log_of(folder.path()), &whole[..length]).unwrap();
        assert_eq!(retained(folder.path()), None, "{length} of {} bytes", whole.len());
    }
    // The latest bytes may be anything.
    let mut last = whole.clone();
    let at = last.len() - 100;
    last[at] ^= 1;
    std::fs::write(log_of(folder.path()), &last).unwrap();
    assert_eq!(retained(folder.path()), None);
    std::fs::remove_file(log_of(folder.path())).unwrap();
    assert_eq!(retained(folder.path()), None);
}

#[test]
fn a_log_with_whole_transactions_behind_a_damaged_bit_is_retained_and_reported() {
    let folder = killed(6);
    let whole = std::fs::read(log_of(folder.path())).unwrap();
    // In the header's magic, page size, salt and checksum, and in the header, the checksum and the
    // page of frames.
    for at in [0, 9, 17, 25, 40, 52, 1_000, whole.len() / 2] {
        let mut bad = whole.clone();
        bad[at] ^= 1;
        std::fs::write(log_of(folder.path()), &bad).unwrap();
        let copy = retained(folder.path()).unwrap_or_else(|| panic!("byte {at}"));
        assert_eq!(std::fs::read(&copy).unwrap(), bad, "byte {at}");
        std::fs::remove_file(copy).unwrap();
    }
    // The listener gets a report before SQLite throws the log away, and the store has what was
    // before the damage.
    let (store, listener) = open(folder.path());
    let torn = store.torn().unwrap();
    assert!(torn.len() == 1 && torn[0].1 > 0, "{torn:?}");
    assert_eq!(*listener.torn.lock(), [torn[0].0.clone()]);
    let left = store.list(&Filter::default()).unwrap().len();
    assert!(left < 6, "{left}");
}

#[test]
fn a_store_that_is_settled_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    for run in 0..3 {
        let mut log = store.begin(&new(&format!("run {run}"))).unwrap();
        let _ = log.append(&record(run, 1));
        ended(&mut *log, EndStatus::Succeeded);
        store.flush().unwrap();
    }
    assert!(std::fs::metadata(log_of(folder.path())).unwrap().len() > 0);
    // Another process that reads is not waited for.
    let other = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM run;").unwrap();
    store.settle();
    other.execute_batch("COMMIT").unwrap();
    store.settle();
    assert_eq!(std::fs::metadata(log_of(folder.path())).unwrap().len(), 0);
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join("journal.db"), copy.path().join("journal.db")).unwrap();
    assert_eq!(open(copy.path()).0.list(&Filter::default()).unwrap().len(), 3);
    // It continues.
    let mut log = store.begin(&new("more")).unwrap();
    let _ = log.append(&record(1, 1));
    store.flush().unwrap();
}

#[test]
fn nothing_is_durable_in_a_file_that_was_removed_or_replaced() {
    for (name, replace) in [("journal.db", false), ("journal.db-wal", false), ("journal.db", true)] {
        let folder = tempfile::tempdir().unwrap();
        let (store, listener) = open(folder.path());
        let mut log = store.begin(&new("run")).unwrap();
        let _ = log.append(&record(1, 1));
        store.flush().unwrap();
        let path = folder.path().join(name);
        if replace {
            let copy = folder.path().join("copy");
            std::fs::copy(&path, &copy).unwrap();
            std::fs::rename(copy, &path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        let _ = log.append(&record(1, 2));
        let error = store.flush().unwrap_err();
        assert!(matches!(error, StoreError::Gone(_)), "{error}");
        assert_eq!(listener.durable.lock().get("run"), Some(&1));
    }
}

#[test]
fn a_host_that_ends_checks_that_what_was_durable_is_still_there() {
    let folder = tempfile::tempdir().unwrap();
    let (store, listener) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(&record(1, 1));
    assert!(store.flush_while_room().unwrap());
    std::fs::remove_file(folder.path().join("journal.db")).unwrap();
    assert!(matches!(store.flush_while_room(), Err(StoreError::Gone(_))));
    assert_eq!(listener.failed.lock().len(), 1, "the failure is reported too");
}

/// The same with the index of the log, which is memory that processes share.
fn killed_with_index(commits: usize) -> tempfile::TempDir {
    killed_with(commits, &["journal.db", "journal.db-wal", "journal.db-shm"])
}

#[test]
fn what_a_log_has_lost_at_its_end_is_known_from_its_index() {
    let folder = killed_with_index(4);
    let log = log_of(folder.path());
    let whole = std::fs::read(&log).unwrap();
    assert_eq!(retained(folder.path()), None);
    let lost = |what: &str, left: Option<&[u8]>| {
        let Some(left) = left else { return std::fs::remove_file(&log).unwrap() };
        std::fs::write(&log, left).unwrap_or_else(|error| panic!("{what}: {error}"));
    };
    let mut last = whole.clone();
    let at = last.len() - 100;
    last[at] ^= 1;
    let cases: [(&str, Option<&[u8]>); 6] = [
        ("a bit of the last frame", Some(&last)),
        ("the last byte", Some(&whole[..whole.len() - 1])),
        ("half", Some(&whole[..whole.len() / 2])),
        ("all but the header", Some(&whole[..32])),
        ("all of it", Some(&[])),
        ("the file", None),
    ];
    for (what, left) in cases {
        lost(what, left);
        let copy = retained(folder.path()).unwrap_or_else(|| panic!("{what}"));
        assert_eq!(std::fs::read(&copy).unwrap(), left.unwrap_or_default(), "{what}");
        std::fs::remove_file(copy).unwrap();
    }
    // An older log has lost nothing.
    let mut other = whole.clone();
    other[16] ^= 1;
    let sums = sum_of_header(&other);
    other[24..32].copy_from_slice(&sums);
    std::fs::write(&log, &other[..32]).unwrap();
    assert_eq!(retained(folder.path()), None);
    // An index that is damaged, cut, or from before the start of the machine says nothing.
    std::fs::write(&log, []).unwrap();
    let path = folder.path().join("journal.db-shm");
    let index = std::fs::read(&path).unwrap();
    for at in [1, 12, 16, 33, 41, 64] {
        let mut bad = index.clone();
        bad[at] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        assert_eq!(retained(folder.path()), None, "byte {at}");
    }
    std::fs::write(&path, &index[..90]).unwrap();
    assert_eq!(retained(folder.path()), None);
    std::fs::write(&path, &index).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(retained(folder.path()), None);
    // What was copied into the file is not lost with the log.
    let frames = <[u8; 4]>::try_from(&index[16..20]).unwrap();
    let mut copied = index;
    copied[96..100].copy_from_slice(&frames);
    std::fs::write(&path, &copied).unwrap();
    assert_eq!(retained(folder.path()), None);
}

/// The checksum of the header of a log, in the other byte order.
fn sum_of_header(log: &[u8]) -> [u8; 8] {
    let number = |at: usize| {
        let bytes = log[at..at + 4].try_into().unwrap();
        if log[3] & 1 == 1 { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let (mut one, mut other) = (0_u32, 0_u32);
    for at in (0..24).step_by(8) {
        one = one.wrapping_add(number(at)).wrapping_add(other);
        other = other.wrapping_add(number(at + 4)).wrapping_add(one);
    }
    [one.to_be_bytes(), other.to_be_bytes()].concat().try_into().unwrap()
}

#[test]
fn a_log_that_is_gone_is_reported() {
    let folder = killed_with_index(4);
    std::fs::remove_file(log_of(folder.path())).unwrap();
    let (store, listener) = open(folder.path());
    let torn = store.torn().unwrap();
    assert!(torn.len() == 1 && torn[0].1 == 0, "{torn:?}");
    assert_eq!(*listener.torn.lock(), [torn[0].0.clone()]);
    drop(store);
    assert_eq!(open(folder.path()).1.torn.lock().len(), 0, "it is reported once");
}

#[test]
fn a_bit_in_the_checksum_of_a_frame_does_not_hide_the_frame_behind_it() {
    let folder = killed(4);
    let whole = std::fs::read(log_of(folder.path())).unwrap();
    // The last frame but one, whose checksum is damaged, and the last, which ends a transaction.
    let frame = 24 + 4_096;
    let mut bad = whole.clone();
    let at = bad.len() - 2 * frame + 16;
    bad[at] ^= 1;
    std::fs::write(log_of(folder.path()), &bad).unwrap();
    let copy = retained(folder.path()).expect("a transaction is behind it");
    assert_eq!(std::fs::read(copy).unwrap(), bad);
}

#[test]
fn a_log_without_its_file_is_not_changed() {
    for is_empty in [false, true] {
        let folder = killed(4);
        let journal = folder.path().join("journal.db");
        let (file, log) = (std::fs::read(&journal).unwrap(), std::fs::read(log_of(folder.path())).unwrap());
        if is_empty {
            std::fs::write(&journal, []).unwrap();
        } else {
            std::fs::remove_file(&journal).unwrap();
        }
        let refused = Sqlite::open(folder.path(), Arc::new(RecordingListener::default())).map(drop).unwrap_err();
        assert!(matches!(refused, StoreError::Lost { .. }), "{refused}");
        assert!(Sqlite::is_lost(folder.path()).is_err());
        assert_eq!(std::fs::read(log_of(folder.path())).unwrap(), log);
        // With the file, everything is there.
        std::fs::write(&journal, file).unwrap();
        assert_eq!(open(folder.path()).0.list(&Filter::default()).unwrap().len(), 4);
    }
}

#[test]
fn a_store_made_anew_in_a_folder_that_was_used_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!Sqlite::is_lost(folder.path()).unwrap());
    let (store, listener) = open(folder.path());
    assert!(listener.anew.lock().is_empty());
    drop(store.begin(&new("run")).unwrap());
    store.flush().unwrap();
    drop(store);
    let journal = folder.path().join("journal.db");
    assert!(journal.exists() && !Sqlite::is_lost(folder.path()).unwrap());
    std::fs::remove_file(&journal).unwrap();
    assert!(Sqlite::is_lost(folder.path()).unwrap());
    assert_eq!(*open(folder.path()).1.anew.lock(), [journal]);
    assert!(open(folder.path()).1.anew.lock().is_empty());
}
