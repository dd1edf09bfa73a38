//! Streams of records and of lines of logs: as Server-Sent Events, or as lines of JSON.
//!
//! An event is sent only when its record is durable, and its id is the number of the record. So a
//! reader that comes back with the last id it has seen, after a break of the connection or of the
//! server, misses nothing and gets nothing twice. The server keeps nothing for a slow reader: each
//! reads on from the journal when it has taken what it was sent (`outgoing.rs`).

use super::access::Caller;
use super::outgoing::{Gone, Outgoing};
use super::problem::{Answered, ProblemKind, ServeProblem};
use super::service::Service;
use super::shown::Shown;
use super::tail::{Step, Tail};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Records that are read at a time, and their bytes: so much may wait for each reader, twice.
const PAGE: (usize, usize) = (1_000, 64 << 10);

/// How long events gather before they are sent, so that a busy run costs a write for many; for each
/// stream that is open; and at most.
const GATHER: Duration = Duration::from_millis(20);
const GATHER_FOR_EACH: Duration = Duration::from_micros(50);
const GATHER_MAX: Duration = Duration::from_millis(100);

/// How often a comment is sent, so that a reader and what is between notice a break.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// How often the records of a run are read that another process of the folder has.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Those who read at one time: what they have read is not yet counted as held. Nobody of them waits
/// for a reader.
static READING: Semaphore = Semaphore::const_new(32);

/// How what is shown is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::serve) enum Style {
    /// Server-Sent Events with this name, until the run has ended.
    Events(&'static str),
    /// A line of JSON each, until the last record of now.
    Lines,
}

/// The stream of what is shown of a run.
pub(in crate::serve) fn stream(
    service: Arc<Service>,
    run: String,
    shown: Shown,
    style: Style,
    (caller, permit): (Caller, OwnedSemaphorePermit),
) -> Response {
    let (out, mut response) = Outgoing::new();
    tokio::spawn(async move {
        let _permit = permit;
        let _ = match style {
            Style::Events(name) => send_events(&service, &caller, (&run, shown, name), &out).await,
            Style::Lines => send_lines(&service, &run, shown, &out).await,
        };
    });
    if style == Style::Lines {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    }
    response
}

/// The media type of lines of JSON.
pub(in crate::serve) const NDJSON: &str = "application/x-ndjson";

async fn send_events(
    service: &Arc<Service>,
    caller: &Caller,
    (run, mut shown, name): (&str, Shown, &'static str),
    out: &Outgoing,
) -> Result<(), Gone> {
    out.send(Bytes::from_static(b"retry: 2000\n\n")).await?;
    // Before the first reading: what comes afterwards is noticed.
    let mut more = service.host.watch_durable(run);
    let mut validity = caller.validity();
    // Of a run of this host.
    let mut tail: Option<Arc<Tail>> = None;
    // Where it is in step with the other readers.
    let mut until = None;
    let place = service.places.of(Some(run), shown.next);
    loop {
        out.ready().await?;
        place.is_at(shown.next);
        if !validity.lasts(service).await {
            return out.send(unauthenticated()).await;
        }
        let step = match &tail {
            Some(tail) if until.is_none() => tail.step(service, (run, name), shown.next).await,
            _ => Ok(Step::Alone(until)),
        };
        let read = match step {
            Ok(Step::Shared(part)) => {
                shown.next = part.next;
                out.send(part.bytes).await?;
                if !part.is_full {
                    wait(service, run, (more.as_mut(), shown.next), out).await?;
                }
                continue;
            }
            Ok(Step::Own(read)) => Ok(read),
            Ok(Step::Alone(to)) => {
                until = to;
                read_to(service, run, shown, to).await
            }
            Err(problem) => Err(problem),
        };
        let Read { shown: after, texts, row, has_ended, is_whole, turn, .. } = match read {
            Ok(read) => read,
            Err(problem) => {
                let _ = out.send(event("problem", None, &serde_json::json!(problem).to_string())).await;
                return Ok(());
            }
        };
        shown = after;
        until = until.filter(|until| shown.next <= *until);
        if !texts.is_empty() {
            out.send_own(written(name, &texts)).await?;
        }
        drop((texts, turn));
        let is_over = shown.last().is_some_and(|last| shown.next > last);
        if is_over || has_ended && is_whole {
            let end = serde_json::json!({ "run": run }).to_string();
            return out.send(event("end", None, &end)).await;
        }
        let is_shared = shown.is_everything() && more.is_some() && service.host.run_of(run).is_some();
        match row.filter(|_| is_shared) {
            Some(row) if tail.is_none() => tail = Some(service.tails.of(row)),
            Some(_) => {}
            None => tail = None,
        }
        if is_whole {
            wait(service, run, (more.as_mut(), shown.next), out).await?;
        }
    }
}

/// Events with this name, each with the number of its record. Of several events of one record the
/// last has the id: a break repeats some, and loses none.
pub(in crate::serve) fn written(name: &str, texts: &[(u64, String)]) -> Bytes {
    let mut bytes = BytesMut::new();
    for (index, (number, text)) in texts.iter().enumerate() {
        let is_last = texts.get(index + 1).is_none_or(|(next, _)| next != number);
        bytes.put(event(name, is_last.then_some(*number), text));
    }
    bytes.freeze()
}

async fn send_lines(service: &Arc<Service>, run: &str, mut shown: Shown, out: &Outgoing) -> Result<(), Gone> {
    loop {
        out.ready().await?;
        let read = match read(service, run, shown).await {
            Ok(read) => read,
            // Nobody takes what was sent for all there is.
            Err(problem) => {
                return out.send(Bytes::from(format!("{}\n", serde_json::json!({ "problem": problem })))).await;
            }
        };
        shown = read.shown;
        let mut bytes = BytesMut::new();
        for (_, text) in &read.texts {
            bytes.put(text.as_bytes());
            bytes.put_u8(b'\n');
        }
        if !bytes.is_empty() {
            out.send_own(bytes.freeze()).await?;
        }
        if read.is_whole || shown.last().is_some_and(|last| shown.next > last) {
            return Ok(());
        }
    }
}

/// Waits until the run may have the record of this number, or has ended before it.
async fn wait(
    service: &Arc<Service>,
    run: &str,
    (more, next): (Option<&mut crate::host::DurableRecords>, u64),
    out: &Outgoing,
) -> Result<(), Gone> {
    let is_here = service.host.run_of(run).is_some();
    let changed = async {
        match more {
            Some(more) if is_here => more.reach(next).await,
            _ => tokio::time::sleep(POLL_EVERY).await,
        }
    };
    tokio::pin!(changed);
    tokio::select! {
        () = &mut changed => {
            let streams = u32::try_from(service.open_streams()).unwrap_or(u32::MAX);
            tokio::time::sleep((GATHER + GATHER_FOR_EACH * streams).min(GATHER_MAX)).await;
            Ok(())
        }
        () = out.closed() => Err(Gone),
        () = service.drained() => {
            let _ = out.send(event("drain", None, "{}")).await;
            Err(Gone)
        }
        // Then the token is looked at again.
        () = tokio::time::sleep(COMMENT_EVERY) => out.send(Bytes::from_static(b":\n\n")).await,
    }
}

/// What was read of a run at one time.
pub(in crate::serve) struct Read {
    pub(in crate::serve) shown: Shown,
    /// What is shown, with the numbers of the records.
    pub(in crate::serve) texts: Vec<(u64, String)>,
    /// The run's row in the journal, once it is durable.
    pub(in crate::serve) row: Option<u64>,
    /// The run had ended before.
    has_ended: bool,
    /// There was no further record.
    is_whole: bool,
    /// A page was full: there may be more.
    pub(in crate::serve) is_full: bool,
    /// Of [`READING`]: until it is sent, or counts as held.
    turn: SemaphorePermit<'static>,
}

/// Reads records, and whether the run had ended before.
pub(in crate::serve) async fn read(service: &Arc<Service>, run: &str, shown: Shown) -> Answered<Read> {
    read_to(service, run, shown, None).await
}

/// Reads records up to a number.
async fn read_to(service: &Arc<Service>, run: &str, shown: Shown, to: Option<u64>) -> Answered<Read> {
    let turn = READING.acquire().await.expect("invariant: it is never closed");
    let id = run.to_owned();
    service
        .with_store(move |service| {
            let stored = service.store.run(&id)?;
            let is_here = service.host.run_of(&id).is_some();
            let nothing = Read {
                shown,
                texts: Vec::new(),
                row: stored.as_ref().map(|stored| stored.row),
                has_ended: stored.as_ref().is_some_and(|stored| stored.ended.is_some()),
                is_whole: true,
                is_full: false,
                turn,
            };
            match stored {
                Some(_) => {}
                // Begun here, and not durable yet.
                None if is_here => return Ok(nothing),
                None => return Err(ServeProblem::unknown(format_args!("run `{id}`"))),
            }
            let Read { mut shown, .. } = nothing;
            let most = to.map_or(PAGE.0, |to| PAGE.0.min((to + 1).saturating_sub(shown.next) as usize));
            let records = service.records_within(&id, shown.next, (most, PAGE.1))?;
            let mut texts = Vec::new();
            for record in &records {
                let number = shown.next;
                texts.extend(shown.take(record).into_iter().map(|text| (number, text)));
            }
            let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
            Ok(Read {
                shown,
                texts,
                is_whole: records.is_empty(),
                is_full: bytes >= PAGE.1 / 2 || records.len() >= most,
                ..nothing
            })
        })
        .await
}

/// The event that ends a stream whose token is no longer valid.
pub(in crate::serve) fn unauthenticated() -> Bytes {
    event("problem", None, &serde_json::json!(ServeProblem::new(ProblemKind::Unauthenticated)).to_string())
}

/// An event in the format of event streams.
pub(in crate::serve) fn event(name: &str, id: Option<u64>, data: &str) -> Bytes {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    // JSON has no line ends of its own.
    Bytes::from(format!("event: {name}\n{id}data: {data}\n\n"))
}
