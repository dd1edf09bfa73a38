use super::{Durables, Sqlite, StoreError};
use crate::journal::{Filter, Journal, NewRun};
use crate::process::Micros;
use crate::run::{EndStatus, Log, RunEnd};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The greatest durable record of each run.
#[derive(Default)]
struct Told {
    durable: Mutex<BTreeMap<String, u64>>,
    lost: Mutex<Vec<(String, String)>>,
    failed: Mutex<Vec<String>>,
}

impl Durables for Told {
    fn durable(&self, run: &str, record: u64) {
        let before = self.durable.lock().insert(run.to_owned(), record);
        assert!(record == 1 || before.is_none_or(|before| before < record), "they come in order");
        assert!(run != "panics", "this is a defect of whoever is told");
    }

    fn lost(&self, run: &str, error: &StoreError) {
        self.lost.lock().push((run.to_owned(), error.to_string()));
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
    NewRun { id: id.into(), name: "work".into(), created: Micros(5), about: format!("{{\"of\":\"{id}\"}}") }
}

fn ended(log: &mut dyn Log, status: EndStatus) {
    let _ = log.ended(&RunEnd { status, at: Micros(9) });
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
        ended(&mut *logs[4], EndStatus::Failed);
        store.flush().unwrap();
        assert_eq!(told.durable.lock()["run 4"], 41, "the end counts as a record");
    }
    let (store, _) = open(folder.path());
    let unfinished = store.unfinished().unwrap();
    assert_eq!(unfinished.len(), 19);
    assert_eq!((&*unfinished[4].id, unfinished[4].records), ("run 5", 34));
    assert_eq!(store.about("run 5").unwrap().unwrap(), "{\"of\":\"run 5\"}");
    assert!(matches!(store.take_up("run 4"), Err(StoreError::Ended(_))));
    for run in (0..20).filter(|run| *run != 4) {
        let mut taken = store.take_up(&format!("run {run}")).unwrap();
        let expected: Vec<_> = (0..200).filter(|number| number % (run + 1) == 0).map(|n| record(run, n)).collect();
        assert_eq!(taken.records, expected);
        let _ = taken.log.append(b"more");
        assert_eq!(taken.log.records().unwrap().len(), expected.len() + 1);
    }
    assert!(matches!(store.take_up("run 77"), Err(StoreError::Unknown(_))));
}

#[test]
fn who_was_taken_for_dead_writes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let (old, told) = open(folder.path());
    let mut log = old.begin(&new("run")).unwrap();
    let mut idle = old.begin(&new("another")).unwrap();
    let _ = log.append(b"one");
    let _ = idle.append(b"one");
    old.flush().unwrap();
    // A lock that did not hold.
    std::fs::remove_file(folder.path().join("hosts/1.lock")).unwrap();
    let (other, _) = open(folder.path());
    let mut taken = other.take_up("run").unwrap();
    let _ = taken.log.append(b"two");
    assert_eq!(taken.log.records().unwrap(), [&b"one"[..], b"two"]);
    other.flush().unwrap();
    // Not even what nobody has taken up.
    let _ = idle.append(b"stale");
    assert!(matches!(old.flush(), Err(StoreError::Buried)));
    let _ = log.append(b"stale");
    assert_eq!(log.records().unwrap(), [&b"one"[..], b"two"]);
    assert_eq!(told.durable.lock()["run"], 1);
    assert!(matches!(old.flush(), Err(StoreError::Buried)));
    assert_eq!(other.take_up("another").unwrap().records, [&b"one"[..]]);
}

#[test]
fn a_run_of_another_epoch_is_lost_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (store, told) = open(folder.path());
    let [mut lost, mut kept] = ["lost", "kept"].map(|run| store.begin(&new(run)).unwrap());
    for log in [&mut lost, &mut kept] {
        let _ = log.append(b"one");
    }
    store.flush().unwrap();
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute("UPDATE run SET epoch = epoch + 1 WHERE id = 'lost'", []).unwrap();
    // Somebody began a run of this id in the meantime.
    db.execute("INSERT INTO run (id, name, created, about) VALUES ('late', '', 0, '')", []).unwrap();
    for log in [&mut lost, &mut kept] {
        let _ = log.append(b"two");
    }
    store.flush().unwrap();
    assert_eq!(*told.durable.lock(), BTreeMap::from([("kept".to_owned(), 2), ("lost".to_owned(), 1)]));
    assert_eq!(told.lost.lock().iter().map(|(run, _)| run.as_str()).collect::<Vec<_>>(), ["lost"]);
    assert_eq!(store.records("lost").unwrap().len(), 1);
    let _ = lost.append(b"three");
    store.flush().unwrap();
    assert_eq!(told.lost.lock().len(), 1, "it is said once");
}

#[test]
fn two_hosts_share_a_folder_and_see_who_has_what() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, told), (two, _)) = (open(folder.path()), open(folder.path()));
    one.listens(Path::new("/run/one.sock")).unwrap();
    let mut logs = [(); 2].map(|()| None);
    for (at, id) in ["first", "second"].into_iter().enumerate() {
        let log = logs[at].insert(one.begin(&new(id)).unwrap());
        let _ = log.append(b"one");
    }
    let clash = two.begin(&new("third")).unwrap();
    let mut third = one.begin(&new("third")).unwrap();
    assert!(matches!(one.begin(&new("third")), Err(StoreError::Exists(_))), "it has it already");
    let _ = third.append(b"one");
    one.flush().unwrap();
    drop(clash);
    let owner = two.owner_of("first").unwrap().unwrap();
    assert_eq!((owner.pid, owner.alive), (std::process::id(), true));
    assert_eq!(owner.socket.as_deref(), Some(Path::new("/run/one.sock")));
    assert!(matches!(two.take_up("first"), Err(StoreError::Owned(_))));
    assert!(matches!(two.remove("first"), Err(StoreError::Owned(_))));
    assert!(matches!(one.remove("first"), Err(StoreError::Owned(_))));

    // What is let go of is anybody's, with all that was written before.
    let mut first = logs[0].take().unwrap();
    let _ = first.append(b"two");
    drop(first);
    one.flush().unwrap();
    assert_eq!(two.owner_of("first").unwrap(), None);
    let taken = two.take_up("first").unwrap();
    assert_eq!(taken.records, [&b"one"[..], b"two"]);
    assert!(matches!(one.take_up("first"), Err(StoreError::Owned(_))));
    drop(taken);
    assert_eq!(
        one.take_up("first")
            .or_else(|_| {
                two.flush().unwrap();
                one.take_up("first")
            })
            .unwrap()
            .records
            .len(),
        2
    );

    // What a host leaves behind that ends without a word.
    drop((logs, third));
    drop(one);
    assert!(told.failed.lock().is_empty());
    assert_eq!(two.take_up("second").unwrap().records.len(), 1);
    assert_eq!(two.count(&Filter { ended: Some(false), ..Filter::default() }).unwrap(), 3);
}

#[test]
fn the_runs_of_a_dead_host_are_found_with_their_last_rows() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, _), (two, _)) = (open(folder.path()), open(folder.path()));
    // What a host leaves behind that dies: its rows, and no lock.
    let mut logs: Vec<_> = (0..20).map(|at| one.begin(&new(&format!("run {at}"))).unwrap()).collect();
    for round in 0..3 {
        for (at, log) in logs.iter_mut().enumerate().filter(|(at, _)| at % 3 >= round) {
            let _ = log.append(format!("{at} {round}").as_bytes());
        }
        one.flush().unwrap();
    }
    let unfinished = two.unfinished().unwrap();
    std::fs::remove_file(folder.path().join("hosts/1.lock")).unwrap();
    let taken = two.take_up("run 5").unwrap();
    assert_eq!(taken.records, ["5 0", "5 1", "5 2"]);
    for run in unfinished.iter().filter(|run| &*run.id != "run 5") {
        assert_eq!(two.owner_of(&run.id).unwrap(), None);
    }
    for (id, records) in [("run 0", 1), ("run 19", 2), ("run 8", 3)] {
        assert_eq!(two.take_up(id).unwrap().records.len(), records);
    }
    // It is not dead, and writes nothing more.
    let _ = logs[0].append(b"late");
    assert!(matches!(one.flush(), Err(StoreError::Buried)));
}

#[test]
fn a_panic_of_who_is_told_is_the_end_and_nobody_waits_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let (store, told) = open(folder.path());
    let mut log = store.begin(&new("panics")).unwrap();
    let _ = log.append(b"one");
    assert!(matches!(store.flush(), Err(StoreError::Stopped)));
    while told.failed.lock().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_run_that_was_begun_twice_is_one_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, _), (two, told)) = (open(folder.path()), open(folder.path()));
    let [mut first, mut late] = [&one, &two].map(|store| store.begin(&new("run")).unwrap());
    let _ = first.append(b"first");
    one.flush().unwrap();
    let _ = late.append(b"late");
    two.flush().unwrap();
    assert_eq!(one.records("run").unwrap(), [&b"first"[..]]);
    assert!(told.durable.lock().is_empty());
    assert_eq!(told.lost.lock()[0].1, "there is a run with the id \"run\" already");
}

#[test]
fn lists_are_filtered_and_the_newest_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut logs = Vec::new();
    for at in 0..40_u64 {
        let name = if at % 2 == 0 { "even" } else { "odd" };
        let run = NewRun { created: Micros(100 + at), name: name.into(), ..new(&format!("run {at}")) };
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
        numbers(&Filter { status: Some(EndStatus::TimedOut), created_min: Some(Micros(130)), ..all.clone() }),
        [37, 33]
    );
    assert_eq!(numbers(&Filter { name: Some("odd".into()), created_before: Some(Micros(104)), ..all.clone() }), [3, 1]);
    let run = store.run("run 37").unwrap().unwrap();
    assert_eq!((run.status, run.ended, run.records), (Some(EndStatus::TimedOut), Some(Micros(9)), 1));
    assert_eq!(store.run("run 40").unwrap(), None);
    // None of this reads the whole table.
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    for which in ["status IS NULL", "status = 'failed'", "name = 'x'", "created > 5", "true"] {
        let plan: String = db
            .query_row(
                &format!("EXPLAIN QUERY PLAN SELECT id, status FROM run WHERE {which} ORDER BY created DESC, run DESC"),
                [],
                |row| row.get(3),
            )
            .unwrap();
        assert!(plan.contains("USING INDEX run_"), "{which}: {plan}");
    }
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
    let mut taken = store.take_up("copy").unwrap();
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
