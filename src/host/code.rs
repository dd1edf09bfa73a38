//! The compiled code of expressions, kept where that of guests is kept.

use crate::guest::{CodeCache, GuestEngine};
use crate::workflow::expression::CompiledCode;
use wasmtime::Engine;
use wasmtime::component::Component;

/// The cache of an engine of guests, for the engine of expressions.
pub(super) struct Cached<'a>(pub(super) &'a GuestEngine);

impl CompiledCode for Cached<'_> {
    fn load_or_compile(&self, engine: &Engine, wasm: &[u8]) -> Result<Component, String> {
        let cache: &CodeCache = self.0.cache();
        let loaded = cache.load_or_compile(engine, wasm, &blake3::hash(wasm), || Ok(Vec::new()));
        loaded.map(|(component, _)| component).map_err(|error| error.to_string())
    }
}
