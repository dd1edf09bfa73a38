//! Bodies that are streamed to readers of any pace.
//!
//! Nothing is read for a reader until it has taken what it was sent: one piece waits for it here,
//! and one in its connection. All readers together hold [`HELD_KIB`]. One that takes nothing for
//! long is left, and its connection is closed, since what it did not take would stay there: it
//! finds its place again. While others wait for room it is left sooner.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, mpsc};
use tokio::time::{Instant, timeout};

/// How long a reader may take nothing.
pub(in crate::serve) const STALL_MAX: Duration = Duration::from_secs(30);

/// The same, while more than half of [`HELD_KIB`] is held.
const STALL_SCARCE_MAX: Duration = Duration::from_secs(2);

/// How often a reader that takes nothing is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What all readers together may hold, in KiB: 256 MiB.
const HELD_KIB: u32 = 256 << 10;

/// The rest of it.
static HELD: Semaphore = Semaphore::const_new(HELD_KIB as usize);

/// The reader is gone, or was left.
pub(in crate::serve) struct Gone;

/// Closes the connection of a reader that was left. It is an extension of the response, where the
/// connection says how.
#[derive(Clone, Default)]
pub(in crate::serve) struct Closer(Arc<OnceLock<Arc<Notify>>>);

impl Closer {
    /// Says what to notify so that the connection is closed.
    pub(in crate::serve) fn closes(&self, connection: &Arc<Notify>) {
        let _ = self.0.set(Arc::clone(connection));
    }

    fn close(&self) {
        if let Some(connection) = self.0.get() {
            connection.notify_one();
        }
    }
}

/// Where the pieces of a body go.
pub(in crate::serve) struct Outgoing {
    sender: mpsc::Sender<Bytes>,
    closer: Closer,
}

impl Outgoing {
    /// Returns where the pieces go, and the response that has them as its body.
    pub(in crate::serve) fn new() -> (Self, Response) {
        let (sender, receiver) = mpsc::channel(1);
        let closer = Closer::default();
        let mut response = Body::new(Streamed(receiver)).into_response();
        response.extensions_mut().insert(closer.clone());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Proxies that gather answers are told not to.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        (Self { sender, closer }, response)
    }

    /// Waits until the reader has taken what it was sent.
    pub(in crate::serve) async fn ready(&self) -> Result<(), Gone> {
        let begin = Instant::now();
        loop {
            match timeout(LOOK_EVERY, self.sender.reserve()).await {
                // Nobody else sends: the room stays.
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) => return Err(Gone),
                Err(_) if begin.elapsed() < stall_max() => {}
                Err(_) => {
                    self.closer.close();
                    return Err(Gone);
                }
            }
        }
    }

    /// Sends bytes that are small, or that other readers share.
    pub(in crate::serve) async fn send(&self, bytes: Bytes) -> Result<(), Gone> {
        self.ready().await?;
        self.sender.try_send(bytes).map_err(|_| Gone)
    }

    /// Sends bytes of this reader alone: they count until they have left.
    pub(in crate::serve) async fn send_own(&self, bytes: Bytes) -> Result<(), Gone> {
        let room = timeout(STALL_MAX, HELD.acquire_many(kib(bytes.len()))).await;
        let Ok(Ok(room)) = room else { return Err(Gone) };
        self.send(Bytes::from_owner(Held { bytes, _room: room })).await
    }

    /// Waits until the reader is gone.
    pub(in crate::serve) async fn closed(&self) {
        self.sender.closed().await;
    }
}

fn stall_max() -> Duration {
    if HELD.available_permits() < HELD_KIB as usize / 2 { STALL_SCARCE_MAX } else { STALL_MAX }
}

/// How many KiB of [`HELD_KIB`] so many bytes take.
pub(in crate::serve) fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes >> 10).unwrap_or(u32::MAX).saturating_add(1).min(HELD_KIB)
}

/// Bytes that readers share: they count once, until the last has taken them. `None` if there is no
/// room for them.
pub(in crate::serve) fn held_at_once(bytes: Bytes) -> Option<Bytes> {
    let room = HELD.try_acquire_many(kib(bytes.len())).ok()?;
    Some(Bytes::from_owner(Held { bytes, _room: room }))
}

/// Bytes that are on their way to readers.
struct Held {
    bytes: Bytes,
    _room: SemaphorePermit<'static>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
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
