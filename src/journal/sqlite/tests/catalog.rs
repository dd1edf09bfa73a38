//! What a service stores beside its runs.

use super::{RecordingListener, ended, kept, new};
use crate::journal::catalog::{
    Delivery, Deployments, Expected, Inbox, InboxFilter, Link, Links, NewVersion, StoredWebhook, Webhook, WebhookWrite,
    Webhooks,
};
use crate::journal::{Journal, Sqlite};
use crate::process::{Json, Timestamp};
use crate::run::AwaitedKind::{Signal, Uncertain};
use crate::run::{Awaited, EndStatus, Nap};
use std::path::Path;
use std::sync::Arc;

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(folder, Arc::new(RecordingListener::default())).unwrap()
}

fn webhook(name: &str, spec: &str) -> Webhook {
    Webhook { name: name.into(), origin: "api".into(), spec: spec.into(), author: "ann".into() }
}

fn put(store: &Sqlite, webhook: &Webhook, expected: Expected, now: u64) -> Result<(StoredWebhook, bool), Option<u64>> {
    match store.put_webhook(webhook, expected, Timestamp(now)).unwrap() {
        WebhookWrite::Stored { webhook, is_new } => Ok((webhook, is_new)),
        WebhookWrite::Mismatch(found) => Err(found),
    }
}

#[test]
fn a_webhook_is_written_only_over_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (first, second) = (webhook("orders", "{}"), webhook("orders", r#"{"raw":true}"#));
    assert_eq!(put(&store, &first, Expected::Revision(7), 10), Err(None));
    let (stored, is_new) = put(&store, &first, Expected::Absent, 10).unwrap();
    assert!(is_new && stored.revision == 10 && stored.created == Timestamp(10));
    assert_eq!(put(&store, &second, Expected::Absent, 11), Err(Some(10)));
    // The same again changes nothing.
    assert_eq!(put(&store, &first, Expected::Any, 12), Ok((stored, false)));
    // A clock that was set back does not repeat a revision.
    let (changed, is_new) = put(&store, &second, Expected::Revision(10), 5).unwrap();
    assert!(!is_new && changed.revision == 11 && changed.created == Timestamp(10) && changed.changed == Timestamp(5));
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.webhook("orders").unwrap(), Some(changed.clone()));
    assert_eq!(store.webhooks().unwrap(), [changed]);
    assert_eq!(store.remove_webhook("orders", Expected::Revision(10)).unwrap(), Err(Some(11)));
    assert_eq!(store.remove_webhook("orders", Expected::Revision(11)).unwrap(), Ok(true));
    assert_eq!(store.remove_webhook("orders", Expected::Any).unwrap(), Ok(false));
    assert_eq!(store.webhook("orders").unwrap(), None);
}

#[test]
fn the_last_deliveries_of_each_webhook_are_retained() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let delivery = |webhook: &str, at: u64| Delivery {
        webhook: webhook.into(),
        id: Some(format!("d{at}")),
        at: Timestamp(at),
        outcome: "refused".into(),
        run: None,
        reason: Some("the signature does not fit".into()),
    };
    for name in ["a", "b"] {
        assert!(put(&store, &webhook(name, "{}"), Expected::Absent, 1).is_ok());
    }
    for at in 0..5 {
        store.add_deliveries(&[delivery("a", at), delivery("unknown", at)], 3).unwrap();
    }
    store.add_deliveries(&[delivery("b", 9)], 3).unwrap();
    let ids = |before| {
        let rows = store.deliveries("a", before, 2).unwrap();
        rows.into_iter().map(|(row, delivery)| (row, delivery.at.0)).collect::<Vec<_>>()
    };
    let newest = ids(None);
    assert_eq!(newest.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [4, 3]);
    let next = ids(Some(newest[1].0));
    assert_eq!(next.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [2]);
    assert_eq!(store.deliveries("b", None, 10).unwrap()[0].1, delivery("b", 9));
    assert_eq!(store.deliveries("unknown", None, 10).unwrap(), []);
    assert_eq!(store.remove_webhook("a", Expected::Any).unwrap(), Ok(true));
    assert_eq!(store.deliveries("a", None, 10).unwrap(), []);
}

#[test]
fn the_number_of_a_removed_version_is_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let deployed = |name: &str, digest: &str| {
        let new = NewVersion {
            name: name.into(),
            digest: digest.into(),
            file: "review.yaml".into(),
            source: String::new(),
            components: "{}".into(),
            created: Timestamp(5),
            author: "ann".into(),
            note: None,
        };
        let (version, is_new) = store.deploy(&new).unwrap();
        (version.number, is_new)
    };
    assert_eq!((deployed("review", "a"), deployed("review", "b")), ((1, true), (2, true)));
    assert_eq!((deployed("other", "a"), deployed("review", "a")), ((1, true), (1, false)));
    assert_eq!(store.remove_version("review", 2).unwrap(), Some(true));
    assert_eq!((deployed("review", "c"), deployed("review", "b")), ((3, true), (4, true)));
}

#[test]
fn a_link_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let link = |number: u8, expires: u64| Link {
        hash: [number; 32],
        run: "r1".into(),
        signal: "approve".into(),
        detail: Some("{}".into()),
        created: Timestamp(1),
        author: "ann".into(),
        expires: Timestamp(expires),
        used: None,
    };
    store.add_link(&link(1, 100), Timestamp(0)).unwrap();
    assert!(store.use_link(&[1; 32], Timestamp(50)).unwrap());
    assert!(!store.use_link(&[1; 32], Timestamp(51)).unwrap());
    assert!(!store.use_link(&[2; 32], Timestamp(51)).unwrap());
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.link(&[1; 32]).unwrap(), Some(Link { used: Some(Timestamp(50)), ..link(1, 100) }));
    store.add_link(&link(2, 300), Timestamp(200)).unwrap();
    assert_eq!(store.link(&[1; 32]).unwrap(), None);
    assert_eq!(store.link(&[2; 32]).unwrap(), Some(link(2, 300)));
}

/// What a run waits for is there when it is parked, and gone when it waits for nothing more.
#[test]
fn what_runs_wait_for_is_listed_the_longest_wait_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let awaited = |kind, name: &str, since: u64| Awaited {
        kind,
        name: name.into(),
        since: Timestamp(since),
        detail: Some(Json::parse(r#"{"title":"Publish?"}"#).unwrap()),
    };
    let mut logs = Vec::new();
    for (id, since) in [("a", 30), ("b", 10), ("c", 20)] {
        let mut log = store.begin(&new(id)).unwrap();
        let _ = log.append(b"one");
        log.awaits(vec![awaited(Signal, "approve", since), awaited(Uncertain, "1/2", 40)]);
        logs.push(log);
    }
    let all = InboxFilter::default();
    let list = |store: &Sqlite, filter: &InboxFilter| {
        let waiting = store.waiting(filter).unwrap();
        assert!(waiting.iter().all(|one| filter.fits(one)), "{filter:?}");
        waiting.iter().map(|one| format!("{} {}", one.run, one.awaited.name)).collect::<Vec<_>>()
    };
    assert_eq!(list(&store, &all), ["b approve", "c approve", "a approve", "a 1/2", "b 1/2", "c 1/2"]);
    assert_eq!(store.waiting(&all).unwrap()[0].awaited, awaited(Signal, "approve", 10));
    assert_eq!(&*store.waiting(&all).unwrap()[0].workflow, "work");
    let only = |kind| InboxFilter { kind: Some(kind), ..InboxFilter::default() };
    assert_eq!(list(&store, &only(Uncertain)), ["a 1/2", "b 1/2", "c 1/2"]);
    assert_eq!(list(&store, &InboxFilter { name: Some("approve".into()), ..only(Uncertain) }), [""; 0]);
    assert_eq!(
        list(&store, &InboxFilter { since_before: Some(Timestamp(30)), ..all.clone() }),
        ["b approve", "c approve"]
    );
    // Pages.
    let mut filter = InboxFilter { limit: Some(2), ..all.clone() };
    let mut pages = Vec::new();
    while let Some(last) = store.waiting(&filter).unwrap().last() {
        pages.extend(list(&store, &filter));
        filter.after = Some(last.place());
    }
    assert_eq!(pages, list(&store, &all));
    // One waits for less, one has ended, and one is removed.
    logs[0].awaits(vec![awaited(Signal, "approve", 30)]);
    ended(&mut *logs[1], EndStatus::Succeeded);
    assert_eq!(list(&store, &all), ["c approve", "a approve", "c 1/2"]);
    logs[2].awaits(Vec::new());
    assert_eq!(list(&store, &all), ["a approve"]);
    drop(logs);
    drop(store);
    let store = open(folder.path());
    assert_eq!(list(&store, &all), ["a approve"]);
    // Whoever recovers it has it in memory, until it is parked again.
    let mut taken = store.recover("a").unwrap();
    let log = kept(taken.log.park(&Nap { due: None, is_paused: false }));
    assert_eq!(list(&store, &all), ["a approve"]);
    let (mut log, _) = log.recover().unwrap();
    ended(&mut *log, EndStatus::Failed);
    assert_eq!(list(&store, &all), [""; 0]);
    let rows = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let rows: i64 = rows.query_row("SELECT count(*) FROM waiting", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0, "nothing stays behind");
}
