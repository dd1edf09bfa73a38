//! Stock WASI imports, made deterministic.

use super::context::Context;
use wasmtime::component::Linker;

/// The interfaces that are offered.
pub(crate) const INTERFACES: &[&str] = &[];

/// What WASI keeps for one guest.
#[derive(Default)]
pub(crate) struct Wasi {}

/// A call that would wait. A step never does.
#[derive(Debug, thiserror::Error)]
#[error("{import} would wait, and a step never does; {instead}")]
pub(crate) struct BlockingCall {
    pub(crate) import: &'static str,
    pub(crate) instead: &'static str,
}

/// Offers WASI to guests.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn link(_linker: &mut Linker<Context>) -> wasmtime::Result<()> {
    Ok(())
}
