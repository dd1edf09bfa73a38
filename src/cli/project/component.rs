//! From a core module to a component.

use super::image;
use crate::cli::report::error::{UserError, kind};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The contract of guests.
pub(super) const CONTRACT: &str = include_str!("../../../wit/process.wit");

/// The world of a guest that describes itself.
pub(super) const DESCRIBED: &str = "world described { include process; export describe; }";

/// What a runtime imports of WASI is answered within the component: the time stands still, chance
/// is constant, there are no files. `guests/toolchain/wasi-stub.c` is its source.
const NO_WASI: &[u8] = include_bytes!("../../../guests/toolchain/wasi-stub.wasm");

/// The component of what a tool chain has made. A core module has its contract in a section of its
/// own, which its bindings have put there.
///
/// # Errors
/// Fails if the module has no such section, or does not fit its contract.
pub(super) fn of(bytes: Vec<u8>, name: &str) -> Result<Vec<u8>, UserError> {
    if !wasmparser::Parser::is_core_wasm(&bytes) {
        return Ok(bytes);
    }
    encode(&bytes, None).map_err(|error| refused(name, &error))
}

/// The component of a core module whose bindings have left no section, and whose runtime imports
/// WASI. It begins where the runtime's start has ended; one that asks the host for something before
/// that starts in each process.
///
/// # Errors
/// Fails if the module does not fit the contract.
pub(super) fn of_runtime(bytes: Vec<u8>, name: &str) -> Result<Vec<u8>, UserError> {
    let mut bytes = image::after_start(&bytes, NO_WASI).unwrap_or(bytes);
    let mut embedded = || {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("process.wit", &format!("{CONTRACT}\n{DESCRIBED}\n"))?;
        let world = resolve.select_world(&[package], Some("described"))?;
        embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8)?;
        encode(&bytes, Some(("wasi_snapshot_preview1", NO_WASI)))
    };
    embedded().map_err(|error| refused(name, &error))
}

/// The module without debug information, which takes most of its size; the names of functions stay.
fn stripped(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    let kept = crate::guest::rewrite(module, |payload, _| {
        Ok(matches!(payload, wasmparser::Payload::CustomSection(section)
            if section.name().starts_with(".debug") || section.name() == "producers"))
    });
    kept.map_err(|error| anyhow::anyhow!("{error:#}"))
}

fn encode(module: &[u8], adapter: Option<(&str, &[u8])>) -> anyhow::Result<Vec<u8>> {
    let mut encoder = ComponentEncoder::default().module(&stripped(module)?)?;
    if let Some((name, adapter)) = adapter {
        encoder = encoder.adapter(name, adapter)?;
    }
    encoder.validate(true).encode()
}

fn refused(name: &str, error: &anyhow::Error) -> UserError {
    let title = format!("the core module of {name} cannot be made a component: {error:#}");
    UserError::new(kind::UNFIT, title).hint("it must have the bindings of an SDK, and import nothing else")
}
