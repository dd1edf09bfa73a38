//! Fuel for what the host does within a step.
//!
//! A guest that only calls the host uses little fuel of its own: a `log` is a dozen instructions,
//! whatever the host has to do for it. So host functions charge fuel too, by their work. The engine
//! knows only one way to take fuel from a store, and that restarts the running slice. Therefore the
//! debt accumulates beside the store, and is paid when it amounts to a slice: then the step is
//! suspended, as if the guest had used the slice up itself.

/// Fuel that a guest owes for what the host did for it.
#[derive(Debug, Default)]
pub(crate) struct HostWork {
    owed: u64,
    slice_fuel: u64,
}

impl HostWork {
    pub(crate) fn new(slice_fuel: u64) -> Self {
        Self { owed: 0, slice_fuel }
    }

    /// Adds work to the debt.
    pub(crate) fn charge(&mut self, fuel: u64) {
        self.owed = self.owed.saturating_add(fuel);
    }

    /// The debt.
    pub(crate) fn owed(&self) -> u64 {
        self.owed
    }

    /// Returns the debt and clears it.
    pub(crate) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.owed)
    }

    /// Whether the debt amounts to a slice.
    pub(crate) fn is_due(&self) -> bool {
        self.owed >= self.slice_fuel
    }
}
