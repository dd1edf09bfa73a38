//! What becomes of the records of a host's runs, as those hear it who must.

use crate::journal::{DurabilityListener, StoreError};
use crate::process::{Problem, ProblemClass, problem::kind};
use crate::run::Kernel;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// What happens to the folder of durable runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StorageNotice {
    /// The disk is full. Steps in their middle go on to their end, no step begins, and nothing leaves the host.
    Full,
    /// There is room again, and the host goes on.
    Room,
    /// A part of the journal was damaged or gone when it was opened, and the last that was written before is not in it. What there was of that
    /// part is kept in that file.
    Torn(PathBuf),
    /// The folder was in use, and its journal, this file, is gone: a new one was begun.
    Anew(PathBuf),
    /// The journal cannot be written any more: nothing leaves the host from now on, and its durable runs can be taken up by another one.
    Failed(StoreError),
}

/// Who hears of the folder.
pub(super) trait StorageWatcher: Fn(&StorageNotice) + Send + Sync {}
impl<F: Fn(&StorageNotice) + Send + Sync> StorageWatcher for F {}

/// Tells the runs of a host what became of their records.
pub(super) struct KernelListener {
    pub(super) kernel: Weak<Kernel>,
    pub(super) watcher: Option<Arc<dyn StorageWatcher>>,
}

impl KernelListener {
    fn tell(&self, news: &StorageNotice) {
        if let Some(watcher) = &self.watcher {
            watcher(news);
        }
    }
}

impl DurabilityListener for KernelListener {
    fn durable(&self, run: &str, record: u64) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.durable(run, record);
        }
    }

    fn lost(&self, run: &str, error: &StoreError) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.abandon_run(
                run,
                &Problem::new(kind::RUN_TAKEN, "The run is another host's")
                    .with_detail(error.to_string())
                    .with_class(ProblemClass::Uncertain),
            );
        }
    }

    fn full(&self, is_full: bool) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.stall(is_full);
        }
        self.tell(if is_full { &StorageNotice::Full } else { &StorageNotice::Room });
    }

    fn torn(&self, kept: &Path) {
        self.tell(&StorageNotice::Torn(kept.to_owned()));
    }

    fn recreated(&self, path: &Path) {
        self.tell(&StorageNotice::Anew(path.to_owned()));
    }

    fn failed(&self, error: &StoreError) {
        // Who watches hears the cause before the runs' waiters hear that they are lost.
        self.tell(&StorageNotice::Failed(error.clone()));
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.abandon(
                &Problem::new(kind::JOURNAL_FAILED, "The journal cannot be written any more")
                    .with_detail(error.to_string())
                    .with_class(ProblemClass::Uncertain),
            );
        }
    }
}
