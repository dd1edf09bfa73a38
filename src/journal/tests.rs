//! What every journal does.

use super::*;
use crate::process::{Pid, Timestamp};
use crate::run::{EndStatus, RunEnd};

fn new(id: &str) -> NewRun {
    NewRun {
        id: id.into(),
        name: "work".into(),
        created: Timestamp(5),
        manifest: format!("about {id}"),
        components: Vec::new(),
        ..NewRun::default()
    }
}

fn mail(id: &str, body: &'static str) -> Mail {
    Mail { id: id.into(), kind: "signal".into(), body: body.as_bytes().into() }
}

/// Runs a test with each kind of journal.
fn each(test: impl Fn(&dyn Journal)) {
    test(&InMemory::default());
    #[cfg(feature = "sqlite")]
    {
        struct PanicOnFailure;
        impl DurabilityListener for PanicOnFailure {
            fn durable(&self, _: &str, _: u64) {}
            fn snapshot_failed(&self, error: &StoreError) {
                panic!("{error}");
            }
            fn failed(&self, error: &StoreError) {
                panic!("{error}");
            }
        }
        let folder = tempfile::tempdir().unwrap();
        test(&Sqlite::open(folder.path(), std::sync::Arc::new(PanicOnFailure)).unwrap());
    }
}

#[test]
fn a_run_has_one_owner_and_ends_once() {
    each(|journal| {
        assert!(matches!(journal.recover("run"), Err(StoreError::Unknown(_))));
        let mut log = journal.begin(&new("run")).unwrap();
        assert!(matches!(journal.begin(&new("run")), Err(StoreError::Exists(_))));
        let _ = log.append(b"one");
        journal.flush().unwrap();
        for address in [Address::Socket("/run/one.sock".into()), Address::Url("https://host-1:8080".into())] {
            journal.set_address(&address).unwrap();
            let owner = journal.owner_of("run").unwrap().unwrap();
            assert_eq!(
                (owner.alive, owner.pid, owner.address.as_ref()),
                (true, Some(std::process::id()), Some(&address))
            );
            let refused = journal.recover("run");
            assert!(matches!(refused, Err(StoreError::Owned { owner: Some(named), .. }) if *named == owner));
        }
        drop(log);
        let mut taken = journal.recover("run").unwrap();
        assert_eq!((taken.records, taken.manifest.as_str()), (vec![Bytes::from("one")], "about run"));
        let _ = taken.log.append(b"two");
        let _ = taken.log.ended(&RunEnd { status: EndStatus::Cancelled, at: Timestamp(8), fuel: 0 });
        journal.flush().unwrap();
        assert!(matches!(journal.recover("run"), Err(StoreError::Ended(_))));
        assert_eq!(journal.owner_of("run").unwrap(), None);
        let run = journal.run("run").unwrap().unwrap();
        assert_eq!((run.status, run.ended, run.records), (Some(EndStatus::Cancelled), Some(Timestamp(8)), 2));
        assert_eq!(journal.records("run").unwrap(), ["one", "two"]);
        assert_eq!(journal.unfinished().unwrap(), []);
        assert_eq!(journal.list(&Filter { ended: Some(true), ..Filter::default() }).unwrap(), [run]);
        // A late record changes nothing, and its log belongs to no run any more.
        let _ = taken.log.append(b"late");
        journal.flush().unwrap();
        journal.remove("run").unwrap();
        let mut again = journal.begin(&new("run")).unwrap();
        drop(taken.log);
        let _ = again.append(b"again");
        journal.flush().unwrap();
        assert_eq!(journal.records("run").unwrap(), ["again"]);
        assert!(matches!(journal.remove("run"), Err(StoreError::Owned { .. })));
    });
}

#[test]
fn mail_is_stored_once_and_is_gone_with_its_record() {
    each(|journal| {
        assert_eq!(journal.post("run", &mail("a", "1")).unwrap(), Posted::Unknown);
        let mut log = journal.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        journal.flush().unwrap();
        assert!(matches!(journal.post("run", &mail("a", "1")).unwrap(), Posted::Owned(_)));
        drop(log);
        journal.flush().unwrap();
        for (id, body, becomes) in [
            ("a", "1", Posted::Stored),
            ("b", "2", Posted::Stored),
            ("a", "1", Posted::Duplicate),
            ("a", "2", Posted::Conflict),
        ] {
            assert_eq!(journal.post("run", &mail(id, body)).unwrap(), becomes);
        }
        let both = [mail("a", "1"), mail("b", "2")];
        let taken = journal.recover("run").unwrap();
        assert_eq!(taken.inbox, both);
        // It became no record: it is there the next time.
        drop(taken);
        let mut taken = journal.recover("run").unwrap();
        assert_eq!(taken.inbox, both);
        taken.log.consume(&both[0]);
        let _ = taken.log.append(b"signal a");
        // Mail that came through a living host.
        taken.log.consume(&mail("live", "3"));
        let _ = taken.log.append(b"signal live");
        // No record follows this.
        taken.log.consume(&both[1]);
        drop(taken);
        let taken = journal.recover("run").unwrap();
        assert_eq!(taken.inbox, both[1..]);
        assert_eq!(journal.post("run", &both[0]).unwrap(), Posted::Duplicate);
        assert_eq!(journal.post("run", &mail("live", "3")).unwrap(), Posted::Duplicate);
        assert_eq!(journal.post("run", &mail("live", "4")).unwrap(), Posted::Conflict);
        drop(taken);
        journal.flush().unwrap();
        for number in 1..stored::MAIL_MAX {
            assert_eq!(journal.post("run", &mail(&number.to_string(), "")).unwrap(), Posted::Stored);
        }
        assert_eq!(journal.post("run", &mail("more", "")).unwrap(), Posted::Full);
        let mut taken = journal.recover("run").unwrap();
        let _ = taken.log.ended(&RunEnd { status: EndStatus::Failed, at: Timestamp(8), fuel: 0 });
        journal.flush().unwrap();
        assert_eq!(journal.post("run", &mail("more", "")).unwrap(), Posted::Ended);
        journal.remove("run").unwrap();
        assert_eq!(journal.post("run", &both[0]).unwrap(), Posted::Unknown);
    });
}

#[test]
fn the_newest_snapshots_of_each_process_are_retained() {
    each(|journal| {
        journal.put_snapshot("run", Pid(1), 1, b"key", vec![1; 100]);
        assert!(matches!(journal.snapshots("run"), Err(StoreError::Unknown(_))));
        let mut log = journal.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        for step in 1..6 {
            journal.put_snapshot("run", Pid(1), step, b"key", vec![step as u8; 100]);
            let newest = journal.snapshots("run").unwrap().pop().unwrap();
            assert_eq!((newest.step, newest.data), (step, Some(vec![step as u8; 100].into())), "at once");
        }
        journal.put_snapshot("run", Pid(7), 3, b"", Vec::new());
        let steps = || {
            let snapshots = journal.snapshots("run").unwrap();
            snapshots.iter().map(|snapshot| (snapshot.pid.0, snapshot.step)).collect::<Vec<_>>()
        };
        assert!(steps().ends_with(&[(1, 5), (7, 3)]), "{:?}", steps());
        assert!(steps().len() <= 3);
        let one = |pid, step| journal.snapshot("run", Pid(pid), step).unwrap().map(|snapshot| snapshot.data);
        assert_eq!(one(1, 5), Some(Some(vec![5; 100].into())));
        assert_eq!((one(1, 4).is_some(), one(1, 6), one(2, 3)), (steps().contains(&(1, 4)), None, None));
        assert!(matches!(journal.snapshot("other", Pid(1), 5), Err(StoreError::Unknown(_))));
        // They outlive the release of the run, and are removed with it.
        drop(log);
        journal.flush().unwrap();
        assert!(steps().ends_with(&[(1, 5), (7, 3)]), "{:?}", steps());
        journal.remove("run").unwrap();
        let mut log = journal.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        journal.flush().unwrap();
        assert_eq!(steps(), []);
    });
}

#[test]
fn a_fork_has_the_first_records_and_its_own_beginning() {
    each(|journal| {
        let mut log = journal.begin(&new("old")).unwrap();
        for record in ["one", "two", "three"] {
            let _ = log.append(record.as_bytes());
        }
        journal.flush().unwrap();
        journal.fork("old", &new("copy"), 2, b"begun").unwrap();
        assert!(matches!(journal.fork("old", &new("copy"), 2, b""), Err(StoreError::Exists(_))));
        assert!(matches!(journal.fork("old", &new("more"), 4, b""), Err(StoreError::Short { records: 3, .. })));
        assert!(matches!(journal.fork("old", &new("none"), 0, b""), Err(StoreError::Short { .. })));
        assert_eq!(journal.recover("copy").unwrap().records, ["begun", "two"]);
    });
}

#[test]
fn a_run_is_made_with_its_first_records_and_no_owner() {
    each(|journal| {
        let begun = journal.begin(&new("begun")).unwrap();
        let records = ["one", "two"].map(Bytes::from);
        assert!(matches!(journal.create(&new("begun"), &records), Err(StoreError::Exists(_))));
        assert!(matches!(journal.create(&new("made"), &[]), Err(StoreError::Short { records: 0, .. })));
        assert_eq!(journal.run("made").unwrap(), None);
        journal.create(&NewRun { version: Some(3), ..new("made") }, &records).unwrap();
        assert!(matches!(journal.create(&new("made"), &records), Err(StoreError::Exists(_))));
        let made = journal.list(&Filter { version: Some(3), ..Filter::default() }).unwrap();
        assert_eq!(journal.orphans().unwrap(), made);
        assert_eq!((made[0].owner, made[0].records), (None, 2));
        let mut taken = journal.recover("made").unwrap();
        assert_eq!((&*taken.records, taken.manifest.as_str()), (&records[..], "about made"));
        let _ = taken.log.append(b"three");
        journal.flush().unwrap();
        assert_eq!(journal.records("made").unwrap().len(), 3);
        drop(begun);
    });
}

#[test]
fn an_upgrade_is_one_record_and_another_manifest_or_nothing() {
    each(|journal| {
        let upgrade = |records| RunUpgrade {
            records,
            record: Bytes::from("upgraded"),
            manifest: "other".to_owned(),
            components: vec!["00".into()],
            version: Some(3),
        };
        assert!(matches!(journal.upgrade("run", &upgrade(1)), Err(StoreError::Unknown(_))));
        let mut log = journal.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        let _ = log.append(b"two");
        journal.flush().unwrap();
        assert!(matches!(journal.upgrade("run", &upgrade(2)), Err(StoreError::Owned { .. })));
        drop(log);
        for other in [0, 1, 3] {
            assert!(!journal.upgrade("run", &upgrade(other)).unwrap(), "it has moved");
        }
        assert_eq!(journal.manifest("run").unwrap().unwrap(), "about run");
        assert!(journal.upgrade("run", &upgrade(2)).unwrap());
        assert!(!journal.upgrade("run", &upgrade(2)).unwrap());
        assert_eq!(journal.list(&Filter { version: Some(3), ..Filter::default() }).unwrap().len(), 1);
        let mut taken = journal.recover("run").unwrap();
        assert_eq!(
            (&*taken.records, &*taken.manifest),
            (&[&b"one"[..], b"two", b"upgraded"].map(Bytes::from)[..], "other")
        );
        let _ = taken.log.append(b"four");
        let _ = taken.log.ended(&RunEnd { status: EndStatus::Succeeded, at: Timestamp(8), fuel: 0 });
        journal.flush().unwrap();
        assert_eq!(journal.records("run").unwrap().len(), 4);
        assert!(matches!(journal.upgrade("run", &upgrade(4)), Err(StoreError::Ended(_))));
    });
}

#[test]
fn what_no_host_has_is_listed_and_passed_on() {
    each(|journal| {
        assert_eq!(journal.hosts().unwrap(), []);
        let mut logs: Vec<_> = ["mine", "left", "done"].map(|id| journal.begin(&new(id)).unwrap()).into();
        for log in &mut logs {
            let _ = log.append(b"one");
        }
        let _ = logs[2].ended(&RunEnd { status: EndStatus::Succeeded, at: Timestamp(8), fuel: 0 });
        logs.truncate(1);
        journal.flush().unwrap();
        let orphans: Vec<_> = journal.orphans().unwrap().into_iter().map(|run| run.id).collect();
        assert_eq!(orphans, ["left".into()]);
        let is_free = ["mine", "left", "done", "none"].map(|id| journal.is_free(id).unwrap());
        assert_eq!(is_free, [false, true, false, false]);
        let hosts = journal.hosts().unwrap();
        assert_eq!(hosts, [journal.owner_of("mine").unwrap().unwrap()]);
        let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let tells = Arc::clone(&told);
        let watch = journal.watch_wanted(Box::new(move |wanted: Result<&[Wanted], StoreError>| {
            tells.lock().extend_from_slice(wanted.unwrap());
            true
        }));
        // It was told before the watch was returned.
        assert_eq!(*told.lock(), [Wanted { id: "left".into(), why: WantedWhy::Orphan }]);
        drop(watch.unwrap());
        assert!(journal.recover("left").is_ok());
    });
}

#[test]
fn ids_are_found_by_their_prefix() {
    each(|journal| {
        let logs = ["b-2", "a", "b-1", "b-3"].map(|id| journal.begin(&new(id)).unwrap());
        for mut log in logs {
            let _ = log.append(b"one");
        }
        journal.flush().unwrap();
        let ids = |prefix, most| journal.ids(prefix, most).unwrap();
        assert_eq!(ids("b-", 2), ["b-1".into(), "b-2".into()]);
        assert_eq!((ids("", 9).len(), ids("c", 9).len()), (4, 0));
    });
}

#[test]
fn damage_is_noted_until_the_run_is_recovered() {
    each(|journal| {
        journal.note_damage("run", "there is none").unwrap();
        let mut log = journal.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        drop(log);
        journal.flush().unwrap();
        let damaged = || journal.list(&Filter { damaged: true, ..Filter::default() }).unwrap();
        assert_eq!(damaged(), []);
        journal.note_damage("run", "row 1 is cut").unwrap();
        assert_eq!(damaged()[0].damage.as_deref(), Some("row 1 is cut"));
        drop(journal.recover("run").unwrap());
        assert_eq!(damaged(), []);
    });
}

#[test]
fn mail_of_a_run_is_read_while_it_is_in_no_record() {
    each(|journal| {
        assert!(matches!(journal.inbox_of("run"), Err(StoreError::Unknown(_))));
        assert!(matches!(journal.queue_place("run"), Err(StoreError::Unknown(_))));
        let mut log = journal.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        drop(log);
        journal.flush().unwrap();
        for id in ["a", "b"] {
            journal.post("run", &mail(id, "1")).unwrap();
        }
        journal.announce_mail();
        let mut taken = journal.recover("run").unwrap();
        taken.log.consume(&mail("a", "1"));
        let _ = taken.log.append(b"two");
        journal.flush().unwrap();
        assert_eq!(journal.inbox_of("run").unwrap(), [mail("b", "1")]);
        // It is in no concurrency group.
        assert_eq!(journal.queue_place("run").unwrap(), None);
        assert_eq!((journal.queued().unwrap(), journal.mail_in("group").unwrap()), (Vec::new(), Vec::new()));
    });
}

#[test]
fn components_are_listed_with_a_run_that_names_them() {
    each(|journal| {
        for (id, components) in [("old", vec!["bb".into(), "aa".into()]), ("young", vec!["bb".into()])] {
            let mut log = journal.begin(&NewRun { components, ..new(id) }).unwrap();
            let _ = log.append(b"one");
        }
        journal.flush().unwrap();
        assert_eq!(
            journal.components_named().unwrap(),
            [("aa".to_owned(), "old".into()), ("bb".to_owned(), "young".into())]
        );
        journal.remove("young").unwrap();
        assert_eq!(journal.components_named().unwrap()[1], ("bb".to_owned(), "old".into()));
    });
}

#[test]
fn snapshots_of_a_run_are_one_store() {
    each(|journal| {
        let snapshots = journal.snapshot_store("run");
        assert!(snapshots.list().is_err());
        let mut log = journal.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        snapshots.put(Pid(1), 3, b"key", Bytes::from("state")).unwrap();
        let listed = snapshots.list().unwrap();
        assert_eq!(listed, [SnapshotEntry { pid: Pid(1), step: 3, bytes: 5 }]);
        assert_eq!(snapshots.get(Pid(1), 3).unwrap(), Some(Bytes::from("state")));
        assert_eq!(snapshots.get(Pid(1), 4).unwrap(), None);
    });
}

#[test]
fn what_was_appended_is_durable_while_there_is_room() {
    each(|journal| {
        let mut log = journal.begin(&new("run")).unwrap();
        let _ = log.append(b"one");
        assert!(journal.flush_while_room().unwrap() && !journal.is_full());
        assert_eq!(journal.records("run").unwrap(), ["one"]);
        journal.settle();
        journal.give_up();
        assert_eq!(journal.records("run").unwrap(), ["one"]);
    });
}

#[test]
fn a_component_is_read_as_it_was_stored() {
    each(|journal| {
        let hash = blake3::hash(b"wasm").to_hex().to_string();
        let is_missing = |hash: &str| matches!(journal.component(hash), Err(ComponentStoreError::Unreadable { .. }));
        assert!(is_missing(&hash) && journal.component_bytes(&hash).is_none());
        for _ in 0..2 {
            journal.put_component(&hash, b"wasm").unwrap();
            assert_eq!(journal.component(&hash).unwrap(), "wasm");
            assert_eq!(journal.component_bytes(&hash), Some(4));
        }
        // What is no digest names nothing.
        for other in ["", "..", "../journal", &hash[1..], &hash.to_uppercase()] {
            assert!(is_missing(other) && journal.component_bytes(other).is_none(), "{other}");
        }
        // A digest of something else.
        let other = blake3::hash(b"other").to_hex().to_string();
        assert!(journal.put_component(&other, b"wasm").is_err());
        assert!(is_missing(&other));
        journal.put_component(&other, b"other").unwrap();
        assert_eq!(journal.component(&other).unwrap(), "other");
        assert_eq!(journal.components_named().unwrap(), [], "no run names them");
    });
}
