//! A connection whose client has to begin soon.
//!
//! Which version of HTTP a client speaks is told from its first bytes, and only then does the time
//! count that a header may take.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes by which the version is told: those of the preface of HTTP/2.
const PREFACE_BYTES: usize = 24;

/// A stream that fails if its first bytes do not come in time.
pub(super) struct Prompt<S> {
    stream: S,
    /// `None` once the client has begun.
    deadline: Option<Pin<Box<Sleep>>>,
    read: usize,
}

impl<S> Prompt<S> {
    pub(super) fn new(stream: S, time_max: Duration) -> Self {
        Self { stream, deadline: Some(Box::pin(tokio::time::sleep(time_max))), read: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, into);
        let Some(deadline) = &mut this.deadline else { return polled };
        if polled.is_ready() {
            let new = &into.filled()[before..];
            // Only the preface of HTTP/2 and a few methods begin like this, and those are longer.
            let is_open = this.read > 0 || new.first() == Some(&b'P');
            this.read += new.len();
            if !is_open || this.read >= PREFACE_BYTES {
                this.deadline = None;
            }
            return polled;
        }
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
