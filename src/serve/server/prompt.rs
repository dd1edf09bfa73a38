//! A connection whose client has to begin soon, and to take what it is sent.
//!
//! Which version of HTTP a client speaks is told from its first bytes, and only then does the time
//! count that a header may take. A client that takes nothing would keep what was written for it,
//! and its connection, for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Bytes by which the version is told: those of the preface of HTTP/2.
const PREFACE_BYTES: usize = 24;

/// A stream that fails if its first bytes do not come in time, or if it takes none for long.
pub(super) struct Prompt<S> {
    stream: S,
    /// `None` once the client has begun.
    deadline: Option<Pin<Box<Sleep>>>,
    read: usize,
    stall_max: Duration,
    /// While it takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> Prompt<S> {
    pub(super) fn new(stream: S, time_max: Duration, stall_max: Duration) -> Self {
        Self { stream, deadline: Some(Box::pin(sleep(time_max))), read: 0, stall_max, stall: None }
    }

    /// Fails in the place of what waits until the client takes something, if it takes too long.
    fn while_taken<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stall = None;
            return polled;
        }
        let stall_max = self.stall_max;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(stall_max)));
        stall.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
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
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.while_taken(context, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.while_taken(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(context);
        this.while_taken(context, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_shutdown(context);
        this.while_taken(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_left_and_a_slow_one_is_not() {
        let stall_max = Duration::from_millis(400);
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Prompt::new(server, Duration::from_mins(1), stall_max);
        let writing = tokio::spawn(async move { server.write_all(&[7; 64 * 11]).await.map_err(|error| error.kind()) });
        // Longer than it may take nothing, in all.
        let mut taken = [0; 64];
        for _ in 0..10 {
            sleep(stall_max / 8).await;
            client.read_exact(&mut taken).await.unwrap();
        }
        assert_eq!(writing.await.unwrap(), Ok(()));
        let (_client, server) = tokio::io::duplex(64);
        let mut server = Prompt::new(server, Duration::from_mins(1), stall_max);
        let failed = server.write_all(&[7; 65]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    }
}
