//! A writer that cannot continue, and one that can after all.

use super::super::schema::connect;
use super::*;
use rusqlite::Connection;
use std::time::{Duration, Instant};

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_transaction_of_another_process_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let listener = Arc::new(RecordingListener::default());
    // It does not even wait between two tries.
    let tune = |db: &Connection| db.busy_timeout(Duration::ZERO);
    let store = Sqlite::open_tuned(folder.path().into(), Arc::clone(&listener) as _, tune).unwrap();
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    store.flush().unwrap();
    let other = connect(&folder.path().join("journal.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let _ = log.append(b"two");
    log.flush_soon();
    eventually("it is taken", || store.0.shared.queue.lock().is_empty());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(*listener.failed.lock(), Vec::<String>::new());
    other.execute_batch("ROLLBACK").unwrap();
    store.flush().unwrap();
    assert_eq!(listener.durable.lock()["run"], 2);
}

/// As a failed checkpoint does: it is unknown what of the file is on disk.
#[test]
fn nothing_is_reported_as_durable_after_another_thread_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, listener) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let write_lock = store.0.shared.write_lock.lock();
    let _ = log.append(b"one");
    log.flush_soon();
    eventually("it is taken", || store.0.shared.queue.lock().is_empty());
    store.0.shared.fail(StoreError::Stopped);
    drop(write_lock);
    assert!(store.flush().is_err());
    // What comes now is dropped.
    let _ = log.append(b"two");
    assert_eq!(store.0.shared.queue.lock().bytes, 0);
    drop((log, store));
    assert!(listener.durable.lock().is_empty());
    assert_eq!(listener.failed.lock().len(), 1);
}

/// Drops what it gets when the store has failed.
#[derive(Default)]
struct Drops(Mutex<Option<(Sqlite, Box<dyn Log>)>>);

impl DurabilityListener for Drops {
    fn durable(&self, _: &str, _: u64) {}

    fn failed(&self, _: &StoreError) {
        let held = self.0.lock().take();
        drop(held);
    }
}

/// A checkpoint of what could not be synced would succeed.
#[test]
fn a_failed_journal_is_not_written_although_its_writer_holds_it_last() {
    let folder = tempfile::tempdir().unwrap();
    let drops = Arc::<Drops>::default();
    let store = Sqlite::open(folder.path(), Arc::clone(&drops) as _).unwrap();
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    store.flush().unwrap();
    connect(&folder.path().join("journal.db")).unwrap().execute_batch("ALTER TABLE log RENAME TO gone").unwrap();
    let shared = Arc::downgrade(&store.0.shared);
    let mut held = drops.0.lock();
    let _ = log.append(b"two");
    *held = Some((store, log));
    drop(held);
    eventually("the writer ends", || shared.strong_count() == 0);
    assert!(std::fs::metadata(folder.path().join("journal.db-wal")).unwrap().len() > 0);
}

#[test]
fn a_record_that_is_waited_for_does_not_gather_others() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let write_lock = store.0.shared.write_lock.lock();
    let _ = log.append(b"one");
    log.flush_soon();
    eventually("it is taken", || store.0.shared.queue.lock().is_empty());
    let _ = log.append(b"two");
    assert!(!store.0.shared.queue.lock().flush_soon);
    log.flush_soon();
    assert!(store.0.shared.queue.lock().flush_soon);
    drop(write_lock);
    store.flush().unwrap();
}

#[test]
fn a_run_that_continues_is_not_removed_although_nothing_of_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let log = store.begin(&new("run")).unwrap();
    assert!(matches!(store.remove("run"), Err(StoreError::Owned { .. })));
    drop(log);
}
