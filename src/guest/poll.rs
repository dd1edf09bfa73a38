//! Polls futures of wasmtime's, which have nothing to wait for.
//!
//! Instantiating, growing a memory and calling a function are asynchronous in wasmtime because host
//! functions and limiters may be. Ours are not (I1 of the room). A future is pending only because
//! its slice of fuel is used up: it asks for nothing but the next poll.

use super::compiler::Cancellation;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Polls for one slice. The waker does nothing, because the caller knows it can go on.
pub(super) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future to its end on this thread. Fuel bounds the number of polls.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return output;
        }
    }
}

/// Runs a future to its end on this thread. `None` if it was cancelled between two slices.
pub(super) fn block_until<F: Future>(future: F, cancellation: &Cancellation) -> Option<F::Output> {
    let mut future = pin!(future);
    while !cancellation.is_cancelled() {
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return Some(output);
        }
    }
    None
}
