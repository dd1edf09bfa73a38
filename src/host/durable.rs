//! Durable runs: where they are written, and taking them up.
#![cfg(feature = "sqlite")]

use super::{Host, LoadError, RunHandle, RunOptions, Workflow};
use crate::journal::{Durables, NewRun, Sqlite, StoreError, Stored};
use crate::process::{Micros, Problem, ProblemClass, problem::kind};
use crate::run::{Kernel, Log, Record, ResumeError, ResumeSpec};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

/// The durable runs of a folder.
pub struct Journal(Sqlite);

/// Why a run is not taken up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeUpError {
    /// The journal has no such run, or does not give it.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// A record cannot be read.
    #[error("record {number} of the run is damaged")]
    Damaged {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        #[source]
        why: crate::run::Damaged,
    },
    /// It has ended, or is of another workflow.
    #[error(transparent)]
    Run(#[from] ResumeError),
    /// The host was built without a folder for durable runs.
    #[error("the host has no folder for durable runs")]
    NoJournal,
}

/// Tells the runs of a host what became of their records.
struct Told(Weak<Kernel>);

impl Durables for Told {
    fn durable(&self, run: &str, record: u64) {
        if let Some(kernel) = self.0.upgrade() {
            kernel.durable(run, record);
        }
    }

    fn failed(&self, error: &StoreError) {
        if let Some(kernel) = self.0.upgrade() {
            kernel.abandon(
                &Problem::new(kind::JOURNAL_FAILED, "The journal cannot be written any more")
                    .with_detail(error.to_string())
                    .with_class(ProblemClass::Uncertain),
            );
        }
    }
}

impl Journal {
    pub(super) fn open(folder: PathBuf, kernel: &Arc<Kernel>) -> Result<Self, StoreError> {
        Sqlite::open(folder, Arc::new(Told(Arc::downgrade(kernel)))).map(Self)
    }

    /// The unfinished runs, the oldest first.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn unfinished(&self) -> Result<Vec<Stored>, StoreError> {
        self.0.unfinished()
    }

    /// A run.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn run(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        self.0.run(id)
    }
}

impl Host {
    /// The durable runs of the host's folder; none where it was built without one.
    pub fn journal(&self) -> Option<&Journal> {
        self.shared.journal.as_ref()
    }

    /// The log of a run that is to be durable.
    pub(super) fn log(&self, id: &Arc<str>, about: &Value) -> Result<Box<dyn Log>, LoadError> {
        let Journal(store) = self.journal().ok_or(LoadError::NoJournal)?;
        let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(Micros(0), Micros::from);
        let run = NewRun { id: Arc::clone(id), created, about: about.to_string() };
        store.begin(&run).map_err(|error| match error {
            StoreError::Exists(id) | StoreError::Owned(id) => LoadError::Exists { id: id.to_string() },
            error => LoadError::Journal(error),
        })
    }

    /// Takes up a durable run of this workflow whose host is gone. Its guests do again what they did when they are next stepped; no call is
    /// made twice but under its key.
    ///
    /// # Errors
    /// There is no such run, it has ended, a living host has it, or it was one of another workflow or of other components.
    pub fn resume(&self, workflow: &Workflow, id: &str, options: RunOptions) -> Result<RunHandle, TakeUpError> {
        let Journal(store) = self.journal().ok_or(TakeUpError::NoJournal)?;
        let taken = store.take_up(id)?;
        let decode = |(at, bytes)| Record::decode(bytes).map_err(|why| TakeUpError::Damaged { number: at + 1, why });
        let records = taken.records.into_iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
        let spec = ResumeSpec {
            root: self.root(workflow),
            programs: (*workflow.programs).clone(),
            log: taken.log,
            effects: Arc::clone(&self.shared.dispatcher) as _,
            sink: options.sink,
        };
        Ok(RunHandle { run: self.shared.kernel.resume(spec, &records)? })
    }
}
