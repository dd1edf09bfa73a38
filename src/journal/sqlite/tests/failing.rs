//! A writer that cannot go on, and one that can after all.

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
    let told = Arc::new(RecordingListener::default());
    // It does not even wait before it tries again.
    let tune = |db: &Connection| db.busy_timeout(Duration::ZERO);
    let store = Sqlite::open_tuned(folder.path().into(), Arc::clone(&told) as _, tune).unwrap();
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    store.flush().unwrap();
    let other = connect(&folder.path().join("journal.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let _ = log.append(b"two");
    log.flush_soon();
    eventually("it is taken", || store.0.shared.queue.lock().is_empty());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(*told.failed.lock(), Vec::<String>::new());
    other.execute_batch("ROLLBACK").unwrap();
    store.flush().unwrap();
    assert_eq!(told.durable.lock()["run"], 2);
}

/// As the thread does whose checkpoint failed: nobody knows what of the file is on the disk.
#[test]
fn what_is_written_after_another_thread_has_failed_is_not_told_to_be_durable() {
    let folder = tempfile::tempdir().unwrap();
    let (store, told) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let write_lock = store.0.shared.write_lock.lock();
    let _ = log.append(b"one");
    log.flush_soon();
    eventually("it is taken", || store.0.shared.queue.lock().is_empty());
    store.0.shared.fail(StoreError::Stopped);
    drop(write_lock);
    assert!(store.flush().is_err());
    // What comes now is for nobody.
    let _ = log.append(b"two");
    assert_eq!(store.0.shared.queue.lock().bytes, 0);
    drop((log, store));
    assert!(told.durable.lock().is_empty());
    assert_eq!(told.failed.lock().len(), 1);
}

/// What it is told of when that has failed it drops.
#[derive(Default)]
struct Drops(Mutex<Option<(Sqlite, Box<dyn Log>)>>);

impl DurabilityListener for Drops {
    fn durable(&self, _: &str, _: u64) {}

    fn failed(&self, _: &StoreError) {
        let held = self.0.lock().take();
        drop(held);
    }
}

/// A checkpoint of what could not be synced would be told that all is well.
#[test]
fn a_journal_that_has_failed_is_left_as_it_is_though_its_writer_is_the_last_to_have_it() {
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
fn who_waits_for_a_record_does_not_wait_for_company() {
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
fn a_run_that_goes_on_is_not_removed_though_nothing_of_it_is_written_yet() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let log = store.begin(&new("run")).unwrap();
    assert!(matches!(store.remove("run"), Err(StoreError::Owned(_))));
    drop(log);
}
