//! Reports on the folder of durable runs, to the runs and to a watcher.

use super::durable_watch::DurableWatchers;
use super::groups::Groups;
use crate::journal::{DurabilityListener, Place, StoreError};
use crate::process::{Problem, ProblemClass, problem::kind};
use crate::run::Kernel;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// A change of the folder of durable runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StorageNotice {
    /// The disk is full. Steps that have begun run to their end, no step begins, and nothing leaves
    /// the host.
    Full,
    /// There is room again, and the host continues.
    Room,
    /// A part of the journal was damaged or gone when it was opened, and the latest writes are not
    /// in it. This file holds what remained of that part.
    Torn(PathBuf),
    /// The folder was in use, and its journal, this file, is gone: a new one was made.
    Recreated(PathBuf),
    /// The journal cannot be written any more: nothing leaves the host from now on, and another
    /// host can recover its durable runs.
    Failed(StoreError),
}

/// Receives notices about the folder.
pub(super) trait StorageWatcher: Fn(&StorageNotice) + Send + Sync {}
impl<F: Fn(&StorageNotice) + Send + Sync> StorageWatcher for F {}

/// Reports to the runs of a host which of their records are durable.
pub(super) struct KernelListener {
    pub(super) kernel: Weak<Kernel>,
    pub(super) watcher: Option<Arc<dyn StorageWatcher>>,
    pub(super) durable: Arc<DurableWatchers>,
    pub(super) groups: Arc<Groups>,
}

impl KernelListener {
    fn notify(&self, notice: &StorageNotice) {
        if let Some(watcher) = &self.watcher {
            watcher(notice);
        }
    }
}

impl DurabilityListener for KernelListener {
    fn durable(&self, run: &str, record: u64) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.durable(run, record);
        }
        self.durable.notify(run, record);
    }

    fn placed(&self, run: &str, place: Place) {
        self.groups.placed(run, place);
    }

    fn group_changed(&self, group: &Arc<str>) {
        self.groups.asked(group);
    }

    fn lost(&self, run: &str, error: &StoreError) {
        let is_refused = matches!(error, StoreError::NoPlace { .. } | StoreError::QueueFull { .. });
        if is_refused {
            self.groups.refuse(run, error);
        }
        if let Some(kernel) = self.kernel.upgrade() {
            if is_refused {
                let problem = Problem::new(kind::NO_PLACE, "The run's concurrency group has no place for it");
                return kernel.abandon_run(run, &problem.with_detail(error.to_string()));
            }
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
        self.notify(if is_full { &StorageNotice::Full } else { &StorageNotice::Room });
    }

    fn torn(&self, retained: &Path) {
        self.notify(&StorageNotice::Torn(retained.to_owned()));
    }

    fn recreated(&self, path: &Path) {
        self.notify(&StorageNotice::Recreated(path.to_owned()));
    }

    fn failed(&self, error: &StoreError) {
        // The watcher gets the cause before the callers that wait for runs are notified.
        self.notify(&StorageNotice::Failed(error.clone()));
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.abandon(
                &Problem::new(kind::JOURNAL_FAILED, "The journal cannot be written any more")
                    .with_detail(error.to_string())
                    .with_class(ProblemClass::Uncertain),
            );
        }
    }
}
