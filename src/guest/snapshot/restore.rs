//! Puts a snapshot into a fresh instance.

use super::state::{GlobalValue, PAGE_BYTES, Snapshot};
use super::template::{Handles, Template};
use crate::guest::poll::block_on;
use wasmtime::AsContextMut;

/// Why a guest could not be restored. The instance is then in no defined state and must be dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The snapshot does not fit the instance.
    #[error("the snapshot is of another component: {0}")]
    OtherComponent(&'static str),
    /// Something has already run in the instance.
    #[error("the instance is not fresh")]
    NotFresh,
    /// The host could not provide the memory that the guest had: a host fault, or a limit lower
    /// than before.
    #[error("the guest's memory cannot be allocated again: {0}")]
    Memory(wasmtime::Error),
    /// The engine refused a value.
    #[error("the engine refuses the guest's state: {0}")]
    Engine(wasmtime::Error),
}

impl Template {
    /// Puts a snapshot into a fresh instance. Nothing may have been called in it since it was
    /// instantiated, not even `init`. The store's limiter is asked for the memory that the guest
    /// had grown by. Fuel is set as it was.
    ///
    /// # Errors
    /// Fails if the snapshot does not fit, or the memory is not available.
    ///
    /// # Panics
    /// If `handles` were bound to another store.
    pub fn restore(
        &self,
        mut store: impl AsContextMut<Data: Send + 'static>,
        handles: &Handles,
        snapshot: &Snapshot,
    ) -> Result<(), RestoreError> {
        if snapshot.memories.len() != handles.memories.len() || snapshot.globals.len() != handles.globals.len() {
            return Err(RestoreError::OtherComponent("it has another number of memories or globals"));
        }
        for (global, fresh) in handles.globals.iter().zip(self.fresh_globals()) {
            if GlobalValue::of(&global.get(&mut store)) != Some(*fresh) {
                return Err(RestoreError::NotFresh);
            }
        }
        for (memory, state) in handles.memories.iter().zip(&snapshot.memories) {
            let bytes = memory.data_size(store.as_context()) as u64;
            let Some(grown_bytes) = state.bytes.checked_sub(bytes) else {
                return Err(RestoreError::OtherComponent("a memory is smaller than a fresh one"));
            };
            if grown_bytes > 0 {
                let pages = grown_bytes / memory.page_size(store.as_context());
                block_on(memory.grow_async(&mut store, pages)).map_err(RestoreError::Memory)?;
            }
            let data = memory.data_mut(store.as_context_mut());
            for (page, content) in state.iter() {
                let start = page as usize * PAGE_BYTES;
                let place = data.get_mut(start..start + PAGE_BYTES);
                let place = place.ok_or(RestoreError::OtherComponent("a page is beyond the end of its memory"))?;
                place.copy_from_slice(content);
            }
        }
        for (global, value) in handles.globals.iter().zip(&snapshot.globals) {
            global.set(&mut store, value.to_val()).map_err(RestoreError::Engine)?;
        }
        if let Some(fuel) = snapshot.fuel {
            store.as_context_mut().set_fuel(fuel).map_err(RestoreError::Engine)?;
        }
        Ok(())
    }
}
