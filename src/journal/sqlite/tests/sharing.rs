//! Several hosts that share a folder.

use super::*;
use crate::journal::Address;

#[test]
fn a_fenced_host_writes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let (old, listener) = open(folder.path());
    let mut log = old.begin(&new("run")).unwrap();
    let mut idle = old.begin(&new("another")).unwrap();
    let _ = log.append(b"one");
    let _ = idle.append(b"one");
    old.flush().unwrap();
    // As if the lock had not held.
    std::fs::remove_file(folder.path().join("hosts/1.lock")).unwrap();
    let (other, _) = open(folder.path());
    let mut taken = other.recover("run").unwrap();
    let _ = taken.log.append(b"two");
    assert_eq!(taken.log.records().unwrap(), [&b"one"[..], b"two"]);
    other.flush().unwrap();
    // Not even runs that no host has recovered.
    let _ = idle.append(b"stale");
    assert!(matches!(old.flush(), Err(StoreError::HostFenced)));
    let _ = log.append(b"stale");
    assert_eq!(log.records().unwrap(), [&b"one"[..], b"two"]);
    assert_eq!(listener.durable.lock()["run"], 1);
    assert!(matches!(old.flush(), Err(StoreError::HostFenced)));
    assert_eq!(other.recover("another").unwrap().records, [&b"one"[..]]);
}

#[test]
fn a_host_that_the_others_have_forgotten_writes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    store.flush().unwrap();
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute("DELETE FROM host", []).unwrap();
    let _ = log.append(b"two");
    assert!(matches!(store.flush(), Err(StoreError::HostFenced)));
    assert_eq!(store.records("run").unwrap(), ["one"]);
}

#[test]
fn a_run_of_another_epoch_is_lost_and_others_continue() {
    let folder = tempfile::tempdir().unwrap();
    let (store, listener) = open(folder.path());
    let [mut lost, mut kept] = ["lost", "kept"].map(|run| store.begin(&new(run)).unwrap());
    for log in [&mut lost, &mut kept] {
        let _ = log.append(b"one");
    }
    store.flush().unwrap();
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute("UPDATE run SET epoch = epoch + 1 WHERE id = 'lost'", []).unwrap();
    // Another host began a run with this id in the meantime.
    db.execute("INSERT INTO run (id, name, created) VALUES ('late', '', 0)", []).unwrap();
    for log in [&mut lost, &mut kept] {
        let _ = log.append(b"two");
    }
    store.flush().unwrap();
    assert_eq!(*listener.durable.lock(), BTreeMap::from([("kept".to_owned(), 2), ("lost".to_owned(), 1)]));
    assert_eq!(listener.lost.lock().iter().map(|(run, _)| run.as_str()).collect::<Vec<_>>(), ["lost"]);
    assert_eq!(store.records("lost").unwrap().len(), 1);
    let _ = lost.append(b"three");
    store.flush().unwrap();
    assert_eq!(listener.lost.lock().len(), 1, "it is reported once");
}

/// A former owner that does not know yet writes with its old epoch.
#[test]
fn each_recovery_of_a_run_has_an_epoch_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    let _ = log.append(b"one");
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let epoch = || db.query_row("SELECT epoch FROM run WHERE id = 'run'", [], |row| row.get::<_, i64>(0)).unwrap();
    let mut epochs = Vec::new();
    for _ in 0..3 {
        drop(log);
        store.flush().unwrap();
        epochs.push(epoch());
        log = store.recover("run").unwrap().log;
    }
    assert!(epochs.is_sorted_by(|before, after| before < after), "{epochs:?}");
}

#[test]
fn two_hosts_share_a_folder_and_see_who_owns_what() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, listener), (two, _)) = (open(folder.path()), open(folder.path()));
    one.set_address(&Address::Socket("/run/one.sock".into())).unwrap();
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
    assert_eq!((owner.pid, owner.alive), (Some(std::process::id()), true));
    assert_eq!(owner.address.as_ref().and_then(Address::socket), Some(Path::new("/run/one.sock")));
    assert!(matches!(two.recover("first"), Err(StoreError::Owned { .. })));
    assert!(matches!(two.remove("first"), Err(StoreError::Owned { .. })));
    assert!(matches!(one.remove("first"), Err(StoreError::Owned { .. })));

    // No host owns a released run, which has everything that was written before.
    let mut first = logs[0].take().unwrap();
    let _ = first.append(b"two");
    drop(first);
    one.flush().unwrap();
    assert_eq!(two.owner_of("first").unwrap(), None);
    let taken = two.recover("first").unwrap();
    assert_eq!(taken.records, [&b"one"[..], b"two"]);
    assert!(matches!(one.recover("first"), Err(StoreError::Owned { .. })));
    drop(taken);
    assert_eq!(
        one.recover("first")
            .or_else(|_| {
                two.flush().unwrap();
                one.recover("first")
            })
            .unwrap()
            .records
            .len(),
        2
    );

    // What remains of a host that ends without releasing its runs.
    drop((logs, third));
    drop(one);
    assert!(listener.failed.lock().is_empty());
    assert_eq!(two.recover("second").unwrap().records.len(), 1);
    assert_eq!(two.count(&Filter { ended: Some(false), ..Filter::default() }).unwrap(), 3);
}

#[test]
fn the_runs_of_a_dead_host_are_found_with_their_last_rows() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, _), (two, _)) = (open(folder.path()), open(folder.path()));
    // What remains of a host that dies: its rows, and no lock.
    let mut logs: Vec<_> = (0..20).map(|at| one.begin(&new(&format!("run {at}"))).unwrap()).collect();
    for round in 0..3 {
        for (at, log) in logs.iter_mut().enumerate().filter(|(at, _)| at % 3 >= round) {
            let _ = log.append(format!("{at} {round}").as_bytes());
        }
        one.flush().unwrap();
    }
    let unfinished = two.unfinished().unwrap();
    std::fs::remove_file(folder.path().join("hosts/1.lock")).unwrap();
    let taken = two.recover("run 5").unwrap();
    assert_eq!(taken.records, ["5 0", "5 1", "5 2"]);
    for run in unfinished.iter().filter(|run| &*run.id != "run 5") {
        assert_eq!(two.owner_of(&run.id).unwrap(), None);
    }
    for (id, records) in [("run 0", 1), ("run 19", 2), ("run 8", 3)] {
        assert_eq!(two.recover(id).unwrap().records.len(), records);
    }
    // It is alive, and writes nothing more.
    let _ = logs[0].append(b"late");
    assert!(matches!(one.flush(), Err(StoreError::HostFenced)));
}

#[test]
fn a_run_that_was_begun_twice_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, _), (two, listener)) = (open(folder.path()), open(folder.path()));
    let [mut first, mut late] = [&one, &two].map(|store| store.begin(&new("run")).unwrap());
    let _ = first.append(b"first");
    one.flush().unwrap();
    let _ = late.append(b"late");
    two.flush().unwrap();
    assert_eq!(one.records("run").unwrap(), [&b"first"[..]]);
    assert!(listener.durable.lock().is_empty());
    assert_eq!(listener.lost.lock()[0].1, "there is a run with the id \"run\" already");
}

#[test]
fn two_hosts_write_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [open(folder.path()), open(folder.path())];
    std::thread::scope(|scope| {
        for (host, (store, _)) in stores.iter().enumerate() {
            scope.spawn(move || {
                let mut logs: Vec<_> = (0..4).map(|run| store.begin(&new(&format!("{host} {run}"))).unwrap()).collect();
                for number in 0..100 {
                    for log in &mut logs {
                        let _ = log.append(&record(host, number));
                    }
                    store.flush().unwrap();
                }
            });
        }
    });
    let (store, _) = open(folder.path());
    for (host, (_, listener)) in stores.iter().enumerate() {
        let expected: Vec<_> = (0..100).map(|number| record(host, number)).collect();
        for run in 0..4 {
            assert_eq!(store.records(&format!("{host} {run}")).unwrap(), expected);
        }
        assert!(listener.failed.lock().is_empty());
    }
}

#[test]
fn a_new_folder_is_opened_by_many_at_one_time() {
    for _ in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let begin = std::sync::Barrier::new(6);
        std::thread::scope(|scope| {
            for number in 0..6 {
                let (folder, begin) = (&folder, &begin);
                scope.spawn(move || {
                    begin.wait();
                    let (store, _) = open(folder.path());
                    let _ = store.begin(&new(&format!("run {number}"))).unwrap().append(b"one");
                    store.flush().unwrap();
                });
            }
        });
    }
}
