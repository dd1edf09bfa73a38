//! A blob as the body of a message of HTTP.

use crate::run::{BlobError, BlobReader};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Bytes that are read from a blob, or written to it, at once. Arbitrary: a message holds a few of
/// them.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Chunks that are read ahead of the connection. Arbitrary.
const AHEAD: usize = 2;

/// A part of a blob, which is read as fast as it is sent.
pub(crate) struct BlobBody {
    chunks: mpsc::Receiver<Result<Bytes, BlobError>>,
    /// Bytes still to be sent.
    left: u64,
}

impl BlobBody {
    /// Begins to read, on the runtime that this is called on.
    pub(crate) fn new(reader: Arc<dyn BlobReader>, offset: u64, length: u64) -> Self {
        let left = length.min(reader.size().saturating_sub(offset));
        let (sender, chunks) = mpsc::channel(AHEAD);
        tokio::spawn(send_chunks(reader, offset, left, sender));
        Self { chunks, left }
    }
}

/// Reads until the part ends or its receiver is gone.
async fn send_chunks(
    reader: Arc<dyn BlobReader>,
    mut offset: u64,
    mut left: u64,
    chunks: mpsc::Sender<Result<Bytes, BlobError>>,
) {
    while left > 0 {
        let from = Arc::clone(&reader);
        let length = left.min(CHUNK_BYTES as u64) as usize;
        let read = tokio::task::spawn_blocking(move || from.read(offset, length)).await;
        let read = read.unwrap_or_else(|_| Err(BlobError::Unusable("reading a blob panicked".to_owned())));
        let length = read.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if chunks.send(read).await.is_err() || length == 0 {
            return;
        }
        (offset, left) = (offset + length, left - length);
    }
}

impl Body for BlobBody {
    type Data = Bytes;
    type Error = BlobError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BlobError>>> {
        let body = self.get_mut();
        body.chunks.poll_recv(cx).map(|chunk| {
            chunk.map(|chunk| {
                let chunk = chunk?;
                body.left = body.left.saturating_sub(chunk.len() as u64);
                Ok(Frame::data(chunk))
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
