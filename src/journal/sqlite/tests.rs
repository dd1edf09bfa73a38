use super::{Durables, NewRun, Sqlite, StoreError};
use crate::process::Micros;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The greatest durable record of each run.
#[derive(Default)]
struct Told {
    durable: Mutex<BTreeMap<String, u64>>,
    failed: Mutex<Vec<String>>,
}

impl Durables for Told {
    fn durable(&self, run: &str, record: u64) {
        let before = self.durable.lock().insert(run.to_owned(), record);
        assert!(before.is_none_or(|before| before < record), "they come in order");
    }

    fn failed(&self, error: &StoreError) {
        self.failed.lock().push(error.to_string());
    }
}

fn open(folder: &Path) -> (Sqlite, Arc<Told>) {
    let told = Arc::new(Told::default());
    (Sqlite::open(folder, Arc::clone(&told) as _).unwrap(), told)
}

fn new(id: &str) -> NewRun {
    NewRun { id: id.into(), created: Micros(5), about: format!("{{\"of\":\"{id}\"}}") }
}

fn record(run: usize, number: usize) -> Vec<u8> {
    format!("record {number} of {run} {}", "x".repeat(number % 300)).into_bytes()
}

#[test]
fn records_of_many_runs_are_read_back_in_another_process_life() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (store, told) = open(folder.path());
        let mut logs: Vec<_> = (0..20).map(|run| store.begin(&new(&format!("run {run}"))).unwrap()).collect();
        for number in 0..200 {
            for (run, log) in logs.iter_mut().enumerate() {
                if number % (run + 1) == 0 {
                    let _ = log.append(&record(run, number));
                }
            }
        }
        // The logs' records are those on disk, once they are there.
        assert_eq!(logs[0].records().unwrap().len(), 200);
        store.flush().unwrap();
        assert_eq!(told.durable.lock()["run 0"], 200);
        assert!(matches!(store.begin(&new("run 3")), Err(StoreError::Exists(_))));
        assert!(matches!(store.take_up("run 3"), Err(StoreError::Owned(_))));
        logs[4].ended();
    }
    let (store, _) = open(folder.path());
    let unfinished = store.unfinished().unwrap();
    assert_eq!(unfinished.len(), 19);
    assert_eq!((&*unfinished[4].id, unfinished[4].about.as_str()), ("run 5", "{\"of\":\"run 5\"}"));
    for run in 0..20 {
        let mut taken = store.take_up(&format!("run {run}")).unwrap();
        let expected: Vec<_> = (0..200).filter(|number| number % (run + 1) == 0).map(|n| record(run, n)).collect();
        assert_eq!(taken.records, expected);
        let _ = taken.log.append(b"more");
        assert_eq!(taken.log.records().unwrap().len(), expected.len() + 1);
    }
    assert!(matches!(store.take_up("run 77"), Err(StoreError::Unknown(_))));
}

#[test]
fn who_lost_a_run_writes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let (old, told) = open(folder.path());
    let mut log = old.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    old.flush().unwrap();
    // Somebody takes the run up although it is locked, as after a lock that did not hold.
    let lock = std::fs::read_dir(folder.path().join("locks")).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(lock).unwrap();
    let (other, _) = open(folder.path());
    let mut taken = other.take_up("run").unwrap();
    let _ = taken.log.append(b"two");
    assert_eq!(taken.log.records().unwrap(), [&b"one"[..], b"two"]);
    let _ = log.append(b"stale");
    old.flush().unwrap();
    other.flush().unwrap();
    assert_eq!(log.records().unwrap(), [&b"one"[..], b"two"]);
    assert_eq!(told.durable.lock()["run"], 1);
}

#[test]
fn damage_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (store, _) = open(folder.path());
        for run in ["good", "flipped", "cut", "gone"] {
            let mut log = store.begin(&new(run)).unwrap();
            for number in 0..3 {
                let _ = log.append(&record(1, number));
                store.flush().unwrap();
            }
        }
    }
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let of = |run: &str| format!("(SELECT min(id) + 1 FROM log WHERE run = (SELECT run FROM run WHERE id = '{run}'))");
    db.execute_batch(&format!(
        "UPDATE log SET data = CAST(substr(data, 1, 4) || x'00' || substr(data, 6) AS BLOB) WHERE id = {};
         UPDATE log SET data = CAST(substr(data, 1, 5) AS BLOB) WHERE id = {};
         DELETE FROM log WHERE id = {};",
        of("flipped"),
        of("cut"),
        of("gone"),
    ))
    .unwrap();
    drop(db);
    let (store, _) = open(folder.path());
    assert_eq!(store.take_up("good").unwrap().records.len(), 3);
    for (run, why) in [("flipped", "checksum"), ("cut", "too short"), ("gone", "missing")] {
        let told = store.take_up(run).err().unwrap().to_string();
        assert!(told.contains(why) && told.contains(run), "{told}");
    }
}

#[test]
fn other_files_and_other_formats_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let told = || Arc::new(Told::default());
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    assert!(matches!(Sqlite::open(folder.path(), told()), Err(StoreError::Foreign { .. })));
    std::fs::write(&path, vec![7; 5_000]).unwrap();
    assert!(matches!(Sqlite::open(folder.path(), told()), Err(StoreError::Sqlite { .. })));
    std::fs::remove_file(&path).unwrap();
    drop(open(folder.path()));
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    assert!(matches!(Sqlite::open(folder.path(), told()), Err(StoreError::Format { found: 99, .. })));
    assert!(matches!(Sqlite::open("/dev/null/x", told()), Err(StoreError::Io { .. })));
}
