//! SQLite's log of pages: whole, cut short, damaged; and what is left of it by who ends.

use super::super::wal::keep_if_torn;
use super::*;
use std::path::PathBuf;

/// What a store leaves that was killed after so many commits: the file, and SQLite's log.
fn killed(commits: usize) -> tempfile::TempDir {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, _) = open(folder.path());
    for run in 0..commits {
        let mut log = store.begin(&new(&format!("run {run}"))).unwrap();
        let _ = log.append(&record(run, 1));
        store.flush().unwrap();
    }
    for name in ["journal.db", "journal.db-wal"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    copy
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("journal.db-wal")
}

fn kept(folder: &Path) -> Option<PathBuf> {
    keep_if_torn(&folder.join("journal.db")).unwrap()
}

#[test]
fn a_log_that_a_crash_has_cut_short_is_whole() {
    let folder = killed(4);
    let whole = std::fs::read(log_of(folder.path())).unwrap();
    for length in (0..=whole.len()).step_by(97).chain([whole.len()]) {
        std::fs::write(log_of(folder.path()), &whole[..length]).unwrap();
        assert_eq!(kept(folder.path()), None, "{length} of {} bytes", whole.len());
    }
    // What was being written last may be anything.
    let mut last = whole.clone();
    let at = last.len() - 100;
    last[at] ^= 1;
    std::fs::write(log_of(folder.path()), &last).unwrap();
    assert_eq!(kept(folder.path()), None);
    std::fs::remove_file(log_of(folder.path())).unwrap();
    assert_eq!(kept(folder.path()), None);
}

#[test]
fn a_log_with_whole_transactions_behind_a_damaged_bit_is_kept_and_told() {
    let folder = killed(6);
    let whole = std::fs::read(log_of(folder.path())).unwrap();
    // In the header's magic, page size, salt and checksum, and in the header, the checksum and the page of frames.
    for at in [0, 9, 17, 25, 40, 52, 1_000, whole.len() / 2] {
        let mut bad = whole.clone();
        bad[at] ^= 1;
        std::fs::write(log_of(folder.path()), &bad).unwrap();
        let copy = kept(folder.path()).unwrap_or_else(|| panic!("byte {at}"));
        assert_eq!(std::fs::read(&copy).unwrap(), bad, "byte {at}");
        std::fs::remove_file(copy).unwrap();
    }
    // Whoever opens the store is told before SQLite has thrown it away, and finds what was before the damage.
    let (store, told) = open(folder.path());
    let torn = store.torn().unwrap();
    assert!(torn.len() == 1 && torn[0].1 > 0, "{torn:?}");
    assert_eq!(*told.torn.lock(), [torn[0].0.clone()]);
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
    // Somebody else who reads is not waited for.
    let other = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM run;").unwrap();
    store.settle();
    other.execute_batch("COMMIT").unwrap();
    store.settle();
    assert_eq!(std::fs::metadata(log_of(folder.path())).unwrap().len(), 0);
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join("journal.db"), copy.path().join("journal.db")).unwrap();
    assert_eq!(open(copy.path()).0.list(&Filter::default()).unwrap().len(), 3);
    // It goes on.
    let mut log = store.begin(&new("more")).unwrap();
    let _ = log.append(&record(1, 1));
    store.flush().unwrap();
}

#[test]
fn nothing_is_durable_in_a_file_that_somebody_has_removed_or_replaced() {
    for (name, replace) in [("journal.db", false), ("journal.db-wal", false), ("journal.db", true)] {
        let folder = tempfile::tempdir().unwrap();
        let (store, told) = open(folder.path());
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
        assert_eq!(told.durable.lock().get("run"), Some(&1));
    }
}
