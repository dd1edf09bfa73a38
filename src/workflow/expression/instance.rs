//! An instance of the jq component: its store, its budgets, and the filters that it has compiled.

use super::config::EngineConfig;
use super::{CompileError, EvalProblem};
use std::collections::HashMap;
use std::sync::Arc;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, ResourceLimiter, Store, Trap};

mod bindings {
    #![allow(missing_docs, unreachable_pub, clippy::pedantic)]
    wasmtime::component::bindgen!({ path: "guests/jq/wit", world: "jq" });
}
use bindings::{Jq as World, JqPre};

/// Most filters that an instance compiles. Arbitrary: a few KiB each.
const FILTERS_MAX: usize = 256;

/// Most memory of an instance that is kept. Arbitrary: about 4 times that of an idle one.
const KEPT_MEMORY_BYTES_MAX: usize = 4 << 20;

/// Fuel of a compilation, regardless of its text. Estimated: all of jq's definitions take about 7
/// M.
const COMPILE_FUEL_BASE: u64 = 10_000_000;

/// Fuel added to the budget of a compilation for each byte of text. Estimated, not measured: most
/// of the cost of a short filter is the definitions it needs, about 7,000 units for each of its
/// bytes.
const COMPILE_FUEL_PER_BYTE: u64 = 20_000;

/// Bytes of memory added to the budget of a compilation for each byte of text. Estimated.
const COMPILE_MEMORY_PER_BYTE: usize = 512;

/// Most bytes of an error message. Arbitrary: it goes into logs and onto terminals.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Most table elements: the component's table has a fixed size, far below this.
const TABLE_ELEMENTS_MAX: usize = 10_000;

/// The linked component that all instances are made from.
pub(super) struct InstanceTemplate {
    engine: Engine,
    pre: JqPre<Limiter>,
}

impl InstanceTemplate {
    pub(super) fn new(engine: Engine, component: &Component) -> wasmtime::Result<Self> {
        let pre = JqPre::new(Linker::new(&engine).instantiate_pre(component)?)?;
        Ok(Self { engine, pre })
    }

    /// Makes a fresh instance.
    pub(super) fn instantiate(&self, config: &EngineConfig) -> Result<Instance, EvalProblem> {
        let limiter =
            Limiter { memory_bytes_max: config.memory_base_bytes, memory_bytes: 0, refused: false, failed: None };
        let mut store = Store::new(&self.engine, limiter);
        store.limiter(|limiter| limiter);
        store.set_hostcall_fuel(config.output_bytes_max as usize + 64 * config.outputs_max as usize + (1 << 20));
        let made = store.set_fuel(config.fuel_base).and_then(|()| self.pre.instantiate(&mut store));
        match made {
            Ok(world) => Ok(Instance { store, world, filters: HashMap::new() }),
            Err(error) => Err(EvalProblem::Host(format!("{error:#}"))),
        }
    }
}

/// Counts and bounds the memory of an instance.
struct Limiter {
    memory_bytes_max: usize,
    memory_bytes: usize,
    /// Whether the instance asked for more than its limit.
    refused: bool,
    /// Why the host could not provide memory within the limit.
    failed: Option<String>,
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.memory_bytes_max {
            self.refused = true;
            // The guest would only abort: ending the call here gives the reason.
            return Err(wasmtime::Error::msg("more memory than the limit"));
        }
        self.memory_bytes = desired;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.failed = Some(format!("{error:#}"));
        Err(error)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }
}

/// The budget of a call.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) fuel: u64,
    pub(super) memory_bytes: usize,
    pub(super) outputs: u32,
    pub(super) output_bytes: u32,
}

/// Why a call failed, and whether the instance is still usable.
pub(super) enum Failure<T> {
    /// An ordinary outcome: the instance is still usable.
    Ordinary(T),
    /// The call trapped: the instance must not be used again.
    Trapped(EvalProblem),
}

impl<T> From<EvalProblem> for Failure<T> {
    fn from(problem: EvalProblem) -> Self {
        Self::Trapped(problem)
    }
}

pub(super) struct Instance {
    store: Store<Limiter>,
    world: World,
    filters: HashMap<Arc<str>, u32>,
}

impl Instance {
    pub(super) fn has_filter(&self, text: &str) -> bool {
        self.filters.contains_key(text)
    }

    /// Returns whether the instance may compile another filter. One that may not is still of use to
    /// those that it has.
    pub(super) fn has_room(&self) -> bool {
        self.filters.len() < FILTERS_MAX
    }

    /// Returns whether the instance is small enough to be kept.
    pub(super) fn is_small(&self) -> bool {
        self.store.data().memory_bytes <= KEPT_MEMORY_BYTES_MAX
    }

    /// Compiles a filter, unless the instance has it.
    pub(super) fn compile(
        &mut self,
        text: &Arc<str>,
        config: &EngineConfig,
    ) -> Result<u32, Failure<Vec<CompileError>>> {
        if let Some(&filter) = self.filters.get(text) {
            return Ok(filter);
        }
        let budget = Budget {
            fuel: COMPILE_FUEL_BASE.min(config.fuel_base) + COMPILE_FUEL_PER_BYTE * text.len() as u64,
            // jq folds constants, so compiling can ask for much memory. Within this bound the
            // instance can be kept: a fresh instance for each of thousands of expressions would
            // take minutes.
            memory_bytes: (KEPT_MEMORY_BYTES_MAX + COMPILE_MEMORY_PER_BYTE * text.len()).min(config.memory_base_bytes),
            outputs: 0,
            output_bytes: 0,
        };
        self.begin(budget)?;
        match self.world.call_compile(&mut self.store, text) {
            Ok(Ok(filter)) => {
                self.filters.insert(text.clone(), filter);
                Ok(filter)
            }
            Ok(Err(errors)) => Err(Failure::Ordinary(errors.into_iter().map(|error| clamped(error, text)).collect())),
            Err(error) => Err(Failure::Trapped(self.ended(&error, budget, text.len()))),
        }
    }

    /// Loads the input, runs the filter on it, and unloads the input.
    pub(super) fn evaluate(
        &mut self,
        filter: u32,
        input: &str,
        budget: Budget,
    ) -> Result<Vec<String>, Failure<EvalProblem>> {
        self.begin(budget)?;
        match self.load_and_run(filter, input, budget) {
            Ok(Ok(outputs)) => Ok(outputs),
            Ok(Err(problem)) => Err(Failure::Ordinary(problem)),
            Err(error) => Err(Failure::Trapped(self.ended(&error, budget, input.len()))),
        }
    }

    fn load_and_run(
        &mut self,
        filter: u32,
        input: &str,
        budget: Budget,
    ) -> wasmtime::Result<Result<Vec<String>, EvalProblem>> {
        let loaded = match self.world.call_load(&mut self.store, input)? {
            Ok(loaded) => loaded,
            Err(message) => return Ok(Err(EvalProblem::BadInput(message))),
        };
        let result = self.world.call_eval(&mut self.store, filter, loaded, budget.outputs, budget.output_bytes)?;
        self.world.call_unload(&mut self.store, loaded)?;
        Ok(result.map_err(|problem| match problem {
            bindings::Problem::Failed(message) => EvalProblem::Failed(cut(message)),
            bindings::Problem::OutputLimit => {
                EvalProblem::OutputLimit { outputs: budget.outputs, bytes: budget.output_bytes }
            }
        }))
    }

    /// The remaining fuel of the last call.
    pub(super) fn fuel_left(&self) -> u64 {
        self.store.get_fuel().unwrap_or(0)
    }

    fn begin(&mut self, budget: Budget) -> Result<(), EvalProblem> {
        self.store.data_mut().memory_bytes_max = budget.memory_bytes;
        self.store.set_fuel(budget.fuel).map_err(|error| EvalProblem::Host(format!("{error:#}")))
    }

    /// The problem of a call that ended in a trap.
    fn ended(&self, error: &wasmtime::Error, budget: Budget, input_bytes: usize) -> EvalProblem {
        let limiter = self.store.data();
        if limiter.refused {
            return EvalProblem::TooLarge { memory_bytes: budget.memory_bytes };
        }
        if let Some(failed) = &limiter.failed {
            return EvalProblem::Host(failed.clone());
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => EvalProblem::TooExpensive { fuel: budget.fuel, input_bytes },
            // jq's stack lies at the bottom of its memory.
            Some(Trap::MemoryOutOfBounds | Trap::StackOverflow) => {
                EvalProblem::TooLarge { memory_bytes: budget.memory_bytes }
            }
            Some(trap) => EvalProblem::Crashed(trap.to_string()),
            None => EvalProblem::Host(format!("{error:#}")),
        }
    }
}

/// Moves an error's span into the text and onto character boundaries.
fn clamped(error: bindings::CompileError, text: &str) -> CompileError {
    let start = text.floor_char_boundary((error.start as usize).min(text.len()));
    let end = text.ceil_char_boundary((error.end as usize).min(text.len()));
    CompileError { message: cut(error.message), span: start..end.max(start) }
}

/// Bounds the length of a message: an expression can raise any text as an error.
fn cut(mut message: String) -> String {
    let bytes = message.len();
    if bytes > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push_str(&format!("… ({bytes} bytes)"));
    }
    message
}
