//! Full or damaged disks, and files of other applications.

use super::super::schema::{connect, migrate, migrate_by};
use super::*;
use crate::process::Pid;

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
    assert_eq!(store.recover("good").unwrap().records.len(), 3);
    for (run, why) in [("flipped", "checksum"), ("cut", "too short"), ("gone", "missing")] {
        let error = store.recover(run).err().unwrap().to_string();
        assert!(error.contains(why) && error.contains(run), "{error}");
        let damage = store.run(run).unwrap().unwrap().damage;
        assert!(damage.is_some_and(|damage| damage.contains(why)), "lists say so too");
        store.remove(run).unwrap();
    }
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let left: i64 = db.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 3, "what is behind the damage goes too");
}

#[test]
fn other_files_and_other_formats_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let listener = || Arc::new(RecordingListener::default());
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    assert!(matches!(Sqlite::open(folder.path(), listener()), Err(StoreError::Foreign { .. })));
    std::fs::write(&path, vec![7; 5_000]).unwrap();
    assert!(matches!(Sqlite::open(folder.path(), listener()), Err(StoreError::Sqlite { .. })));
    std::fs::remove_file(&path).unwrap();
    drop(open(folder.path()));
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    assert!(matches!(Sqlite::open(folder.path(), listener()), Err(StoreError::Format { found: 99, .. })));
    assert!(matches!(Sqlite::open("/dev/null/x", listener()), Err(StoreError::Io { .. })));
}
#[test]
fn a_panic_of_the_listener_fails_the_store_and_ends_all_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (store, listener) = open(folder.path());
    let mut log = store.begin(&new("panics")).unwrap();
    let _ = log.append(b"one");
    assert!(matches!(store.flush(), Err(StoreError::Stopped)));
    while listener.failed.lock().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_full_disk_is_waited_for_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    drop(open(folder.path()));
    let db = connect(&path).unwrap();
    db.execute_batch("CREATE TABLE ballast (data); INSERT INTO ballast VALUES (zeroblob(1 << 20))").unwrap();
    let listener = Arc::new(RecordingListener::default());
    let store = Sqlite::open_tuned(folder.path().into(), Arc::clone(&listener) as _, |db| {
        let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        db.pragma_update(None, "max_page_count", pages + 8)
    })
    .unwrap();
    let mut log = store.begin(&new("run")).unwrap();
    let expected: Vec<_> = (0..50).map(|number| vec![number; 10_000]).collect();
    for record in &expected {
        let _ = log.append(record);
    }
    while listener.full.lock().is_empty() {
        std::thread::yield_now();
    }
    let durable = listener.durable.lock().get("run").copied().unwrap_or(0);
    assert!(durable < 10 && listener.failed.lock().is_empty(), "{durable}");
    assert_eq!(log.records().unwrap(), expected, "nothing is lost");
    db.execute_batch("DROP TABLE ballast").unwrap();
    store.flush().unwrap();
    assert_eq!(*listener.full.lock(), [true, false]);
    assert_eq!(store.records("run").unwrap(), expected);

    // A host that ends meanwhile does not wait, and may give up what is not durable.
    assert!(store.flush_while_room().unwrap() && !store.is_full());
    for record in &expected {
        let _ = log.append(&[&record[..]; 40].concat());
    }
    assert!(!store.flush_while_room().unwrap() && store.is_full());
    assert!(listener.failed.lock().is_empty());
    store.give_up();
    while listener.failed.lock().is_empty() {
        std::thread::yield_now();
    }
    drop((log, store));
    assert_eq!(listener.failed.lock().len(), 1);
}

#[test]
fn a_host_that_ends_while_the_disk_is_full_does_not_wait_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let listener = Arc::new(RecordingListener::default());
    let store = Sqlite::open_tuned(folder.path().into(), Arc::clone(&listener) as _, |db| {
        let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        db.pragma_update(None, "max_page_count", pages + 8)
    })
    .unwrap();
    let mut log = store.begin(&new("run")).unwrap();
    let record = vec![7; 400_000];
    for _ in 0..50 {
        let _ = log.append(&record);
    }
    while listener.full.lock().is_empty() {
        std::thread::yield_now();
    }
    drop((log, store));
    assert_eq!(listener.failed.lock().len(), 1);
}

#[test]
fn an_error_of_a_commit_fails_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (store, listener) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    store.flush().unwrap();
    let db = connect(&folder.path().join("journal.db")).unwrap();
    db.execute_batch("ALTER TABLE log RENAME TO gone").unwrap();
    let _ = log.append(b"two");
    assert!(matches!(store.flush(), Err(StoreError::Sqlite { .. })));
    // Nothing is tried again, although it would succeed.
    db.execute_batch("ALTER TABLE gone RENAME TO log").unwrap();
    let _ = log.append(b"three");
    assert!(store.flush().is_err());
    while listener.failed.lock().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(listener.durable.lock()["run"], 1);
    drop((log, store));
    assert_eq!(listener.failed.lock().len(), 1);
    assert_eq!(open(folder.path()).0.recover("run").unwrap().records, ["one"]);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let listener = || Arc::new(RecordingListener::default());
    for folder in ["/dev/null/x", "/proc/wfhost"] {
        let error = Sqlite::open(folder, listener()).err().unwrap();
        assert!(matches!(error, StoreError::Io { .. }) && error.to_string().contains(folder), "{error}");
    }
}

/// What SQLite has not copied into the file yet is cut or changed anywhere, as a crash of the
/// machine may leave it.
#[test]
fn what_remains_of_the_last_commits_is_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut logs: Vec<_> = (0..3).map(|run| store.begin(&new(&format!("run {run}"))).unwrap()).collect();
    for number in 0..40 {
        for (run, log) in logs.iter_mut().enumerate().filter(|(run, _)| number % (run + 1) == 0) {
            let _ = log.append(&record(run, number));
        }
        store.flush().unwrap();
    }
    let expected: Vec<_> = logs.iter().map(|log| log.records().unwrap()).collect();
    let [file, wal] = ["journal.db", "journal.db-wal"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    assert!(wal.len() > 200_000, "nothing was copied yet");

    let mut lengths = std::collections::BTreeSet::new();
    for round in 0..60_usize {
        // Spread over all of it, in arbitrary order.
        let at = (round * 0x9e37_79b1 + 77_777) % wal.len();
        let mut wal = wal.clone();
        match round {
            0 => {}
            _ if round % 2 == 0 => wal.truncate(at),
            _ => wal[at] ^= 1 << (round % 8),
        }
        let copy = tempfile::tempdir().unwrap();
        std::fs::write(copy.path().join("journal.db"), &file).unwrap();
        std::fs::write(copy.path().join("journal.db-wal"), &wal).unwrap();
        // As it was before it had any table.
        let Ok(store) = Sqlite::open(copy.path(), Arc::new(RecordingListener::default())) else {
            panic!("round {round}, byte {at}")
        };
        let mut all = 0;
        for (run, expected) in expected.iter().enumerate() {
            match store.recover(&format!("run {run}")) {
                Ok(taken) => {
                    assert_eq!(taken.records, expected[..taken.records.len()], "round {round}, byte {at}");
                    all += taken.records.len();
                }
                Err(StoreError::Unknown(_)) => {}
                Err(error) => panic!("round {round}, byte {at}: {error}"),
            }
        }
        if round == 0 {
            assert_eq!(all, expected.iter().map(Vec::len).sum::<usize>());
        }
        lengths.insert(all);
    }
    assert!(lengths.len() > 8, "they were cut in many places: {lengths:?}");
}

#[test]
fn an_older_store_is_brought_up_and_a_newer_one_names_who_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    {
        let (store, _) = open(folder.path());
        let mut log = store.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        store.flush().unwrap();
    }
    let mut db = connect(&path).unwrap();
    let schema = super::super::schema::MIGRATIONS;
    let format = (schema.len() as u64).cast_signed();
    // A change that fails leaves the store as it was.
    let bad = [schema, &["ALTER TABLE run ADD COLUMN extra TEXT; SELECT * FROM nowhere;"]].concat();
    assert!(migrate_by(&bad, "9.0.0", &mut db, &path).is_err());
    migrate(&mut db, &path).unwrap();
    let next = [schema, &["ALTER TABLE run ADD COLUMN extra TEXT;", "UPDATE run SET extra = id;"]].concat();
    migrate_by(&next, "9.1.0", &mut db, &path).unwrap();
    migrate_by(&next, "9.2.0", &mut db, &path).unwrap();
    let extra: String = db.query_row("SELECT extra FROM run", [], |row| row.get(0)).unwrap();
    assert_eq!(extra, "run");
    let formats: Vec<String> = db
        .prepare("SELECT format || ' ' || release FROM format ORDER BY format")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(formats[schema.len()..], [format!("{} 9.1.0", format + 1), format!("{} 9.1.0", format + 2)]);
    let error = Sqlite::open(folder.path(), Arc::new(RecordingListener::default())).err().unwrap();
    assert!(matches!(&error, StoreError::Format { found, .. } if *found == format + 2), "{error}");
    assert!(error.to_string().contains("wfhost 9.1.0 can read it"), "{error}");
    db.execute_batch("PRAGMA user_version = -1").unwrap();
    assert!(matches!(
        Sqlite::open(folder.path(), Arc::new(RecordingListener::default())),
        Err(StoreError::Format { found: -1, .. })
    ));
}

#[test]
fn a_damaged_snapshot_is_found_and_a_damaged_file_of_them_is_thrown_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshots.db");
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    for pid in 1..3 {
        store.put_snapshot("run", Pid(pid), 1, b"key", vec![7; 500]);
    }
    store.flush().unwrap();
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE snapshot SET step = 2 WHERE pid = 1", []).unwrap();
    let snapshots = store.snapshots("run").unwrap();
    assert_eq!((snapshots[0].step, &snapshots[0].data), (2, &None));
    assert_eq!(snapshots[1].data.as_ref().unwrap().len(), 500);
    drop((log, store));
    std::fs::write(&path, vec![7; 5_000]).unwrap();
    let (store, listener) = open(folder.path());
    assert_eq!(store.snapshots("run").unwrap(), []);
    assert_eq!(listener.snapshots.lock().len(), 1);
    let taken = store.recover("run").unwrap();
    store.put_snapshot("run", Pid(1), 1, b"key", vec![7; 500]);
    drop(taken);
    store.flush().unwrap();
    assert_eq!(store.snapshots("run").unwrap().len(), 1);
}

/// Reading one snapshot reads no other: a damaged one in the file does no harm to the others.
#[test]
fn one_snapshot_is_read_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshots.db");
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    for (pid, bytes) in [(1, 500), (2, 40_000)] {
        store.put_snapshot("run", Pid(pid), 1, b"key", vec![7; bytes]);
    }
    store.flush().unwrap();
    drop((log, store));
    let mut file = std::fs::read(&path).unwrap();
    // A page of the large one: the number of the next such page, and data.
    let page = file.chunks_mut(4_096).find(|page| page[4..].iter().all(|byte| *byte == 7)).unwrap();
    page[..4].fill(0xff);
    std::fs::write(&path, file).unwrap();
    let (store, listener) = open(folder.path());
    assert_eq!(store.snapshot_store("run").get(Pid(1), 1).unwrap().unwrap().len(), 500);
    assert!(listener.snapshots.lock().is_empty());
    assert_eq!(store.snapshots("run").unwrap(), []);
    assert_eq!(listener.snapshots.lock().len(), 1, "and reading all of them finds the damage");
}
