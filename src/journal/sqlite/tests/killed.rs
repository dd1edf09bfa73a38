//! An operating system process that writes is killed, again and again.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "WFHOST_TEST_JOURNAL";
const RUNS: usize = 6;

fn id(run: usize) -> String {
    format!("run {run}")
}

/// The record with this number, whichever process writes it.
fn expected(run: usize, number: usize) -> Vec<u8> {
    let length = if number % 50 == 49 { 70_000 } else { number * 37 % 400 };
    [format!("{run} {number} ").into_bytes(), vec![number as u8; length]].concat()
}

/// Prints what is durable.
struct Says;

impl DurabilityListener for Says {
    fn durable(&self, run: &str, record: u64) {
        // One write, so that a line is whole.
        let _ = std::io::stdout().lock().write_all(format!("{run}={record}\n").as_bytes());
    }

    fn failed(&self, error: &StoreError) {
        panic!("{error}");
    }
}

/// The process that is killed: it recovers or begins all runs, and writes without end. As a test of
/// its own it does nothing.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Sqlite::open(folder, Arc::new(Says)).unwrap();
    let mut logs: Vec<_> = (0..RUNS)
        .map(|run| match store.recover(&id(run)) {
            Ok(taken) => (taken.log, taken.records.len()),
            Err(StoreError::Unknown(_)) => (store.begin(&new(&id(run))).unwrap(), 0),
            Err(error) => panic!("{error}"),
        })
        .collect();
    loop {
        for (run, (log, number)) in logs.iter_mut().enumerate() {
            for _ in 0..=run {
                let _ = log.append(&expected(run, *number));
                *number += 1;
            }
        }
        store.put_snapshot(&id(0), Pid(1), logs[0].1 as u64, b"key", vec![1; 10_000]);
        // Ended runs are moved while the others are written.
        let mut short = store.begin(&new(&format!("short {} {}", std::process::id(), logs[0].1))).unwrap();
        let _ = short.append(b"one");
        ended(&mut *short, EndStatus::Succeeded);
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn what_was_reported_as_durable_outlives_any_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut durable = [0; RUNS];
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "journal::sqlite::tests::killed::writes_until_it_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut reports = 0;
        while let Some(Ok(line)) = lines.next() {
            let Some((run, record)) = line.split_once('=') else { continue };
            if let Some(run) = run.strip_prefix("run ") {
                durable[run.parse::<usize>().unwrap()] = record.parse().unwrap();
            }
            reports += 1;
            // At another moment each time, and after checkpoints in the later rounds.
            if reports == 40 + round * 157 {
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success());
        let (store, _) = open(folder.path());
        for (run, durable) in durable.iter_mut().enumerate() {
            // Not recovered: the next process does that.
            let records = store.records(&id(run)).unwrap();
            assert!(
                records.len() >= *durable,
                "round {round}: {durable} were durable, and {} are there",
                records.len()
            );
            for (number, record) in records.iter().enumerate() {
                assert_eq!(*record, expected(run, number), "round {round}, run {run}");
            }
            *durable = records.len();
        }
        for run in store.list(&Filter { ended: Some(true), ..Filter::default() }).unwrap() {
            assert_eq!(store.records(&run.id).unwrap(), ["one"]);
        }
        let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
        let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let moved: i64 = db.query_row("SELECT count(*) FROM done", [], |row| row.get(0)).unwrap();
    assert!(moved > 0, "there were checkpoints in between");
}

#[test]
fn a_log_that_two_lives_wrote_is_copied_into_the_file() {
    // Not enough for a checkpoint in any one of them.
    const RECORDS: usize = 560;
    const BYTES: usize = 4_000;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    {
        let (store, _) = open(folders[0].path());
        let mut log = store.begin(&new("run")).unwrap();
        for _ in 0..RECORDS {
            let _ = log.append(&[1; BYTES]);
        }
        store.flush().unwrap();
        // As a process leaves them that is killed.
        for file in ["journal.db", "journal.db-wal"] {
            std::fs::copy(folders[0].path().join(file), folders[1].path().join(file)).unwrap();
        }
    }
    let file = folders[1].path().join("journal.db");
    let bytes = || std::fs::metadata(&file).unwrap().len();
    assert!(bytes() < (BYTES * RECORDS / 2) as u64, "nothing was copied in the first life");
    let (store, _) = open(folders[1].path());
    let mut log = store.recover("run").unwrap().log;
    for _ in 0..RECORDS {
        let _ = log.append(&[2; BYTES]);
    }
    store.flush().unwrap();
    let copied = (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        bytes() > (BYTES * RECORDS) as u64
    });
    let wal = std::fs::metadata(folders[1].path().join("journal.db-wal")).unwrap().len();
    assert!(copied, "the file has {} bytes, its log {wal}", bytes());
}
