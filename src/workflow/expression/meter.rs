//! Counts several evaluations together.

use super::{EvalProblem, Size};
use std::cell::Cell;

/// Counts the evaluations of one value. They share
/// [`EngineConfig::fuel_max`](super::EngineConfig::fuel_max), so that many expressions hold a
/// thread no longer than one. It also bounds the size of the value. A meter serves one thread,
/// while one value is evaluated.
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
    /// Makes a meter for a value of at most that size.
    #[must_use]
    pub fn within(size_max: Size) -> Self {
        Self { fuel: Cell::new(0), sandboxed: Cell::new(0), input_bytes: Cell::new(0), size: Cell::default(), size_max }
    }

    /// Units of fuel used. The number varies slightly with the history of the instances.
    #[must_use]
    pub fn fuel(&self) -> u64 {
        self.fuel.get()
    }

    /// Evaluations in the sandbox. Plain paths and literals are not counted.
    #[must_use]
    pub fn sandboxed(&self) -> usize {
        self.sandboxed.get()
    }

    /// Bytes of JSON passed to the sandbox.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input_bytes.get()
    }

    /// The size of what was copied into the value, or would have been if it was too large.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size.get()
    }

    /// Counts a part of the value before it is built.
    ///
    /// # Errors
    /// Fails if the part would make the value too large.
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
