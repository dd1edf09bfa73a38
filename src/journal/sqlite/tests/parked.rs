//! Parked runs whose host is gone.

use super::{kept, new, open};
use crate::journal::{Journal, Posted, Sqlite, StoreError, Wanted, WantedWatch, WantedWhy};
use crate::process::Timestamp;
use crate::run::{Log, Mail, Nap, ParkedLog, system_time};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FOR_EVER: Nap = Nap { due: None, is_paused: false };

fn mail(id: &str) -> Mail {
    Mail { id: id.into(), kind: "signal".into(), body: "body".into() }
}

/// Begins a run with two records, and parks it.
fn park(store: &Sqlite, id: &str, nap: Nap) -> Box<dyn ParkedLog> {
    let mut log = begin(store, id);
    let parked = kept(log.park(&nap));
    store.flush().unwrap();
    parked
}

fn begin(store: &Sqlite, id: &str) -> Box<dyn Log> {
    let mut log = store.begin(&new(id)).unwrap();
    for record in ["one", "two"] {
        let _ = log.append(record.as_bytes());
    }
    store.flush().unwrap();
    log
}

/// The host with this number is dead: its rows stay, and nobody holds its lock.
fn die(folder: &Path, host: u32) {
    std::fs::remove_file(folder.join(format!("hosts/{host}.lock"))).unwrap();
}

type Told = Arc<Mutex<Vec<(String, WantedWhy)>>>;

fn watch(store: &Sqlite) -> (Box<dyn WantedWatch>, Told) {
    let told = Told::default();
    let list = Arc::clone(&told);
    let watch = Journal::watch_wanted(
        store,
        Box::new(move |wanted: Result<&[Wanted], StoreError>| {
            list.lock().extend(wanted.unwrap().iter().map(|one| (one.id.to_string(), one.why)));
            true
        }),
    );
    (watch.unwrap(), told)
}

fn takes(told: &Told, id: &str, why: WantedWhy) {
    let begun = Instant::now();
    while told.lock().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{id} is not wanted");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(std::mem::take(&mut *told.lock()), [(id.to_owned(), why)]);
}

#[test]
fn a_parked_run_of_a_dead_host_is_wanted_when_it_is_due_or_has_mail() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, _), (two, _), (three, _)) = (open(folder.path()), open(folder.path()), open(folder.path()));
    let due = system_time().saturating_add(crate::process::Micros(1_500_000));
    let _due = park(&one, "due", Nap { due: Some(due), ..FOR_EVER });
    let _late = park(&one, "late", Nap { due: Some(Timestamp(u64::MAX >> 2)), ..FOR_EVER });
    let _asks = park(&one, "asks", FOR_EVER);
    let _paused = park(&one, "paused", Nap { is_paused: true, ..FOR_EVER });
    let _busy = begin(&one, "busy");
    assert!(matches!(two.recover("asks"), Err(StoreError::Owned { .. })));
    assert_eq!(two.inherited().unwrap(), 0);
    die(folder.path(), 1);
    assert_eq!(two.inherited().unwrap(), 3);

    let (watch, told) = watch(&two);
    let orphans = [("paused", WantedWhy::Orphan), ("busy", WantedWhy::Orphan)].map(|(id, why)| (id.to_owned(), why));
    assert_eq!(std::mem::take(&mut *told.lock()), orphans);
    takes(&told, "due", WantedWhy::Due);
    assert!(system_time() >= due);

    // The host that watches has the others: it is asked, and nobody else takes them.
    let owner = three.owner_of("asks").unwrap().unwrap();
    assert!(owner.alive);
    assert_eq!(three.run("asks").unwrap().unwrap().owner, Some(owner.host));
    assert_eq!(three.post("asks", &mail("m")).unwrap(), Posted::Owned(owner));
    assert!(matches!(three.recover("asks"), Err(StoreError::Owned { .. })));
    assert!(matches!(three.remove("asks"), Err(StoreError::Owned { .. })));
    assert!(two.is_free("asks").unwrap());
    assert_eq!(Journal::post(&two, "asks", &mail("m")).unwrap(), Posted::Stored);
    takes(&told, "asks", WantedWhy::Mail);

    let taken = two.recover("asks").unwrap();
    assert_eq!(taken.records, ["one", "two"]);
    assert_eq!(taken.inbox, [mail("m")]);
    assert!(!two.is_free("asks").unwrap());
    assert!(!two.run("asks").unwrap().unwrap().parked);
    drop(watch);
    // Without it, whoever comes first has the last one.
    assert_eq!(three.recover("late").unwrap().records, ["one", "two"]);
}

#[test]
fn the_end_of_a_host_is_seen_and_what_it_had_parked_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let (two, _) = open(folder.path());
    let (watch, told) = watch(&two);
    let (one, _) = open(folder.path());
    let asks = park(&one, "asks", FOR_EVER);
    let busy = begin(&one, "busy");
    assert!(told.lock().is_empty());
    // Released in order: the rows say that nobody owns them.
    drop((asks, busy));
    drop(one);
    takes(&told, "busy", WantedWhy::Orphan);
    assert!(two.run("asks").unwrap().unwrap().parked);
    drop(watch);
}

/// A run that has returned to memory is not taken for a parked one: its last rows would be missing.
#[test]
fn a_run_that_goes_on_is_no_longer_parked() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, _), (two, _)) = (open(folder.path()), open(folder.path()));
    let parked = park(&one, "run", FOR_EVER);
    assert!(two.run("run").unwrap().unwrap().parked);
    let (mut log, _) = parked.recover().unwrap();
    let _ = log.append(b"three");
    // Parked and back before that was written.
    let (mut log, _) = kept(log.park(&FOR_EVER)).recover().unwrap();
    let _ = log.append(b"four");
    one.flush().unwrap();
    assert!(!two.run("run").unwrap().unwrap().parked);
    die(folder.path(), 1);
    assert_eq!(two.recover("run").unwrap().records, ["one", "two", "three", "four"]);
    drop(log);
}

/// However many runs are parked, each question about them is answered by an index, in its order.
#[test]
fn no_look_sorts_what_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let db = store.0.reader();
    use super::super::wanted::{DUE, ORPHANS, PARKED, WITH_MAIL};
    for question in [ORPHANS, DUE, WITH_MAIL, PARKED] {
        let mut select = db.prepare(&format!("EXPLAIN QUERY PLAN {question}")).unwrap();
        let values = rusqlite::params_from_iter(vec![1; select.parameter_count()]);
        let plan: Vec<String> = select.query_map(values, |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        let plan = plan.join("; ");
        assert!(plan.contains("SEARCH") && !plan.contains("TEMP B-TREE"), "{question}: {plan}");
    }
}

/// The host that was to recover it ends before it does.
#[test]
fn a_due_run_is_wanted_again_when_the_heir_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, _), (heir, _), (two, _)) = (open(folder.path()), open(folder.path()), open(folder.path()));
    let _due = park(&one, "due", Nap { due: Some(system_time()), ..FOR_EVER });
    die(folder.path(), 1);
    let (heirs_watch, _) = watch(&heir);
    let (watch, told) = watch(&two);
    takes(&told, "due", WantedWhy::Due);
    assert!(matches!(two.recover("due"), Err(StoreError::Owned { .. })));
    drop((heirs_watch, heir));
    takes(&told, "due", WantedWhy::Due);
    assert_eq!(two.recover("due").unwrap().records, ["one", "two"]);
    drop(watch);
}
