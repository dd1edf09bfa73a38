//! From a core module to a component.

use crate::cli::report::error::{UserError, kind};
use wit_component::ComponentEncoder;

/// The component of what a tool chain has made. A core module has its contract in a section of its
/// own, which its bindings have put there.
///
/// # Errors
/// Fails if the module has no such section, or does not fit its contract.
pub(super) fn of(bytes: Vec<u8>, name: &str) -> Result<Vec<u8>, UserError> {
    if !wasmparser::Parser::is_core_wasm(&bytes) {
        return Ok(bytes);
    }
    let encoded = ComponentEncoder::default().module(&bytes).and_then(|encoder| encoder.validate(true).encode());
    encoded.map_err(|error| {
        let title = format!("the core module of {name} cannot be made a component: {error:#}");
        UserError::new(kind::UNFIT, title).hint("it must have the bindings of an SDK, and import nothing else")
    })
}
