//! The way from outside the workers (answers, signals, cancels) to the scheduler.

use crate::run::{Kernel, Ports};
use crate::scheduler::{Handle, Port};
use parking_lot::RwLock;
use std::sync::Arc;

/// A handle of the scheduler that is taken away when the host goes: a commit point that held the
/// handle itself would keep itself alive.
#[derive(Clone, Default)]
pub(super) struct SchedulerPort(Arc<RwLock<Option<Handle<Kernel>>>>);

impl SchedulerPort {
    pub(super) fn open(&self, handle: Handle<Kernel>) {
        *self.0.write() = Some(handle);
    }

    pub(super) fn close(&self) {
        *self.0.write() = None;
    }
}

impl Ports for SchedulerPort {
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>)) {
        // The lock is released first: `act` may come back here.
        let handle = self.0.read().clone();
        if let Some(mut handle) = handle {
            act(&mut handle);
        }
    }
}
