//! What a guest may use: fuel for each step and in total, memories and tables, log.

use crate::process::Limits;
use std::sync::Arc;
use wasmtime::{OperatorCost, ResourceLimiter};

/// Fuel for instantiation. Start functions may be hostile, so it is bounded; no process is charged
/// for it. Arbitrary: a tenth of a second.
pub(crate) const INSTANTIATE_FUEL: u64 = 100_000_000;

/// Fuel for `describe`. Arbitrary: a hundredth of a second, and more for interpreters.
pub(crate) const DESCRIBE_FUEL: u64 = 50_000_000;

/// Fuel for loading or translating a script, in its own time: no process is charged for it.
/// Arbitrary: ten seconds. A bundle of a megabyte takes one.
pub(crate) const LOAD_FUEL: u64 = 10_000_000_000;

/// Fuel for `close`. Arbitrary: a millisecond.
pub(crate) const CLOSE_FUEL: u64 = 1_000_000;

/// Fuel for a guest's own `snapshot.save`. Arbitrary: some milliseconds.
pub(crate) const SAVE_FUEL: u64 = 20_000_000;

/// Fuel of each 64 KiB page that `memory.grow` asks for: about what the page faults cost.
const MEMORY_GROW_FUEL_PER_PAGE: u8 = 255;

/// Bytes that a guest may pass in one call in addition to its largest payload. They are copied in
/// one piece, without a turn for other processes: 4 MiB take four slices at most (`cargo bench
/// --bench guests -- slices`).
const HOSTCALL_BYTES: u64 = 3 << 20;

/// Bytes that a guest may pass in one call. Text in UTF-16 is converted character by character,
/// which takes four times as long, so a guest that uses it may pass only its largest payload.
pub(crate) fn hostcall_bytes_max(limits: &Limits, transcodes: bool) -> usize {
    let more = if transcodes { 0 } else { HOSTCALL_BYTES };
    let bytes = limits.payload_bytes.saturating_add(more).min(limits.output_bytes);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// What an instruction that calls into the host costs, whatever its operands are. Estimated, so
/// that a slice of such calls takes about as long as one of plain instructions: `cargo bench
/// --bench guests -- slices` prints how long it does take.
const MEMORY_CALL_FUEL: u8 = 100;
const GROW_CALL_FUEL: u8 = 200;
const TABLE_CALL_FUEL: u8 = 200;

/// What an instruction costs that most processors have, and that is a call on the others.
const ROUNDING_FUEL: u8 = 8;

/// What a square root costs, and a division of floating-point numbers. A processor may take 18 and
/// 14 cycles for them, when each waits for the one before.
const ROOT_FUEL: u8 = 8;
const DIVISION_FUEL: u8 = 4;

/// What each instruction costs. It is part of the engine's fingerprint: compiled code counts by it.
pub(crate) fn operator_cost() -> OperatorCost {
    let mut cost = OperatorCost::new();
    cost.variable.memory_grow_per_page = MEMORY_GROW_FUEL_PER_PAGE;
    for of in [&mut cost.MemoryCopy, &mut cost.MemoryFill, &mut cost.MemoryInit, &mut cost.DataDrop] {
        *of = MEMORY_CALL_FUEL;
    }
    for of in [&mut cost.MemoryGrow, &mut cost.TableGrow] {
        *of = GROW_CALL_FUEL;
    }
    for of in [&mut cost.TableSet, &mut cost.TableFill, &mut cost.TableCopy, &mut cost.TableInit, &mut cost.ElemDrop] {
        *of = TABLE_CALL_FUEL;
    }
    for of in [&mut cost.RefFunc, &mut cost.TableGet] {
        *of = MEMORY_CALL_FUEL;
    }
    for of in [
        &mut cost.F32Ceil,
        &mut cost.F32Floor,
        &mut cost.F32Trunc,
        &mut cost.F32Nearest,
        &mut cost.F64Ceil,
        &mut cost.F64Floor,
        &mut cost.F64Trunc,
        &mut cost.F64Nearest,
        &mut cost.F32x4Ceil,
        &mut cost.F32x4Floor,
        &mut cost.F32x4Trunc,
        &mut cost.F32x4Nearest,
        &mut cost.F64x2Ceil,
        &mut cost.F64x2Floor,
        &mut cost.F64x2Trunc,
        &mut cost.F64x2Nearest,
        &mut cost.F32x4RelaxedMadd,
        &mut cost.F32x4RelaxedNmadd,
        &mut cost.F64x2RelaxedMadd,
        &mut cost.F64x2RelaxedNmadd,
    ] {
        *of = ROUNDING_FUEL;
    }
    for of in [&mut cost.F32Sqrt, &mut cost.F64Sqrt, &mut cost.F32x4Sqrt, &mut cost.F64x2Sqrt] {
        *of = ROOT_FUEL;
    }
    for of in [&mut cost.F32Div, &mut cost.F64Div, &mut cost.F32x4Div, &mut cost.F64x2Div] {
        *of = DIVISION_FUEL;
    }
    cost
}

/// Elements of one table: twice what the largest Python guest needs. The pool is laid out for it.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 20_000;

/// Fuel of a process over all its steps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FuelMeter {
    used: u64,
}

impl FuelMeter {
    /// Continues with the fuel that a process has used already.
    pub(crate) fn of(used: u64) -> Self {
        Self { used }
    }

    /// What all steps have used.
    pub(crate) fn used(self) -> u64 {
        self.used
    }

    /// What the next step may use.
    pub(crate) fn budget(self, limits: &Limits) -> u64 {
        limits.fuel_per_step.min(limits.fuel_total.saturating_sub(self.used))
    }

    /// Counts what a step has used.
    pub(crate) fn charge(&mut self, fuel: u64) {
        self.used = self.used.saturating_add(fuel);
    }
}

/// Counts memories and tables against the limits of a process.
///
/// There are two reasons for not getting memory, and they are kept apart. If the declared limit,
/// the profile, or the memory's own type forbids it, the guest sees that: its `memory.grow` gives
/// -1. If the host cannot provide it, the step ends as a host fault, for the guest would otherwise
/// behave differently when it is replayed.
pub(crate) struct Limiter {
    limits: Arc<Limits>,
    /// The largest that one memory can be in the engine's profile.
    memory_bytes_max: u64,
    memory_bytes: u64,
    table_elements: u64,
    /// The growth that was permitted last. If the engine fails at it, it reports that before it
    /// asks for another.
    pending: Pending,
    /// A growth was refused in this step: the likely cause of a trap after it.
    refused: bool,
}

/// The state of one budget: bytes or elements used, their limit, and the limit of a single item.
#[derive(Clone, Copy)]
struct Budget {
    used: u64,
    limit: u64,
    item_max: u64,
}

#[derive(Clone, Copy, Default)]
struct Pending {
    added: u64,
    beyond_type: bool,
}

/// The host could not give memory that the guest may have.
#[derive(Debug, thiserror::Error)]
#[error("the host cannot provide the memory that the guest may have: {0}")]
pub(crate) struct HostMemoryFault(String);

impl Limiter {
    pub(crate) fn new(limits: Arc<Limits>, memory_bytes_max: u64) -> Self {
        Self {
            limits,
            memory_bytes_max,
            memory_bytes: 0,
            table_elements: 0,
            pending: Pending::default(),
            refused: false,
        }
    }

    /// Takes over the counts of an instance's memories and tables from the limiter of its last
    /// guest.
    pub(crate) fn inherit(&mut self, last: &Self) {
        self.memory_bytes = last.memory_bytes;
        self.table_elements = last.table_elements;
    }

    /// Sets other limits, and returns those that held until now.
    pub(crate) fn replace_limits(&mut self, limits: Arc<Limits>) -> Arc<Limits> {
        std::mem::replace(&mut self.limits, limits)
    }

    /// Whether it has no more than its limits allow.
    pub(crate) fn is_within_limits(&self) -> bool {
        self.memory_bytes <= self.limits.memory_bytes && self.table_elements <= self.limits.table_elements
    }

    /// Forgets refusals of earlier steps.
    pub(crate) fn begin_step(&mut self) {
        self.refused = false;
    }

    /// Bytes of all memories now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Whether a growth was refused in this step.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }

    /// Permits a growth and returns its size, or refuses it.
    fn growing(&mut self, budget: Budget, current: usize, desired: usize, maximum: Option<usize>) -> Option<u64> {
        let added = (desired as u64).saturating_sub(current as u64);
        if budget.used.saturating_add(added) > budget.limit || desired as u64 > budget.item_max {
            self.refused = true;
            return None;
        }
        self.pending = Pending { added, beyond_type: maximum.is_some_and(|maximum| desired > maximum) };
        Some(added)
    }

    /// The engine failed at the growth that was permitted last. Returns what was counted for it.
    fn failed(&mut self, error: &wasmtime::Error) -> Result<u64, HostMemoryFault> {
        let pending = std::mem::take(&mut self.pending);
        if pending.beyond_type {
            self.refused = true;
            return Ok(pending.added);
        }
        Err(HostMemoryFault(format!("{error:#}")))
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, wasmtime::Error> {
        let budget =
            Budget { used: self.memory_bytes, limit: self.limits.memory_bytes, item_max: self.memory_bytes_max };
        let added = self.growing(budget, current, desired, maximum);
        self.memory_bytes += added.unwrap_or(0);
        Ok(added.is_some())
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> Result<(), wasmtime::Error> {
        self.memory_bytes -= self.failed(&error)?;
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, wasmtime::Error> {
        let item_max = TABLE_ELEMENTS_MAX as u64;
        let budget = Budget { used: self.table_elements, limit: self.limits.table_elements, item_max };
        let added = self.growing(budget, current, desired, maximum);
        self.table_elements += added.unwrap_or(0);
        Ok(added.is_some())
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> Result<(), wasmtime::Error> {
        self.table_elements -= self.failed(&error)?;
        Ok(())
    }
}
