//! From core modules to components.

use super::problem::LoadError;
use super::survey::BYTES_MAX;
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
    encode(module, Some((WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER)))
}

/// Encodes a core module with an adapter for what it imports. The encoder is made for the output of
/// tool chains: what it does not foresee in a hostile module may be a panic, which is caught.
fn encode(module: &[u8], adapter: Option<(&str, &[u8])>) -> Result<Vec<u8>, LoadError> {
    let encode = || {
        let mut encoder = ComponentEncoder::default().module(module)?;
        if let Some((name, adapter)) = adapter {
            encoder = encoder.adapter(name, adapter)?;
        }
        encoder.encode()
    };
    match std::panic::catch_unwind(AssertUnwindSafe(encode)) {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(error)) => Err(LoadError::Malformed(format!("{error:#}"))),
        Err(_) => Err(LoadError::Malformed("no component can be made of the module".to_owned())),
    }
}
