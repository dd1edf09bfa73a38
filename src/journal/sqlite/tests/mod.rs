//! What SQLite does besides what every journal does.

mod backlog;
mod catalog;
mod failing;
mod faults;
mod killed;
mod layout;
mod lists;
mod logs;
mod pages;
mod parked;
mod places;
mod sharing;
mod upgrades;

use super::{Sqlite, StoreError};
use crate::journal::{DurabilityListener, Filter, Journal, NewRun, Place};
use crate::process::{Pid, Timestamp};
use crate::run::{EndStatus, Log, RunEnd};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The greatest durable record of each run.
#[derive(Default)]
struct RecordingListener {
    full: Mutex<Vec<bool>>,
    snapshots: Mutex<Vec<String>>,
    durable: Mutex<BTreeMap<String, u64>>,
    lost: Mutex<Vec<(String, String)>>,
    failed: Mutex<Vec<String>>,
    placed: Mutex<BTreeMap<String, Place>>,
    torn: Mutex<Vec<PathBuf>>,
    anew: Mutex<Vec<PathBuf>>,
}

impl DurabilityListener for RecordingListener {
    fn durable(&self, run: &str, record: u64) {
        let before = self.durable.lock().insert(run.to_owned(), record);
        assert!(record == 1 || before.is_none_or(|before| before < record), "they come in order");
        assert!(run != "panics", "this is a defect of the listener");
    }

    fn lost(&self, run: &str, error: &StoreError) {
        self.lost.lock().push((run.to_owned(), error.to_string()));
    }

    fn placed(&self, run: &str, place: Place) {
        self.placed.lock().insert(run.to_owned(), place);
    }

    fn snapshot_failed(&self, error: &StoreError) {
        self.snapshots.lock().push(error.to_string());
    }

    fn full(&self, is_full: bool) {
        self.full.lock().push(is_full);
    }

    fn torn(&self, retained: &Path) {
        self.torn.lock().push(retained.to_owned());
    }

    fn recreated(&self, path: &Path) {
        self.anew.lock().push(path.to_owned());
    }

    fn failed(&self, error: &StoreError) {
        self.failed.lock().push(error.to_string());
    }
}

fn open(folder: &Path) -> (Sqlite, Arc<RecordingListener>) {
    let listener = Arc::new(RecordingListener::default());
    (Sqlite::open(folder, Arc::clone(&listener) as _).unwrap(), listener)
}

/// What remains of a log that was parked: the store keeps its runs.
fn kept(parked: Option<crate::run::Parking>) -> Box<dyn crate::run::ParkedLog> {
    match parked {
        Some(crate::run::Parking::Kept(log)) => log,
        _ => panic!("the log is not kept"),
    }
}

fn new(id: &str) -> NewRun {
    NewRun {
        id: id.into(),
        name: "work".into(),
        created: Timestamp(5),
        manifest: format!("{{\"of\":\"{id}\"}}"),
        components: Vec::new(),
        ..NewRun::default()
    }
}

fn ended(log: &mut dyn Log, status: EndStatus) {
    let _ = log.ended(&RunEnd { status, at: Timestamp(9), fuel: 0 });
}

fn record(run: usize, number: usize) -> Vec<u8> {
    format!("record {number} of {run} {}", "x".repeat(number % 300)).into_bytes()
}

#[test]
fn records_of_many_runs_are_read_back_in_another_process_life() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (store, listener) = open(folder.path());
        let mut logs: Vec<_> = (0..20).map(|run| store.begin(&new(&format!("run {run}"))).unwrap()).collect();
        for number in 0..200 {
            for (run, log) in logs.iter_mut().enumerate() {
                if number % (run + 1) == 0 {
                    let _ = log.append(&record(run, number));
                }
            }
        }
        // The log reads its records from disk, once they are there.
        assert_eq!(logs[0].records().unwrap().len(), 200);
        store.flush().unwrap();
        assert_eq!(listener.durable.lock()["run 0"], 200);
        assert!(matches!(store.begin(&new("run 3")), Err(StoreError::Exists(_))));
        assert!(matches!(store.recover("run 3"), Err(StoreError::Owned { .. })));
        ended(&mut *logs[4], EndStatus::Failed);
        store.flush().unwrap();
        assert_eq!(listener.durable.lock()["run 4"], 41, "the end counts as a record");
    }
    let (store, _) = open(folder.path());
    let unfinished = store.unfinished().unwrap();
    assert_eq!(unfinished.len(), 19);
    assert_eq!((&*unfinished[4].id, unfinished[4].records), ("run 5", 34));
    assert_eq!(store.manifest("run 5").unwrap().unwrap(), "{\"of\":\"run 5\"}");
    assert!(matches!(store.recover("run 4"), Err(StoreError::Ended(_))));
    for run in (0..20).filter(|run| *run != 4) {
        let mut taken = store.recover(&format!("run {run}")).unwrap();
        let expected: Vec<_> = (0..200).filter(|number| number % (run + 1) == 0).map(|n| record(run, n)).collect();
        assert_eq!(taken.records, expected);
        let _ = taken.log.append(b"more");
        assert_eq!(taken.log.records().unwrap().len(), expected.len() + 1);
    }
    assert!(matches!(store.recover("run 77"), Err(StoreError::Unknown(_))));
}

#[test]
fn lists_are_filtered_and_the_newest_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut logs = Vec::new();
    for at in 0..40_u64 {
        let name = if at % 2 == 0 { "even" } else { "odd" };
        let run = NewRun { created: Timestamp(100 + at), name: name.into(), ..new(&format!("run {at}")) };
        let mut log = store.begin(&run).unwrap();
        let _ = log.append(b"one");
        match at % 4 {
            0 => ended(&mut *log, EndStatus::Succeeded),
            1 => ended(&mut *log, EndStatus::TimedOut),
            _ => {}
        }
        logs.push(log);
    }
    store.flush().unwrap();
    let all = Filter::default();
    let numbers = |filter: &Filter| {
        let runs = store.list(filter).unwrap();
        assert!(store.count(&Filter { limit: None, ..filter.clone() }).unwrap() >= runs.len() as u64);
        runs.iter().map(|run| run.created.0 - 100).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&all), (0..40).rev().collect::<Vec<_>>());
    assert_eq!(numbers(&Filter { limit: Some(2), ended: Some(true), ..all.clone() }), [37, 36]);
    assert_eq!(numbers(&Filter { limit: Some(2), ended: Some(false), ..all.clone() }), [39, 38]);
    assert_eq!(
        numbers(&Filter { status: Some(EndStatus::TimedOut), created_min: Some(Timestamp(130)), ..all.clone() }),
        [37, 33]
    );
    assert_eq!(
        numbers(&Filter { name: Some("odd".into()), created_before: Some(Timestamp(104)), ..all.clone() }),
        [3, 1]
    );
    let run = store.run("run 37").unwrap().unwrap();
    assert_eq!((run.status, run.ended, run.records), (Some(EndStatus::TimedOut), Some(Timestamp(9)), 1));
    assert_eq!(store.run("run 40").unwrap(), None);
}

#[test]
fn a_copy_of_the_first_records_is_a_run_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("old")).unwrap();
    for number in 0..3_000 {
        let _ = log.append(&[number as u8; 1_000]);
    }
    store.flush().unwrap();
    store.fork("old", &new("copy"), 2_500, b"begun anew").unwrap();
    assert!(matches!(store.fork("old", &new("copy"), 1, b""), Err(StoreError::Exists(_))));
    assert!(matches!(store.fork("old", &new("longer"), 3_001, b""), Err(StoreError::Short { records: 3_000, .. })));
    assert!(matches!(store.fork("none", &new("longer"), 1, b""), Err(StoreError::Unknown(_))));
    assert_eq!(store.run("copy").unwrap().unwrap().records, 2_500);
    let mut taken = store.recover("copy").unwrap();
    let mut expected = log.records().unwrap();
    expected.truncate(2_500);
    expected[0] = (&b"begun anew"[..]).into();
    assert_eq!(taken.records, expected);
    let _ = taken.log.append(b"on its own");
    assert_eq!(taken.log.records().unwrap().len(), 2_501);
    assert_eq!(log.records().unwrap().len(), 3_000);
}

#[test]
fn what_is_removed_is_gone_and_its_id_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    for id in ["ended", "left", "stays"] {
        let mut log = store.begin(&new(id)).unwrap();
        for _ in 0..3 {
            let _ = log.append(b"one");
            store.flush().unwrap();
        }
        if id == "ended" {
            ended(&mut *log, EndStatus::Cancelled);
        }
    }
    store.flush().unwrap();
    for id in ["ended", "left"] {
        store.remove(id).unwrap();
        assert!(matches!(store.remove(id), Err(StoreError::Unknown(_))));
    }
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    assert_eq!(db.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0)).unwrap(), 3);
    let mut log = store.begin(&new("ended")).unwrap();
    let _ = log.append(b"again");
    store.flush().unwrap();
    assert_eq!(store.records("ended").unwrap(), [&b"again"[..]]);
}
