//! What several evaluations come to together.

use std::cell::Cell;

/// Counts the evaluations of one value, which share [`EngineConfig::fuel_max`](super::EngineConfig::fuel_max): so many expressions do
/// not hold a thread longer than one does. For one thread, and for the time that filling in the value takes.
#[derive(Default, Debug)]
pub struct Meter {
    fuel: Cell<u64>,
    sandboxed: Cell<usize>,
    input_bytes: Cell<usize>,
}

impl Meter {
    /// Units of fuel that were used. They differ a little with what the instances did before.
    #[must_use]
    pub fn fuel(&self) -> u64 {
        self.fuel.get()
    }

    /// Evaluations in the sandbox. Those of plain paths and literals are not counted.
    #[must_use]
    pub fn sandboxed(&self) -> usize {
        self.sandboxed.get()
    }

    /// Bytes of JSON that the sandbox was given.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input_bytes.get()
    }

    pub(super) fn begin(&self, input_bytes: usize) {
        self.sandboxed.set(self.sandboxed.get() + 1);
        self.input_bytes.set(self.input_bytes.get().saturating_add(input_bytes));
    }

    pub(super) fn used(&self, fuel: u64) {
        self.fuel.set(self.fuel.get().saturating_add(fuel));
    }
}
