//! Modules with some of their sections made anew, and the others byte for byte as they were.

use wasm_encoder::{Module, RawSection};
use wasmparser::{Parser, Payload};

/// A module without its custom sections: the names of its functions, and what debuggers read.
pub(super) fn without_custom(module: &[u8]) -> wasmtime::Result<Vec<u8>> {
    rewrite(module, |payload, _| Ok(matches!(payload, Payload::CustomSection(_))))
}

/// Copies a module. `replace` is asked about each section: it adds another and returns true, or the
/// section stays.
pub(crate) fn rewrite<'a>(
    module: &'a [u8],
    mut replace: impl FnMut(&Payload<'a>, &mut Module) -> wasmtime::Result<bool>,
) -> wasmtime::Result<Vec<u8>> {
    let mut made = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        let Some((id, range)) = payload.as_section() else { continue };
        if !replace(&payload, &mut made)? {
            made.section(&RawSection { id, data: &module[range] });
        }
    }
    Ok(made.finish())
}
