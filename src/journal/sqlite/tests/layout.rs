//! The layout of the file.

use super::super::schema::connect;
use super::*;
use crate::journal::Retention;
use rusqlite::Connection;

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn file(folder: &Path) -> Connection {
    connect(&folder.join("journal.db")).unwrap()
}

#[test]
fn ended_runs_leave_the_log_and_are_read_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut db = file(folder.path());
    let large = |number: u8| vec![number; 60_000];
    let mut large_log = store.begin(&new("large")).unwrap();
    for number in 0..200 {
        let _ = large_log.append(&large(number));
        if number % 50 == 0 {
            store.flush().unwrap();
        }
    }
    let mut goes_on = store.begin(&new("goes on")).unwrap();
    let _ = goes_on.append(b"one");
    ended(&mut *large_log, EndStatus::Succeeded);
    for run in 0..100 {
        let mut log = store.begin(&new(&format!("run {run}"))).unwrap();
        let _ = log.append(&record(run, 1));
        store.flush().unwrap();
        let _ = log.append(&record(run, 2));
        ended(&mut *log, EndStatus::Failed);
    }
    store.flush().unwrap();
    // The checkpoint thread may have begun.
    assert!(store.0.shared.move_ended(&mut db, || false).unwrap() <= 101);
    assert_eq!(store.0.shared.move_ended(&mut db, || false).unwrap(), 0);
    assert_eq!(number(&db, "SELECT count(*) FROM log"), 1);
    let rows = number(&db, "SELECT count(*) FROM done");
    assert!((102..105).contains(&rows), "one for each but the large one: {rows}");
    let expected: Vec<_> = (0..200).map(large).collect();
    assert_eq!(store.records("large").unwrap(), expected);
    for run in 0..100 {
        assert_eq!(store.records(&format!("run {run}")).unwrap(), [record(run, 1), record(run, 2)]);
    }
    assert!(matches!(store.recover("run 7"), Err(StoreError::Ended(_))));
    store.fork("large", &new("copy"), 150, b"new").unwrap();
    assert_eq!(store.recover("copy").unwrap().records[1..], expected[1..150]);
    let view =
        "SELECT count(*) || ' ' || sum(bytes > 20) || ' ' || min(seq) || ' ' || max(status) FROM records WHERE id = ";
    let seen: String = db.query_row(&format!("{view} 'run 7'"), [], |row| row.get(0)).unwrap();
    assert_eq!(seen, "1 1 1 failed");
    let seen: String = db.query_row(&format!("{view} 'goes on'"), [], |row| row.get(0)).unwrap();
    assert_eq!(seen, "1 0 1 unfinished");

    // A run that is damaged in `done`, and one that is damaged before it can be moved.
    db.execute_batch("UPDATE done SET data = CAST(substr(data, 1, 40) AS BLOB) WHERE part >> 20 = (SELECT run FROM run WHERE id = 'run 3')")
        .unwrap();
    assert!(matches!(store.records("run 3"), Err(StoreError::Damaged { .. })));
    let mut log = store.begin(&new("holed")).unwrap();
    for _ in 0..2 {
        let _ = log.append(b"one");
        store.flush().unwrap();
    }
    ended(&mut *log, EndStatus::Failed);
    store.flush().unwrap();
    db.execute_batch("DELETE FROM log WHERE seq = 1 AND run = (SELECT run FROM run WHERE id = 'holed')").unwrap();
    let _ = store.0.shared.move_ended(&mut db, || false).unwrap();
    assert!(matches!(store.records("holed"), Err(StoreError::Damaged { .. })));
    for id in ["large", "run 3", "holed"] {
        store.remove(id).unwrap();
    }
    assert_eq!(number(&db, "SELECT count(*) FROM done"), 99, "all of them are gone");
}

#[test]
fn the_old_rows_of_a_run_are_found_from_the_end_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut early = store.begin(&new("early")).unwrap();
    let _ = early.append(b"early");
    store.flush().unwrap();
    let mut logs: Vec<_> = (0..100).map(|run| store.begin(&new(&format!("run {run}"))).unwrap()).collect();
    let mut rows = 0;
    for round in 0..700 {
        for log in &mut logs[..if round < 350 { 100 } else { 60 }] {
            let _ = log.append(&[round as u8]);
            rows += 1;
        }
        store.flush().unwrap();
    }
    let db = file(folder.path());
    let (saved, last) = (number(&db, "SELECT saved FROM host"), number(&db, "SELECT max(id) FROM log"));
    assert!(rows > 50_000 && last - saved < 33_000 && saved > 10_000, "{saved} of {last}");
    // Its host dies.
    std::fs::remove_file(folder.path().join("hosts/1.lock")).unwrap();
    let (other, _) = open(folder.path());
    assert_eq!(other.recover("early").unwrap().records, ["early"]);
    for run in 0..100 {
        let taken = other.recover(&format!("run {run}")).unwrap();
        assert_eq!(taken.records.len(), if run < 60 { 700 } else { 350 });
    }
}

/// A writer that never rests does not prevent SQLite's log from being begun anew.
#[test]
fn the_log_of_pages_stays_short_while_much_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut longest = 0;
    for round in 0..60 {
        let mut log = store.begin(&new(&format!("run {round}"))).unwrap();
        for number in 0..20 {
            let _ = log.append(&vec![number; 60_000]);
            store.flush().unwrap();
        }
        ended(&mut *log, EndStatus::Succeeded);
        longest = longest.max(std::fs::metadata(folder.path().join("journal.db-wal")).unwrap().len());
    }
    // It lags behind if all processors are busy.
    assert!(longest < 60 << 20, "{longest} bytes of 72 MB");
    let db = file(folder.path());
    // The checkpoint thread is at work.
    while number(&db, "SELECT count(*) FROM done") == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn large_records_are_stored_once_and_as_long_as_a_run_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut db = file(folder.path());
    let large: Vec<Vec<u8>> = (0..4).map(|number| vec![number; 100_000]).collect();
    let mut logs: Vec<_> = (0..2).map(|run| store.begin(&new(&format!("run {run}"))).unwrap()).collect();
    for (run, log) in logs.iter_mut().enumerate() {
        for (number, large) in large.iter().enumerate().filter(|(number, _)| number % 2 == 0 || *number == 2 * run + 1)
        {
            let _ = log.append(&[number as u8]);
            let _ = log.append(large);
        }
        assert_eq!(log.records().unwrap().len(), 6);
    }
    store.flush().unwrap();
    let expected = [vec![0], large[0].clone(), vec![1], large[1].clone(), vec![2], large[2].clone()];
    assert_eq!(logs[0].records().unwrap(), expected);
    assert_eq!(number(&db, "SELECT count(*) FROM blob"), 4);
    assert!(number(&db, "SELECT sum(length(data)) FROM log") < 1_000);
    store.fork("run 0", &new("copy"), 4, b"new").unwrap();
    assert_eq!(number(&db, "SELECT count(*) FROM blob"), 4);
    ended(&mut *logs[0], EndStatus::Succeeded);
    store.flush().unwrap();
    store.0.shared.move_ended(&mut db, || false).unwrap();
    assert_eq!(store.records("run 0").unwrap(), expected);
    store.remove("run 0").unwrap();
    assert_eq!(number(&db, "SELECT count(*) FROM blob"), 4, "others have them");
    store.remove("copy").unwrap();
    assert_eq!(number(&db, "SELECT count(*) FROM blob"), 3);
    db.execute("UPDATE blob SET data = CAST(zeroblob(100000) AS BLOB) WHERE blob = (SELECT max(blob) FROM blob)", [])
        .unwrap();
    let error = store.records("run 1").unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("blob"), "{error}");
    db.execute("DELETE FROM blob", []).unwrap();
    assert!(store.records("run 1").unwrap_err().to_string().contains("is missing"));
}

#[test]
fn old_and_surplus_runs_go_and_what_unfinished_ones_need_stays() {
    let folder = tempfile::tempdir().unwrap();
    let components = folder.path().join("components");
    std::fs::create_dir(&components).unwrap();
    let (store, _) = open(folder.path());
    let hash = |name: &str| components.join(format!("{name}.wasm"));
    for name in ["ended", "unfinished", "both", "nobody", "young"] {
        let file = std::fs::File::create(hash(name)).unwrap();
        if name != "young" {
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
    }
    let begin = |id: &str, components: &[&str]| {
        let components = components.iter().map(|name| (*name).into()).collect();
        let mut log = store.begin(&NewRun { components, ..new(id) }).unwrap();
        let _ = log.append(b"one");
        log
    };
    let _goes_on = begin("goes on", &["unfinished", "both"]);
    drop(begin("waits", &[]));
    for at in 0..100 {
        let mut log = begin(&format!("run {at}"), if at < 50 { &["ended", "both"] } else { &[] });
        let _ = log.ended(&RunEnd { status: EndStatus::Failed, at: Timestamp(100 + at), fuel: 0 });
        store.put_snapshot(&format!("run {at}"), Pid(1), 1, b"", Vec::new());
    }
    store.flush().unwrap();
    assert_eq!(store.sweep(&Retention::default()).unwrap(), 0);
    assert!(!hash("nobody").exists() && hash("young").exists() && hash("ended").exists());
    assert_eq!(store.sweep(&Retention { ended_before: Some(Timestamp(140)), runs_max: Some(1_000) }).unwrap(), 40);
    assert!(store.run("run 39").unwrap().is_none() && store.run("run 40").unwrap().is_some());
    assert!(hash("ended").exists());
    assert_eq!(store.sweep(&Retention { ended_before: None, runs_max: Some(7) }).unwrap(), 53);
    let left: Vec<_> = store.list(&Filter::default()).unwrap().iter().map(|run| run.id.to_string()).collect();
    assert_eq!(left.len(), 9);
    assert!((93..100).all(|at| left.contains(&format!("run {at}"))), "{left:?}");
    assert!(!hash("ended").exists() && hash("unfinished").exists() && hash("both").exists());
    let snapshots = rusqlite::Connection::open(folder.path().join("snapshots.db")).unwrap();
    // Of a run that was removed by a process that then died.
    snapshots
        .execute("INSERT INTO snapshot (run, pid, step, key, data, sum) VALUES (4711, 1, 1, x'', x'', x'')", [])
        .unwrap();
    assert_eq!(store.sweep(&Retention::default()).unwrap(), 0);
    assert_eq!(number(&snapshots, "SELECT count(*) FROM snapshot"), 7);
    let db = file(folder.path());
    for table in ["about", "run", "log"] {
        assert_eq!(number(&db, &format!("SELECT count(*) FROM {table}")), 9, "{table}");
    }
}

#[test]
fn only_its_owner_reads_what_is_in_a_store() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let (store, _) = open(&folder);
    let mut log = store.begin(&new("one")).unwrap();
    let _ = log.append(b"one");
    store.put_snapshot("one", Pid(1), 1, b"key", vec![7]);
    store.flush().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("hosts"))), (0o700, 0o700));
    for store in ["journal.db", "snapshots.db"] {
        for suffix in ["", "-wal", "-shm"] {
            let file = format!("{store}{suffix}");
            assert_eq!(mode(&folder.join(&file)), 0o600, "{file}");
        }
    }
}

#[test]
fn a_link_to_a_missing_file_leads_to_one_that_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = elsewhere.path().join("journal.db");
    std::os::unix::fs::symlink(&file, folder.path().join("journal.db")).unwrap();
    drop(open(folder.path()));
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A row names a run in one journal only.
#[test]
fn a_snapshot_with_the_same_row_in_another_journal_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    for created in [5, 6] {
        let (store, _) = open(folder.path());
        let mut log = store.begin(&NewRun { created: Timestamp(created), ..new("run") }).unwrap();
        let _ = log.append(b"one");
        store.flush().unwrap();
        if created == 5 {
            store.put_snapshot("run", Pid(1), 1, b"key", vec![7]);
            store.flush().unwrap();
            assert!(store.snapshot("run", Pid(1), 1).unwrap().unwrap().data.is_some());
        } else {
            assert!(store.snapshot("run", Pid(1), 1).unwrap().is_none_or(|found| found.data.is_none()));
        }
        drop((log, store));
        for file in ["journal.db", "journal.db-wal", "journal.db-shm"] {
            let _ = std::fs::remove_file(folder.path().join(file));
        }
    }
}
