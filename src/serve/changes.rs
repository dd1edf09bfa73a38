//! What changes in all runs, for readers that follow a list of them.
//!
//! A task looks at the runs whose records became durable, and keeps the last changes in a ring that
//! all readers share: each change is written as text once. It works while somebody reads, and a
//! while longer, so that a reader that comes back finds its place. Who comes back later, or is too
//! slow for the ring, is told to ask for its list again (`resync`): the list is durable, the ring
//! is a hint that it has changed.
//!
//! - **I1** The id of a change, `<boot>.<number>`, is given once: numbers grow by one, and each
//!   time the ring begins anew it has another boot.
//! - **I2** A change is shown when it is durable.

use super::access::{Caller, Validity};
use super::feed::unauthenticated;
use super::outgoing::{Gone, Outgoing};
use super::query::rfc3339;
use super::service::Service;
use crate::host::DurableChange;
use crate::journal::Stored;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};

/// Changes that the ring has at most.
const RING_MAX: usize = 65_536;

/// Runs whose last state is known, so that only another one is a change.
const KNOWN_MAX: usize = 65_536;

/// How long changes gather: a busy run is looked at once for many records.
const GATHER: Duration = Duration::from_millis(50);

/// Runs that are looked at in one turn.
const TURN_MAX: usize = 500;

/// Changes that a reader is sent at a time: so many may wait for it, twice.
const SENT_MAX: usize = 250;

/// How long the ring is kept when nobody reads.
const LINGER: Duration = Duration::from_mins(1);

/// How often a comment is sent, so that a reader and what is between notice a break.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// A change, as it is sent.
struct Change {
    workflow: Arc<str>,
    /// `None`: readers are told to ask for their list again.
    text: Option<Bytes>,
}

/// The last changes.
struct Ring {
    boot: String,
    /// The number of the first one; those before it are gone.
    first: u64,
    changes: VecDeque<Change>,
    /// The number of the last one, for those who wait.
    last: watch::Sender<u64>,
}

impl Ring {
    fn new() -> Self {
        let boot = super::server::request_id();
        Self { boot, first: 1, changes: VecDeque::new(), last: watch::channel(0).0 }
    }

    fn push(&mut self, changes: Vec<Change>) {
        self.changes.extend(changes);
        while self.changes.len() > RING_MAX {
            self.changes.pop_front();
            self.first += 1;
        }
        self.last.send_replace(self.first + self.changes.len() as u64 - 1);
    }
}

/// What readers of all runs share.
#[derive(Default)]
pub(in crate::serve) struct Changes {
    /// `None` while nobody reads.
    ring: Mutex<Option<Ring>>,
    readers: watch::Sender<usize>,
}

/// A reader, until it is dropped.
struct Reader<'a>(&'a Changes);

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.readers.send_modify(|readers| *readers -= 1);
    }
}

impl Changes {
    /// Notes that a run was removed.
    pub(in crate::serve) fn removed(&self, stored: &Stored) {
        if let Some(ring) = &mut *self.ring.lock() {
            ring.push(vec![change(stored, "removed")]);
        }
    }
}

/// The stream of the changes that a caller may see, from the one after `last` on.
pub(in crate::serve) fn stream(
    service: Arc<Service>,
    caller: Caller,
    workflow: Option<String>,
    last: Option<String>,
    permit: OwnedSemaphorePermit,
) -> Response {
    let (out, response) = Outgoing::new();
    begin(&service);
    tokio::spawn(async move {
        let _permit = permit;
        let changes = &service.changes;
        let _reader = Reader(changes);
        let may_see = |name: &str| caller.may_touch(name) && workflow.as_ref().is_none_or(|workflow| workflow == name);
        let _ = send(&service, (&may_see, caller.validity()), last.as_deref(), &out).await;
    });
    response
}

/// Counts a reader, and begins to look at what changes if it is the first.
fn begin(service: &Arc<Service>) {
    let mut ring = service.changes.ring.lock();
    service.changes.readers.send_modify(|readers| *readers += 1);
    if ring.is_none()
        && let Some(changes) = service.host.watch_all()
    {
        *ring = Some(Ring::new());
        tokio::spawn(gather(Arc::clone(service), changes));
    }
}

/// Sends changes to one reader until it is gone.
async fn send(
    service: &Arc<Service>,
    (may_see, mut validity): (&(dyn Fn(&str) -> bool + Sync), Validity),
    last: Option<&str>,
    out: &Outgoing,
) -> Result<(), Gone> {
    let Some((mut next, mut more, boot, is_known)) = service.changes.place(last) else { return Ok(()) };
    let word = if last.is_some() && !is_known { "resync" } else { "open" };
    let here = Bytes::from(format!("retry: 2000\nevent: {word}\nid: {boot}.{}\ndata: {{}}\n\n", next - 1));
    out.send(here).await?;
    let place = service.places.of(None, next);
    loop {
        out.ready().await?;
        if !validity.lasts(service).await {
            return out.send(unauthenticated()).await;
        }
        more.mark_unchanged();
        let Some((bytes, after)) = service.changes.read(&boot, next, may_see) else { return Ok(()) };
        let is_whole = after - next < SENT_MAX as u64;
        next = after;
        place.is_at(next);
        if !bytes.is_empty() {
            out.send(bytes).await?;
        }
        if !is_whole {
            continue;
        }
        tokio::select! {
            changed = more.changed() => if changed.is_err() { return Ok(()) },
            () = out.closed() => return Err(Gone),
            () = service.drained() => {
                let _ = out.send(Bytes::from_static(b"event: drain\ndata: {}\n\n")).await;
                return Err(Gone);
            }
            () = tokio::time::sleep(COMMENT_EVERY) => out.send(Bytes::from_static(b":\n\n")).await?,
        }
    }
}

impl Changes {
    /// The number of the last change; `None` while nobody reads.
    pub(in crate::serve) fn last(&self) -> Option<u64> {
        self.ring.lock().as_ref().map(|ring| *ring.last.borrow())
    }

    /// The number of the first change after an id, and whether nothing between is missing.
    fn place(&self, last: Option<&str>) -> Option<(u64, watch::Receiver<u64>, String, bool)> {
        let ring = self.ring.lock();
        let ring = ring.as_ref()?;
        let end = ring.first + ring.changes.len() as u64;
        let known = last.and_then(|last| {
            let (boot, number) = last.rsplit_once('.')?;
            let next = number.parse::<u64>().ok()?.checked_add(1)?;
            (*boot == *ring.boot && (ring.first..=end).contains(&next)).then_some(next)
        });
        Some((known.unwrap_or(end), ring.last.subscribe(), ring.boot.clone(), known.is_some()))
    }

    /// Some changes from a number on, as text, and the number of the next. `None`: the ring is
    /// another one by now.
    fn read(&self, boot: &str, next: u64, may_see: &dyn Fn(&str) -> bool) -> Option<(Bytes, u64)> {
        let ring = self.ring.lock();
        let ring = ring.as_ref().filter(|ring| ring.boot == boot)?;
        let end = ring.first + ring.changes.len() as u64;
        let mut bytes = BytesMut::new();
        if next < ring.first {
            bytes.extend_from_slice(&numbered("resync", boot, end - 1, b"{}"));
            return Some((bytes.freeze(), end));
        }
        let skipped = usize::try_from(next - ring.first).unwrap_or(usize::MAX);
        let mut after = next;
        for change in ring.changes.iter().skip(skipped).take(SENT_MAX) {
            match &change.text {
                Some(text) if may_see(&change.workflow) => {
                    bytes.extend_from_slice(&numbered("run", boot, after, text));
                }
                Some(_) => {}
                None => bytes.extend_from_slice(&numbered("resync", boot, after, b"{}")),
            }
            after += 1;
        }
        Some((bytes.freeze(), after))
    }
}

fn numbered(event: &str, boot: &str, number: u64, data: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::from(format!("event: {event}\nid: {boot}.{number}\ndata: ").as_bytes());
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\n\n");
    bytes
}

/// Looks at what changes while somebody reads.
async fn gather(service: Arc<Service>, mut changes: broadcast::Receiver<DurableChange>) {
    let mut idle = Box::pin(nobody(service.changes.readers.subscribe()));
    let mut known: HashMap<String, String> = HashMap::new();
    loop {
        let mut changed = BTreeSet::new();
        let mut has_missed = false;
        tokio::select! {
            change = changes.recv() => match change {
                Ok(change) => {
                    changed.insert(change.run);
                }
                Err(RecvError::Lagged(_)) => has_missed = true,
                Err(RecvError::Closed) => return,
            },
            () = &mut idle => {
                let mut ring = service.changes.ring.lock();
                if *service.changes.readers.borrow() == 0 {
                    *ring = None;
                    return;
                }
                idle = Box::pin(nobody(service.changes.readers.subscribe()));
                continue;
            }
        }
        tokio::time::sleep(GATHER).await;
        loop {
            match changes.try_recv() {
                Ok(change) => {
                    changed.insert(change.run);
                }
                Err(TryRecvError::Lagged(_)) => has_missed = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        if has_missed && let Some(ring) = &mut *service.changes.ring.lock() {
            ring.push(vec![Change { workflow: "".into(), text: None }]);
        }
        let changed: Vec<Arc<str>> = changed.into_iter().collect();
        for some in changed.chunks(TURN_MAX) {
            look_at(&service, some.to_vec(), &mut known).await;
        }
    }
}

/// Adds the runs that have another state than before to the ring.
async fn look_at(service: &Arc<Service>, runs: Vec<Arc<str>>, known: &mut HashMap<String, String>) {
    let read = service.with_store(move |service| Ok(states(service, &runs))).await.unwrap_or_default();
    if known.len() > KNOWN_MAX {
        known.clear();
    }
    let mut new = Vec::new();
    for (stored, state) in read {
        let is_same = known.get(&*stored.id) == Some(&state);
        if stored.status.is_some() {
            known.remove(&*stored.id);
        } else if !is_same {
            known.insert(stored.id.to_string(), state.clone());
        }
        if !is_same {
            new.push(change(&stored, &state));
        }
    }
    if let Some(ring) = &mut *service.changes.ring.lock() {
        ring.push(new);
    }
}

/// Waits until nobody has read for a while.
async fn nobody(mut readers: watch::Receiver<usize>) {
    loop {
        let _ = readers.wait_for(|readers| *readers == 0).await;
        let comes = readers.wait_for(|readers| *readers > 0);
        if tokio::time::timeout(LINGER, comes).await.is_err() {
            return;
        }
    }
}

fn states(service: &Service, runs: &[Arc<str>]) -> Vec<(Stored, String)> {
    let read = |id: &Arc<str>| {
        let stored = service.store.run(id).ok().flatten()?;
        let state = service.state_of(&stored);
        Some((stored, state))
    };
    runs.iter().filter_map(read).collect()
}

fn change(stored: &Stored, state: &str) -> Change {
    let mut value = json!({
        "run": &*stored.id, "workflow": &*stored.name, "state": state, "created": rfc3339(stored.created),
    });
    if let Some(ended) = stored.ended {
        value["ended"] = json!(rfc3339(ended));
    }
    let text = Some(Bytes::from(value.to_string()));
    Change { workflow: Arc::clone(&stored.name), text }
}
