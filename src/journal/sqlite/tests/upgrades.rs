//! A process that upgrades runs is killed, again and again: each run is what its last record and
//! its manifest say, and both say the same.

use super::*;
use crate::journal::RunUpgrade;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

const FOLDER: &str = "WFHOST_TEST_UPGRADES";
const RUNS: usize = 4;

fn id(run: usize) -> String {
    format!("run {run}")
}

/// The upgrade of a run that has so many records.
fn upgrade(records: u64) -> RunUpgrade {
    RunUpgrade {
        records,
        record: [format!("upgraded {records} ").into_bytes(), vec![7; records as usize * 997 % 90_000]].concat().into(),
        manifest: format!("about {records}"),
        components: vec![format!("component {records}").into()],
        version: Some(records),
    }
}

/// What a run was upgraded at last, by its records.
fn last(records: &[bytes::Bytes]) -> Option<u64> {
    records.iter().rev().find_map(|record| {
        let text = String::from_utf8_lossy(record.strip_prefix(b"upgraded ")?).into_owned();
        text.split(' ').next()?.parse().ok()
    })
}

/// The process that is killed. As a test of its own it does nothing.
#[test]
fn upgrades_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (store, _) = open(Path::new(&folder));
    for turn in 0.. {
        let id = id(turn % RUNS);
        let (mut log, records) = match store.recover(&id) {
            Ok(taken) => (taken.log, taken.records.len() as u64),
            Err(StoreError::Unknown(_)) => (store.begin(&new(&id)).unwrap(), 0),
            Err(error) => panic!("{error}"),
        };
        let _ = log.append(format!("step {records}").as_bytes());
        drop(log);
        assert!(store.upgrade(&id, &upgrade(records + 1)).unwrap());
        // One write, so that a line is whole.
        let _ = std::io::stdout().lock().write_all(format!("{id}={}\n", records + 1).as_bytes());
    }
}

#[test]
fn a_kill_leaves_the_former_version_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut upgraded = [0; RUNS];
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "journal::sqlite::tests::upgrades::upgrades_until_it_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut reports = 0;
        for line in lines.map_while(Result::ok) {
            let Some((run, at)) = line.strip_prefix("run ").and_then(|line| line.split_once('=')) else { continue };
            upgraded[run.parse::<usize>().unwrap()] = at.parse().unwrap();
            reports += 1;
            if reports == 3 + round {
                // At another moment of the next one each time.
                std::thread::sleep(std::time::Duration::from_micros(round * 331 % 2_000));
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success());
        let (store, _) = open(folder.path());
        let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
        for (run, upgraded) in upgraded.iter().enumerate() {
            let id = id(run);
            let Ok(records) = store.records(&id) else { continue };
            let last = last(&records);
            assert!(last.unwrap_or(0) >= *upgraded, "round {round}, {id}: {upgraded} was reported, {last:?} is there");
            let manifest = store.manifest(&id).unwrap().unwrap();
            assert_eq!(manifest, last.map_or_else(|| new(&id).manifest, |last| format!("about {last}")));
            let of_row: (Option<u64>, Option<String>) = db
                .query_row(
                    "SELECT version, (SELECT group_concat(hash) FROM run_component WHERE run = r.run)
                     FROM run AS r WHERE id = ?1",
                    [&id],
                    |row| Ok((row.get::<_, Option<i64>>(0)?.map(i64::cast_unsigned), row.get(1)?)),
                )
                .unwrap();
            assert_eq!(of_row, (last, last.map(|last| format!("component {last}"))));
        }
    }
    assert!(upgraded.iter().all(|upgraded| *upgraded > 4), "{upgraded:?}");
}

#[test]
fn a_run_that_has_moved_since_it_was_compared_is_not_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    let _ = log.append(b"two");
    drop(log);
    store.flush().unwrap();
    for compared in [1, 3] {
        assert!(!store.upgrade("run", &upgrade(compared)).unwrap());
        assert_eq!(store.records("run").unwrap(), ["one", "two"]);
        assert_eq!(store.manifest("run").unwrap().unwrap(), new("run").manifest);
    }
    assert!(store.upgrade("run", &upgrade(2)).unwrap());
}
