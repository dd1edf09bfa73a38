//! The compiled code of expressions, kept where that of guests is kept.

use crate::guest::{CodeCache, GuestEngine};
use crate::workflow::expression::CompiledCode;
use std::sync::Arc;
use wasmtime::Engine;
use wasmtime::component::Component;

/// The cache of an engine of guests, for the engine of expressions.
pub(super) struct Cached(pub(super) Arc<GuestEngine>);

impl CompiledCode for Cached {
    fn load_or_compile(&self, engine: &Engine, wasm: &[u8]) -> Result<Component, String> {
        let cache: &CodeCache = self.0.cache();
        let loaded = cache.load_or_compile(engine, wasm, &blake3::hash(wasm), || Ok(Vec::new()));
        loaded.map(|(component, _)| component).map_err(|error| error.to_string())
    }
}
