//! The engine: one wasmtime configuration, its pool, its linker and its cache of compiled code; and
//! a second engine for the same code without a pool.

use super::binding;
use super::cache::CodeCache;
use super::context::Context;
use super::images::Images;
use super::metering::{TABLE_ELEMENTS_MAX, operator_cost};
use super::options::{EngineOptions, Profile};
use super::problem::EngineError;
use super::spares::{PERMIT_EACH, Spares};
use super::{sizing, wasi};
use crate::process::{Budget, Permit};
use crate::run::{BlobBounds, BlobStore, RunBlobs};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Arbitrary. Few slots mean little memory and a quick start, and a spare instance takes as much of
/// the pool as a slot.
const SLOTS_PER_SPARE: u32 = 4;

/// The stack of a fiber: wasm takes at most the first of the two, the rest is for the host
/// functions that it calls. These are addresses only; a guest's stack becomes resident as far as it
/// has ever used it. Measured (`tests/guests/recursion.rs`): in 128 KiB, Python could neither free
/// 500 nested dictionaries nor show 100 nested objects; in 512 it frees 900 and shows 330.
/// Scripts in JavaScript need most: 2,000 calls take 1.6 MiB, and end with an error of their
/// language before the stack does (`guests/script-js/README.md`).
const WASM_STACK_BYTES_MAX: usize = 2 << 20;
const FIBER_STACK_BYTES: usize = (2 << 20) + (128 << 10);

/// What one guest may take of the pool. A Python guest has 39 core instances and 38 tables.
const TABLES_PER_GUEST_MAX: u32 = 128;
const MEMORIES_PER_GUEST_MAX: u32 = 8;
pub(super) const CORE_INSTANCES_PER_GUEST_MAX: u32 = 128;

/// Bytes of a slot that are zeroed rather than returned to the kernel when its guest has ended, so
/// that the next guest takes no page faults there: what a small guest touches in its first step.
/// Measured (`spawn` of `tests/bench/guests.rs`).
const MEMORY_RESIDENT_BYTES: usize = 64 << 10;
const STACK_RESIDENT_BYTES: usize = 16 << 10;
const TABLE_RESIDENT_BYTES: usize = 16 << 10;

/// The structures that wasmtime allocates beside an instance, which grow with its functions and
/// types.
const INSTANCE_BYTES_MAX: usize = 4 << 20;

/// Functions of a trap's backtrace.
const BACKTRACE_FRAMES_MAX: usize = 16;

/// Compiles components and runs guests.
pub struct GuestEngine {
    engine: Engine,
    options: EngineOptions,
    slots: u32,
    cache: CodeCache,
    /// Without WASI: linking its 200 functions takes as long as loading a small component.
    linker: Linker<Context>,
    /// With WASI, made for the first component that imports any of it.
    linker_with_wasi: OnceLock<Linker<Context>>,
    /// The same code without the pool: for guests that find no slot, and for throw-away instances
    /// (`describe`, the probes of snapshots).
    on_demand: OnceLock<(Engine, Linker<Context>)>,
    on_demand_memory: Arc<Budget>,
    images: Images,
    spares: Spares,
    /// Guests that continued from a stored state.
    restores: AtomicU64,
    /// Where programs read and store blobs.
    blobs: OnceLock<(Arc<dyn BlobStore>, BlobBounds)>,
}

impl GuestEngine {
    /// Makes an engine. If the kernel does not provide what its pool needs, the pool is halved
    /// until it does; [`Self::slots`] returns the result.
    ///
    /// # Errors
    /// Fails if not even one slot is available, or the configuration does not fit this machine.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let mut slots = options.slots.unwrap_or_else(|| sizing::slots(sizing::map_count_max())).max(1);
        let engine = loop {
            match Engine::new(code_config(options.profile).allocation_strategy(pool(&options, slots))) {
                Ok(engine) => break engine,
                Err(_) if slots > 1 => slots /= 2,
                Err(e) => return Err(EngineError::Wasmtime(e)),
            }
        };
        let linker = linker(&engine, false)?;
        let cache = CodeCache::new(options.cache_dir.clone(), options.cache_bytes_max);
        let on_demand_memory = Arc::new(Budget::new(options.on_demand_bytes));
        let spill = options.spill_dir.clone().map(|folder| (folder, options.spill_bytes));
        let images = Images::new(options.image_bytes, spill);
        let (linker_with_wasi, on_demand) = (OnceLock::new(), OnceLock::new());
        let spares = Spares::new(spares_max(&options, slots));
        Ok(Self {
            engine,
            options,
            slots,
            cache,
            linker,
            linker_with_wasi,
            on_demand,
            on_demand_memory,
            images,
            spares,
            restores: AtomicU64::new(0),
            blobs: OnceLock::new(),
        })
    }

    /// Guests that can be live at the same time.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Lets programs read and store blobs of their runs. Only the first call counts.
    pub fn store_blobs(&self, store: Arc<dyn BlobStore>, bounds: BlobBounds) {
        let _ = self.blobs.set((store, bounds));
    }

    /// The blobs of a run; `None` if the host stores none.
    pub(super) fn blobs(&self, run: &Arc<str>) -> Option<RunBlobs> {
        let (store, bounds) = self.blobs.get()?;
        Some(RunBlobs::new(Arc::clone(store), Arc::clone(run), *bounds))
    }

    /// Guests that continued from a stored state: after an eviction, or from a snapshot.
    pub fn restores(&self) -> u64 {
        self.restores.load(Relaxed)
    }

    pub(super) fn count_restore(&self) {
        self.restores.fetch_add(1, Relaxed);
    }

    /// What the pool offers: the capacity that permits are counted against.
    pub fn capacity(&self) -> Permit {
        sizing::capacity(self.slots)
    }

    /// Memory of the guests outside the pool: used and available.
    pub fn on_demand_memory(&self) -> &Arc<Budget> {
        &self.on_demand_memory
    }

    /// The images of evicted guests.
    pub fn images(&self) -> &Images {
        &self.images
    }

    pub(super) fn spares(&self) -> &Spares {
        &self.spares
    }

    /// The number of instances that wait for another guest, and the bytes of memory that they hold.
    pub fn spare_instances(&self) -> (usize, u64) {
        self.spares.held()
    }

    /// The options that the engine was made with.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The cache of compiled code.
    pub fn cache(&self) -> &CodeCache {
        &self.cache
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The linker for a component with these imports.
    ///
    /// # Errors
    /// Fails if an engine of this configuration cannot offer them.
    pub(crate) fn linker(&self, imports: &[String]) -> Result<&Linker<Context>, EngineError> {
        if !imports.iter().any(|import| import.starts_with("wasi:")) {
            return Ok(&self.linker);
        }
        if let Some(linker) = self.linker_with_wasi.get() {
            return Ok(linker);
        }
        let linker = linker(&self.engine, true)?;
        // If two threads race, the second linker is dropped.
        Ok(self.linker_with_wasi.get_or_init(|| linker))
    }

    /// The engine without a pool. It runs the same compiled code. It also collects core dumps,
    /// which only cost when a guest traps: the probes of snapshots read them.
    ///
    /// # Errors
    /// Fails if it cannot be made, or would need other code.
    pub(crate) fn on_demand(&self) -> Result<&(Engine, Linker<Context>), EngineError> {
        if let Some(on_demand) = self.on_demand.get() {
            return Ok(on_demand);
        }
        let engine =
            Engine::new(code_config(self.options.profile).coredump_on_trap(true)).map_err(EngineError::Wasmtime)?;
        if fingerprint(&engine) != fingerprint(&self.engine) {
            return Err(EngineError::OtherCode);
        }
        let linker = linker(&engine, true)?;
        // If two threads race, the second engine is dropped.
        Ok(self.on_demand.get_or_init(|| (engine, linker)))
    }
}

/// Equal for engines that run each other's compiled code: same version, target and settings.
pub(crate) fn fingerprint(engine: &Engine) -> blake3::Hash {
    struct Fingerprint(blake3::Hasher);
    impl std::hash::Hasher for Fingerprint {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut fingerprint = Fingerprint(blake3::Hasher::new());
    std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut fingerprint);
    fingerprint.0.finalize()
}

/// The settings that shape compiled code. All engines of a profile share them, so one compiled file
/// serves them all.
pub(super) fn code_config(profile: Profile) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(operator_cost())
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .wasm_memory64(false)
        .max_wasm_stack(WASM_STACK_BYTES_MAX)
        .async_stack_size(FIBER_STACK_BYTES)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES_MAX))
        // Names of functions are enough for a guest's backtrace; offsets would add half again to
        // the size of compiled code.
        .generate_address_map(false)
        .native_unwind_info(false);
    match profile {
        Profile::Fast => {}
        Profile::Dense => {
            config.memory_reservation(profile.memory_bytes_max()).memory_guard_size(64 << 10);
        }
    }
    config
}

fn spares_max(options: &EngineOptions, slots: u32) -> u32 {
    options.spares.min(slots / SLOTS_PER_SPARE)
}

fn pool(options: &EngineOptions, slots: u32) -> InstanceAllocationStrategy {
    let capacity = sizing::capacity(slots);
    let spares = spares_max(options, slots);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(capacity.instances + spares * PERMIT_EACH.instances)
        .total_core_instances(capacity.core_instances + spares * PERMIT_EACH.core_instances)
        .total_memories(capacity.memories + spares * PERMIT_EACH.memories)
        .total_tables(capacity.tables + spares * PERMIT_EACH.tables)
        .total_stacks(slots + spares)
        .max_memory_size(usize::try_from(options.profile.memory_bytes_max()).unwrap_or(usize::MAX))
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_core_instance_size(INSTANCE_BYTES_MAX)
        .max_component_instance_size(INSTANCE_BYTES_MAX)
        .max_core_instances_per_component(CORE_INSTANCES_PER_GUEST_MAX)
        .max_memories_per_component(MEMORIES_PER_GUEST_MAX)
        .max_tables_per_component(TABLES_PER_GUEST_MAX)
        .linear_memory_keep_resident(MEMORY_RESIDENT_BYTES)
        .async_stack_keep_resident(STACK_RESIDENT_BYTES)
        .table_keep_resident(TABLE_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    InstanceAllocationStrategy::Pooling(pool)
}

/// Everything that is offered to guests, by name; WASI if it is wanted.
fn linker(engine: &Engine, with_wasi: bool) -> Result<Linker<Context>, EngineError> {
    let mut linker = Linker::new(engine);
    for contract in binding::CONTRACTS {
        contract.link(&mut linker).map_err(EngineError::Wasmtime)?;
    }
    if with_wasi {
        wasi::link(&mut linker).map_err(EngineError::Wasmtime)?;
    }
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_with_other_fuel_costs_is_incompatible() {
        let engine = |config: &mut Config| Engine::new(config).expect("an engine");
        let ours = fingerprint(&engine(&mut code_config(Profile::Fast)));
        assert_eq!(ours, fingerprint(&engine(&mut code_config(Profile::Fast))));
        let mut cost = operator_cost();
        cost.TableSet -= 1;
        assert_ne!(ours, fingerprint(&engine(code_config(Profile::Fast).operator_cost(cost))));
    }
}
