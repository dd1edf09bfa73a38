//! What a service stores beside its runs.

use super::RecordingListener;
use crate::journal::Sqlite;
use crate::journal::catalog::{Delivery, Expected, Link, Links, StoredWebhook, Webhook, WebhookWrite, Webhooks};
use crate::process::Timestamp;
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
    store.remove_links("r1").unwrap();
    assert_eq!(store.link(&[2; 32]).unwrap(), None);
}
