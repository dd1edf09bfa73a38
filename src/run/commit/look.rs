//! What whoever steers a run from outside sees of it.

use super::handle::RunHandle;

impl RunHandle {
    /// Whether an operator has stopped it.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.with(|_, inner| inner.state.paused.is_some()).unwrap_or_default()
    }
}
