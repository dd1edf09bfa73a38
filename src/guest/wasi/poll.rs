//! Polling: what is ready is ready, and waiting for the rest is a death.

use super::{BlockingCall, WasiHost, WasiView};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use wasmtime::component::Resource;
use wasmtime_wasi_io::bindings::wasi::io::poll::{Host, HostPollable};
use wasmtime_wasi_io::poll::DynPollable;

/// The value of a future that is ready at once.
fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

const INSTEAD: &str = "return the command `sleep`, and continue when its answer arrives";

impl<T: WasiView> Host for WasiHost<'_, T> {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        let blocking = BlockingCall { import: "wasi:io/poll#poll", instead: INSTEAD };
        at_once(self.state().table.poll(pollables)).unwrap_or_else(|| Err(blocking.into()))
    }
}

impl<T: WasiView> HostPollable for WasiHost<'_, T> {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        self.state().table.ready(pollable).await
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        let blocking = BlockingCall { import: "wasi:io/poll#[method]pollable.block", instead: INSTEAD };
        at_once(self.state().table.block(pollable)).unwrap_or_else(|| Err(blocking.into()))
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        HostPollable::drop(&mut self.state().table, pollable)
    }
}
