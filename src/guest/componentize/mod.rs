//! From core modules to components.

mod exit;
mod go;
mod sections;

use super::problem::LoadError;
use super::survey::BYTES_MAX;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};
use wit_component::ComponentEncoder;

/// Makes the component of a program for WASI preview 1: a core module that exports `_start`.
///
/// # Errors
/// Fails if the module is too large, not valid, or imports something else.
pub(super) fn command(module: &[u8]) -> Result<Vec<u8>, LoadError> {
    if module.len() > BYTES_MAX {
        return Err(LoadError::TooLarge { bytes: module.len(), bytes_max: BYTES_MAX });
    }
    guarded(|| {
        let (module, exit) = prepared(module).map_err(|error| format!("{error:#}"))?;
        let encoder = ComponentEncoder::default()
            .module(&module)
            .and_then(|encoder| {
                encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER)
            })
            .and_then(|encoder| encoder.adapter(exit::ADAPTER, &exit));
        encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| format!("{error:#}"))
    })
}

/// The module as it is adapted, and the adapter of its exit code.
fn prepared(module: &[u8]) -> wasmtime::Result<(Cow<'_, [u8]>, Vec<u8>)> {
    let module = exit::redirected(module)?;
    let module = if go::is_go(&module) { Cow::from(go::with_reserve(&module)?) } else { module };
    Ok((module, exit::adapter()?))
}

/// The encoder is made for the output of tool chains: what it does not foresee in a hostile module
/// may be a panic, which is caught.
fn guarded(encode: impl FnOnce() -> Result<Vec<u8>, String>) -> Result<Vec<u8>, LoadError> {
    match std::panic::catch_unwind(AssertUnwindSafe(encode)) {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(error)) => Err(LoadError::Malformed(error)),
        Err(_) => Err(LoadError::Malformed("no component can be made of the module".to_owned())),
    }
}
