//! Streams of records and of lines of logs: as Server-Sent Events, or as lines of JSON.
//!
//! An event is sent only when its record is durable, and its id is the number of the record. So a
//! reader that comes back with the last id it has seen, after a break of the connection or of the
//! server, misses nothing and gets nothing twice. The server keeps nothing for a slow reader: each
//! reads on from the journal when it has taken what it was sent.

use super::access::Caller;
use super::problem::{Answered, ProblemKind, ServeProblem};
use super::service::Service;
use super::shown::Shown;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, mpsc};

/// Records that are read at a time, and their bytes.
const PAGE: (usize, usize) = (1_000, 256 << 10);

/// How long events gather before they are sent: so a busy run costs a write for many.
const GATHER: Duration = Duration::from_millis(20);

/// How often a comment is sent, so that a reader and what is between notice a break.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// How often the records of a run are read that another process of the folder has.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// How long a reader may take nothing.
const STALL_MAX: Duration = Duration::from_secs(30);

/// What all readers together may hold, in KiB: 256 MiB.
const HELD_KIB: u32 = 256 << 10;

/// The rest of it.
static HELD: Semaphore = Semaphore::const_new(HELD_KIB as usize);

/// Those who read at one time: what they have read is not yet in [`HELD`].
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
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        let mut out = Out(sender);
        let _ = match style {
            Style::Events(name) => send_events(&service, &caller, (&run, shown, name), &mut out).await,
            Style::Lines => send_lines(&service, &run, shown, &mut out).await,
        };
    });
    let mut response = response(receiver);
    if style == Style::Lines {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    }
    response
}

/// The media type of lines of JSON.
pub(in crate::serve) const NDJSON: &str = "application/x-ndjson";

/// A response that streams what comes.
pub(in crate::serve) fn response(receiver: mpsc::Receiver<Bytes>) -> Response {
    let mut response = Body::new(Streamed(receiver)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that gather answers are told not to.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The reader is gone, or was left.
pub(in crate::serve) struct Gone;

/// Where the events go.
pub(in crate::serve) struct Out(pub(in crate::serve) mpsc::Sender<Bytes>);

impl Out {
    /// Sends bytes that other readers share. A reader that takes nothing is left in time: it finds
    /// its place again.
    pub(in crate::serve) async fn send(&mut self, bytes: Bytes) -> Result<(), Gone> {
        self.0.send_timeout(bytes, STALL_MAX).await.map_err(|_| Gone)
    }

    /// Sends bytes of this reader alone. They count until they have left, so that all readers
    /// together hold [`HELD_KIB`].
    async fn send_own(&mut self, bytes: Bytes) -> Result<(), Gone> {
        let kib = u32::try_from(bytes.len() >> 10).unwrap_or(u32::MAX).saturating_add(1).min(HELD_KIB);
        let room = tokio::time::timeout(STALL_MAX, HELD.acquire_many(kib)).await;
        let Ok(Ok(room)) = room else { return Err(Gone) };
        self.send(Bytes::from_owner(Held { bytes, _room: room })).await
    }
}

/// Bytes that are on their way to a reader.
struct Held {
    bytes: Bytes,
    _room: SemaphorePermit<'static>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

async fn send_events(
    service: &Arc<Service>,
    caller: &Caller,
    (run, mut shown, name): (&str, Shown, &str),
    out: &mut Out,
) -> Result<(), Gone> {
    out.send(Bytes::from_static(b"retry: 2000\n\n")).await?;
    // Before the first reading: what comes afterwards is noticed.
    let mut more = service.host.watch_durable(run);
    loop {
        let reading = READING.acquire().await;
        if !caller.is_valid(service).await {
            let gone = serde_json::json!(ServeProblem::new(ProblemKind::Unauthenticated)).to_string();
            let _ = out.send(event("problem", None, &gone)).await;
            return Ok(());
        }
        let read = match read(service, run, shown).await {
            Ok(read) => read,
            Err(problem) => {
                let _ = out.send(event("problem", None, &serde_json::json!(problem).to_string())).await;
                return Ok(());
            }
        };
        shown = read.shown;
        if !read.texts.is_empty() {
            let mut bytes = BytesMut::new();
            for (index, (number, text)) in read.texts.iter().enumerate() {
                // Of several events of one record the last has the id: a break repeats some, and
                // loses none.
                let is_last = read.texts.get(index + 1).is_none_or(|(next, _)| next != number);
                bytes.put(event(name, is_last.then_some(*number), text));
            }
            out.send_own(bytes.freeze()).await?;
        }
        drop(reading);
        let is_over = shown.last().is_some_and(|last| shown.next > last);
        if is_over || read.has_ended && read.is_whole {
            let end = serde_json::json!({ "run": run }).to_string();
            return out.send(event("end", None, &end)).await;
        }
        if read.is_whole {
            wait(service, run, more.as_mut(), out).await?;
        }
    }
}

async fn send_lines(service: &Arc<Service>, run: &str, mut shown: Shown, out: &mut Out) -> Result<(), Gone> {
    loop {
        let reading = READING.acquire().await;
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
        drop(reading);
        if read.is_whole || shown.last().is_some_and(|last| shown.next > last) {
            return Ok(());
        }
    }
}

/// Waits until the run may have more records.
async fn wait(
    service: &Arc<Service>,
    run: &str,
    more: Option<&mut crate::host::DurableRecords>,
    out: &mut Out,
) -> Result<(), Gone> {
    let is_here = service.host.run_of(run).is_some();
    let changed = async {
        match more {
            Some(more) if is_here => more.more().await,
            _ => tokio::time::sleep(POLL_EVERY).await,
        }
    };
    tokio::pin!(changed);
    tokio::select! {
        () = &mut changed => {
            tokio::time::sleep(GATHER).await;
            Ok(())
        }
        () = out.0.closed() => Err(Gone),
        () = service.drained() => {
            let _ = out.send(event("drain", None, "{}")).await;
            Err(Gone)
        }
        // Then the token is looked at again.
        () = tokio::time::sleep(COMMENT_EVERY) => out.send(Bytes::from_static(b":\n\n")).await,
    }
}

/// What was read of a run at one time.
struct Read {
    shown: Shown,
    /// What is shown, with the numbers of the records.
    texts: Vec<(u64, String)>,
    /// The run had ended before.
    has_ended: bool,
    /// There was no further record.
    is_whole: bool,
}

/// Reads records, and whether the run had ended before.
async fn read(service: &Arc<Service>, run: &str, mut shown: Shown) -> Answered<Read> {
    let id = run.to_owned();
    service
        .with_store(move |service| {
            let stored = service.store.run(&id)?;
            let is_here = service.host.run_of(&id).is_some();
            let has_ended = match stored {
                Some(stored) => stored.ended.is_some(),
                // Begun here, and not durable yet.
                None if is_here => return Ok(Read { shown, texts: Vec::new(), has_ended: false, is_whole: true }),
                None => return Err(ServeProblem::unknown(format_args!("run `{id}`"))),
            };
            let records = service.records_within(&id, shown.next, PAGE)?;
            let mut texts = Vec::new();
            for record in &records {
                let number = shown.next;
                texts.extend(shown.take(record).into_iter().map(|text| (number, text)));
            }
            Ok(Read { shown, texts, has_ended, is_whole: records.is_empty() })
        })
        .await
}

/// An event in the format of event streams.
pub(in crate::serve) fn event(name: &str, id: Option<u64>, data: &str) -> Bytes {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    // JSON has no line ends of its own.
    Bytes::from(format!("event: {name}\n{id}data: {data}\n\n"))
}

/// The body of a stream.
struct Streamed(mpsc::Receiver<Bytes>);

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
