//! Where a run is, for its handles: in memory, or parked.

use crate::run::commit::handle::RunHandle;
use crate::run::commit::kernel::Kernel;
use crate::run::commit::observe::Once;
use crate::run::commit::run::{Inner, Run};
use crate::run::state::events::Outcome;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The outcome of a run, for those who wait. It is the same one however often the run is parked and
/// recovered.
pub(in crate::run) type Outcomes = Once<Arc<Outcome>>;

/// Where a run is, shared by its handles.
pub(in crate::run) struct Residence {
    pub(in crate::run) id: Arc<str>,
    pub(in crate::run) kernel: Kernel,
    pub(in crate::run) outcome: Arc<Outcomes>,
    /// `None` if it was parked when a handle last asked. Only an optimisation: [`Inner::parked`] is
    /// what counts. A leaf among locks.
    run: Mutex<Option<Arc<Run>>>,
}

impl Residence {
    /// The residence of a run that is parked.
    pub(in crate::run) fn parked(id: Arc<str>, kernel: Kernel, outcome: Arc<Outcomes>) -> Arc<Self> {
        Arc::new(Self { id, kernel, outcome, run: Mutex::default() })
    }

    /// The residence of a run in memory.
    pub(in crate::run) fn of(run: Arc<Run>) -> Arc<Self> {
        let mut known = run.residence.lock();
        if let Some(residence) = known.upgrade() {
            return residence;
        }
        let residence = Arc::new(Self {
            id: Arc::clone(&run.config.id),
            kernel: run.kernel.clone(),
            outcome: Arc::clone(&run.outcome),
            run: Mutex::new(Some(Arc::clone(&run))),
        });
        *known = Arc::downgrade(&residence);
        residence
    }

    /// Forgets a run that was parked.
    pub(in crate::run) fn release(residence: &Weak<Self>, run: &Arc<Run>) {
        if let Some(residence) = residence.upgrade() {
            residence.forget(run);
        }
    }

    fn forget(&self, run: &Arc<Run>) {
        let former = self.run.lock().take_if(|known| Arc::ptr_eq(known, run));
        drop(former);
    }
}

impl RunHandle {
    /// Returns the run. A parked one is recovered, which waits for a disk. `None` if it has ended
    /// meanwhile, or could not be recovered, as its outcome says.
    pub(in crate::run) fn run(&self) -> Option<Arc<Run>> {
        if let Some(run) = &*self.0.run.lock() {
            return Some(Arc::clone(run));
        }
        let (kernel, id) = (&self.0.kernel, &self.0.id);
        let run = kernel.wake(id).or_else(|| kernel.wake_gone(id))?;
        let former = self.0.run.lock().replace(Arc::clone(&run));
        drop(former);
        Some(run)
    }

    /// Forgets a run that was found parked: the next caller recovers it.
    pub(in crate::run) fn was_parked(&self, run: &Arc<Run>) {
        self.0.forget(run);
    }

    /// Reads the run, or changes it by something that posts nothing. `None` as in [`Self::run`].
    pub(in crate::run) fn with<R>(&self, read: impl FnOnce(&Arc<Run>, &mut Inner) -> R) -> Option<R> {
        loop {
            let run = self.run()?;
            let mut inner = run.inner.lock();
            if !inner.parked {
                return Some(read(&run, &mut inner));
            }
            drop(inner);
            self.was_parked(&run);
        }
    }
}
