//! A file as the body of a request.

use bytes::Bytes;
use http_body::{Body, Frame};
use std::io::{Error, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes that are read at once. Arbitrary.
const CHUNK_BYTES: u64 = 256 << 10;

/// A body that is read part by part. Reading blocks the thread, which does nothing else.
pub(super) struct ReadBody(Box<dyn Read + Send>);

impl ReadBody {
    pub(super) fn new(from: impl Read + Send + 'static) -> Self {
        Self(Box::new(from))
    }
}

impl Body for ReadBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut chunk = Vec::new();
        Poll::Ready(match self.0.by_ref().take(CHUNK_BYTES).read_to_end(&mut chunk) {
            Ok(0) => None,
            Ok(_) => Some(Ok(Frame::data(chunk.into()))),
            Err(error) => Some(Err(error)),
        })
    }
}
