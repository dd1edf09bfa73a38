//! Follows the durable records of runs, and makes spans of them.

use super::exporter::Queue;
use super::message::{beginning, message};
use crate::host::{Host, RunSpans, TraceContext, Traced};
use crate::journal::{Filter, StoreError};
use crate::process::Timestamp;
use crate::run::{Record, system_time};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// How long changes gather: a run of some milliseconds is read once.
const GATHER: Duration = Duration::from_millis(100);

/// Records that are read at a time.
const PAGE: usize = 1_000;

/// Runs whose state is kept to make further spans. That of others is read from their records
/// again.
const FOLLOWED_MAX: usize = 10_000;

/// Runs that ended this long before the server began, or later, are sent again: it may have been
/// killed before they were.
const AGAIN_MICROS: u64 = 600_000_000;

/// Ended runs that are looked through for those.
const AGAIN_MAX: u32 = 10_000;

/// A run whose records have been read up to a number.
struct Followed {
    context: TraceContext,
    name: Arc<str>,
    /// `None` if it is to be made of the first records again.
    spans: Option<RunSpans>,
    /// The number of records that spans were made of.
    read: usize,
}

/// Makes spans of what becomes durable, for ever.
pub(super) async fn follow(host: Host, queue: Arc<Queue>) {
    let Some(mut changes) = host.watch_all() else { return };
    let mut followed = HashMap::new();
    let mut changed = blocking(&host, unsent).await;
    loop {
        let (taken, into) = (std::mem::take(&mut followed), Arc::clone(&queue));
        followed = blocking(&host, move |host| Ok(read_all(host, changed, taken, &into))).await;
        changed = match changes.recv().await {
            Ok(change) => BTreeSet::from([change.run]),
            Err(RecvError::Lagged(missed)) => missed_some(&host, &queue, missed).await,
            Err(RecvError::Closed) => return,
        };
        tokio::time::sleep(GATHER).await;
        loop {
            match changes.try_recv() {
                Ok(change) => {
                    changed.insert(change.run);
                }
                Err(TryRecvError::Lagged(missed)) => changed.extend(missed_some(&host, &queue, missed).await),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
    }
}

/// More changed than is remembered: all unfinished runs are looked at again.
async fn missed_some(host: &Host, queue: &Queue, missed: u64) -> BTreeSet<Arc<str>> {
    queue.note_missed(missed);
    blocking(host, unsent).await
}

/// Reads the folder on a thread for that.
async fn blocking<T: Default + Send + 'static>(
    host: &Host,
    work: impl FnOnce(&Host) -> Result<T, StoreError> + Send + 'static,
) -> T {
    let host = host.clone();
    let done = tokio::task::spawn_blocking(move || work(&host)).await;
    done.unwrap_or_else(|_| Ok(T::default())).unwrap_or_else(|error| {
        tracing::warn!(%error, "spans cannot be made");
        T::default()
    })
}

/// The runs that may have spans which were not sent.
fn unsent(host: &Host) -> Result<BTreeSet<Arc<str>>, StoreError> {
    let Some(journal) = host.journal()? else { return Ok(BTreeSet::new()) };
    let store = journal.store();
    let unfinished = store.list(&Filter { ended: Some(false), ..Filter::default() })?;
    let ended = store.list(&Filter { ended: Some(true), limit: Some(AGAIN_MAX), ..Filter::default() })?;
    let since = Timestamp(system_time().0.saturating_sub(AGAIN_MICROS));
    let again = ended.into_iter().filter(|run| run.ended.is_some_and(|ended| ended >= since));
    Ok(unfinished.into_iter().chain(again).map(|run| run.id).collect())
}

fn read_all(
    host: &Host,
    changed: BTreeSet<Arc<str>>,
    mut followed: HashMap<Arc<str>, Followed>,
    queue: &Queue,
) -> HashMap<Arc<str>, Followed> {
    for run in changed {
        match read(host, &run, followed.remove(&run), queue) {
            Ok(Some(rest)) => {
                followed.insert(run, rest);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%run, %error, "spans cannot be made"),
        }
    }
    if followed.values().filter(|one| one.spans.is_some()).count() > FOLLOWED_MAX {
        for one in followed.values_mut() {
            one.spans = None;
        }
    }
    followed
}

/// Reads what is new of a run. `None` if nothing more comes.
fn read(host: &Host, run: &Arc<str>, known: Option<Followed>, queue: &Queue) -> Result<Option<Followed>, StoreError> {
    let Some(journal) = host.journal()? else { return Ok(None) };
    let store = journal.store();
    let Some(stored) = store.run(run)? else { return Ok(None) };
    let mut one = known.unwrap_or_else(|| {
        let manifest = journal.manifest(run).ok();
        let traceparent = manifest.as_ref().and_then(|manifest| manifest.notes.traceparent.as_deref());
        let context = TraceContext::of_run(run, traceparent);
        Followed { context, name: Arc::clone(&stored.name), spans: None, read: 0 }
    });
    if !one.context.is_sampled {
        return Ok((stored.status.is_none()).then_some(one));
    }
    let mut spans = one.spans.take();
    let mut at = if spans.is_some() { one.read } else { 0 };
    let fold = spans.get_or_insert_with(|| RunSpans::of(Arc::clone(run), &*one.name));
    loop {
        let records = store.records_from(run, at as u64 + 1, PAGE)?;
        let count = records.len();
        for bytes in records {
            let damaged = |why| StoreError::Damaged { run: Arc::clone(run), why };
            let record = Record::decode(bytes).map_err(|why| damaged(why.to_string()))?;
            // Spans of earlier records were queued before.
            let is_new = at >= one.read;
            fold.apply(&record, &mut |traced| {
                if is_new {
                    put(queue, &one.context, run, &traced);
                }
            });
            at += 1;
        }
        if count < PAGE {
            break;
        }
    }
    one.read = at.max(one.read);
    one.spans = spans;
    Ok((stored.status.is_none()).then_some(one))
}

fn put(queue: &Queue, context: &TraceContext, run: &str, traced: &Traced) {
    match traced {
        Traced::Began(span) => queue.put(beginning(context, run, span)),
        Traced::Ended(span) => queue.put(message(context, run, span)),
        Traced::Stepped { .. } | Traced::Flow(_) => {}
    }
}
