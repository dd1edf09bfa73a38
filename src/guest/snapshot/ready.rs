//! Polls futures of wasmtime's that have nothing to wait for.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future to its end on this thread.
///
/// Instantiating, growing a memory and calling a function are asynchronous in wasmtime because host functions and limiters may be. Ours
/// are not. What may be pending is a fuel slice that has been used up: it asks for nothing but the next poll. Fuel bounds how often.
pub(super) fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}
