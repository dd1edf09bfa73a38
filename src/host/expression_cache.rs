//! Stores the compiled code of expressions in the code cache of guests.

use crate::guest::{CodeCache, GuestEngine, Prepared};
use crate::workflow::expression::CompiledCode;
use std::sync::Arc;
use wasmtime::Engine;
use wasmtime::component::Component;

/// The cache of an engine of guests, for the engine of expressions.
pub(super) struct ExpressionCache(pub(super) Arc<GuestEngine>);

impl CompiledCode for ExpressionCache {
    fn load_or_compile(&self, engine: &Engine, wasm: &[u8]) -> Result<Component, String> {
        let cache: &CodeCache = self.0.cache();
        // It is a part of this program: its compilation needs no bound.
        let loaded = cache.load_or_compile(engine, wasm, &blake3::hash(wasm), || Ok(Prepared::default()));
        loaded.map(|(component, _)| component).map_err(|error| error.to_string())
    }
}
