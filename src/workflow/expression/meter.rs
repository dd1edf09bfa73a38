//! What several evaluations come to together.

use super::{EvalProblem, Size};
use std::cell::Cell;

/// Counts the evaluations of one value, which share [`EngineConfig::fuel_max`](super::EngineConfig::fuel_max): so many expressions do
/// not hold a thread longer than one does. It bounds how large the value becomes, too. For one thread, and for the time that filling in
/// the value takes.
#[derive(Debug)]
pub struct Meter {
    fuel: Cell<u64>,
    sandboxed: Cell<usize>,
    input_bytes: Cell<usize>,
    size: Cell<Size>,
    size_max: Size,
}

impl Default for Meter {
    fn default() -> Self {
        Self::within(Size::MAX)
    }
}

impl Meter {
    /// For a value of that size at most.
    #[must_use]
    pub fn within(size_max: Size) -> Self {
        Self { fuel: Cell::new(0), sandboxed: Cell::new(0), input_bytes: Cell::new(0), size: Cell::default(), size_max }
    }

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

    /// What was copied into the value, or would have been where it is too large.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size.get()
    }

    /// Asked before a part of the value is built.
    ///
    /// # Errors
    /// With it the value would be too large.
    pub fn take(&self, size: Size) -> Result<(), EvalProblem> {
        let size = self.size.get() + size;
        self.size.set(size);
        if size.fits(self.size_max) {
            return Ok(());
        }
        Err(EvalProblem::ValueTooLarge { bytes: self.size_max.bytes, values: self.size_max.values })
    }

    pub(super) fn begin(&self, input_bytes: usize) {
        self.sandboxed.set(self.sandboxed.get() + 1);
        self.input_bytes.set(self.input_bytes.get().saturating_add(input_bytes));
    }

    pub(super) fn used(&self, fuel: u64) {
        self.fuel.set(self.fuel.get().saturating_add(fuel));
    }
}
