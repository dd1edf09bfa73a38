//! Upgrades: a run that has not ended goes on with another version of its workflow.
//!
//! An upgrade is a checked substitution. The whole history of the run is replayed on the version,
//! beside the run, which goes on meanwhile. If every step does the same, the run is held
//! ([`Kernel::hold`](crate::run::Kernel::hold)), and if it has no more records than were compared,
//! one transaction of the journal appends the record [`Upgraded`] and replaces what a host needs to
//! recover the run: its manifest, its components and its version. Then it is recovered
//! from its records, with the programs of the version. If it has moved, it is compared again.
//!
//! - **I1** A crash at any point leaves a run of the former version or of the new one: the record
//!   and the manifest are in one transaction.
//! - **I2** From the record on, the run is one of the new version: recovering, replaying, forking
//!   and retrying it need that one only.
//! - **I3** A run whose version is refused goes on as it was, and nothing of it has changed.
//!
//! That the history is the same says nothing about what comes: it is no proof that the version is
//! right from here on. What the run was begun with besides its workflow stays: inputs, limits, seed
//! and concurrency group. A snapshot of a component that has changed is not restored, by its key.
//!
//! *Rejected.* Appending the record like others, with the next manifest stored beside the present
//! one until the record is durable: two states more, and a recovery that decides between them.

use super::durable::OwnedRun;
use super::{DeployedVersion, Host, LoadError, RecoverError, ReplayOptions, RunManifest, Workflow};
use crate::journal::{RunUpgrade, StoreError};
use crate::process::Payload;
use crate::run::{
    Difference, HeldRun, NotHeld, RebuildError, Record, RecoverySpec, Replay, RunVersion, Started, Unrepeatable,
    Upgraded, system_time,
};
use crate::workflow::interpreter::RETRY;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the history of a run is replayed. Arbitrary.
const REPLAY_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a run that cannot be held is waited for, and how often it is tried. Arbitrary.
const HOLD_TIME_MAX: Duration = Duration::from_secs(5);
const HOLD_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How long a run that was let go for the change may have another owner. Arbitrary.
const OWNED_TIME_MAX: Duration = Duration::from_secs(1);

/// How often a run that has moved since it was compared is compared again. Arbitrary.
const COMPARED_MAX: usize = 10;

/// The outcome of an upgrade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Upgrade {
    /// The run is one of the version from this record on, which is durable.
    Done {
        /// The number of the record, from 1.
        record: u64,
    },
    /// The run is one of this version already.
    Unchanged,
}

/// Why a run is not upgraded. It goes on as it was, unless it says otherwise.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The run cannot be read.
    #[error(transparent)]
    Run(#[from] RecoverError),
    /// The run has ended.
    #[error("the run {0:?} has ended")]
    Ended(Arc<str>),
    /// A living host of another process owns the run.
    #[error("the run {0:?} belongs to a host that is running: upgrade it there")]
    Owned(Arc<str>),
    /// The run is of another workflow.
    #[error("it is a run of `{0}`")]
    OtherWorkflow(String),
    /// The run repeats another one: what it has taken over has no steps to compare.
    #[error("the run repeats another one: what it took over has no steps to compare")]
    TakenOver,
    /// The run was begun with inputs that do not fit the version.
    #[error("the run's inputs do not fit the version")]
    Inputs(Vec<(String, String)>),
    /// A step did something else than it does on the version.
    #[error("process {} does something else in step {} (record {})", .0.pid, .0.step, .0.record)]
    Differs(Box<Difference>),
    /// This host cannot repeat a step.
    #[error("process {} cannot be replayed beyond step {} (record {})", .0.pid, .0.step, .0.record)]
    CannotReplay(Box<Unrepeatable>),
    /// The records are not those of a run.
    #[error(transparent)]
    Records(#[from] RebuildError),
    /// Replaying it takes too long.
    #[error("replaying its {0} records takes longer than {time} seconds", time = REPLAY_TIME_MAX.as_secs())]
    TooLong(u64),
    /// The run cannot be held.
    #[error("the run is busy: {0}")]
    Busy(&'static str),
    /// The version's components cannot be stored.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It is not recovered after the change, or after the attempt: no host owns it.
    #[error("the run {} upgraded, and this host cannot go on with it: {why}", if *.is_upgraded { "is" } else { "is not" })]
    Unrecovered {
        /// Whether it is one of the version.
        is_upgraded: bool,
        /// The cause.
        why: String,
    },
}

crate::base::report_debug::report_debug!(UpgradeError);

impl From<StoreError> for UpgradeError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Owned { run, .. } => Self::Owned(run),
            StoreError::Ended(run) => Self::Ended(run),
            other => Self::Run(other.into()),
        }
    }
}

impl Host {
    /// Makes a durable run that has not ended one of another version of its workflow, if the
    /// version does the same in all of its records. When this returns, that is durable. The run may
    /// be in memory, parked, paused, or of no host.
    ///
    /// It waits on this thread: for the replay, and until no call of the run is at a handler.
    ///
    /// # Errors
    /// Says why the run is not upgraded.
    pub fn upgrade(
        &self,
        workflow: &Workflow,
        run: &str,
        version: Option<DeployedVersion>,
    ) -> Result<Upgrade, UpgradeError> {
        for _ in 0..COMPARED_MAX {
            let (_, journal) = self.opened()?;
            let manifest = journal.manifest(run)?;
            if manifest.name != *workflow.plan().name {
                return Err(UpgradeError::OtherWorkflow(manifest.name));
            }
            if journal.run(run)?.is_some_and(|stored| stored.status.is_some()) {
                return Err(UpgradeError::Ended(run.into()));
            }
            let next = RunManifest::upgraded(&manifest, workflow, version);
            let is_same = next.source == manifest.source && next.components == manifest.components;
            if is_same && (version.is_none() || next.notes == manifest.notes) {
                return Ok(Upgrade::Unchanged);
            }
            let records = journal.records(run)?;
            self.fits(workflow, &next, &manifest, &records)?;
            self.store_components(workflow)?;
            let upgrade = self.record_of(workflow, &records, &manifest, &next)?;
            if self.upgrade_held(workflow, run, &upgrade)? {
                return Ok(Upgrade::Done { record: upgrade.records + 1 });
            }
        }
        Err(UpgradeError::Busy("it goes on faster than it is compared; pause it first"))
    }

    /// Whether the version does what the records say.
    fn fits(
        &self,
        workflow: &Workflow,
        next: &RunManifest,
        manifest: &RunManifest,
        records: &[Record],
    ) -> Result<(), UpgradeError> {
        let Some(Record::Started(started)) = records.first() else {
            return Err(RebuildError::Incoherent { record: 1, why: "the run has not started" }.into());
        };
        if &*started.entry == RETRY && !manifest.has_text(&next.source, &next.components) {
            return Err(UpgradeError::TakenOver);
        }
        if &*started.entry != RETRY {
            check_inputs(workflow, started)?;
        }
        let until = Instant::now() + REPLAY_TIME_MAX;
        let mut is_late = false;
        let goes_on = || {
            is_late = Instant::now() >= until;
            !is_late
        };
        let options = ReplayOptions { until: None, substituted: true };
        match self.replay_while(workflow, records, options, goes_on, |_| {})? {
            Replay::Same { .. } if is_late => Err(UpgradeError::TooLong(records.len() as u64)),
            Replay::Same { .. } => Ok(()),
            Replay::Diverged(difference) => Err(UpgradeError::Differs(difference)),
            Replay::CannotReplay(at) => Err(UpgradeError::CannotReplay(at)),
        }
    }

    /// What the journal writes for an upgrade.
    fn record_of(
        &self,
        workflow: &Workflow,
        records: &[Record],
        before: &RunManifest,
        next: &RunManifest,
    ) -> Result<RunUpgrade, UpgradeError> {
        let Some(started) = records.first().and_then(Record::started) else {
            return Err(RebuildError::Incoherent { record: 1, why: "the run has not started" }.into());
        };
        let number = |manifest: &RunManifest| manifest.notes.version.map(|version| version.number);
        let programs = workflow.programs.iter();
        let upgraded = Upgraded {
            run: Arc::clone(&started.run),
            at: system_time(),
            from: RunVersion::of(started, number(before)),
            to: RunVersion {
                number: number(next),
                root: self.root_for(workflow, records).digest(),
                programs: programs.map(|(name, program)| (Arc::clone(name), program.digest())).collect(),
                grants: workflow.plan.grants(),
            },
        };
        let mut record = Vec::new();
        Record::Upgraded(Box::new(upgraded)).encode(&mut record);
        Ok(RunUpgrade {
            records: records.len() as u64,
            record: record.into(),
            manifest: next.to_text(),
            components: next.components.values().map(|hash| hash.as_str().into()).collect(),
            version: next.notes.version.map(|version| version.row),
        })
    }

    /// Holds the run and writes the upgrade. Returns false if the run has moved since it was
    /// compared.
    fn upgrade_held(&self, workflow: &Workflow, run: &str, upgrade: &RunUpgrade) -> Result<bool, UpgradeError> {
        let (_, journal) = self.opened()?;
        let until = Instant::now() + HOLD_TIME_MAX;
        loop {
            match self.shared.kernel.hold(run) {
                Ok(held) if held.records() != upgrade.records => return Ok(false),
                Ok(held) => return self.write_held(workflow, run, held, upgrade),
                Err(NotHeld::Unknown) => match journal.store().upgrade(run, upgrade) {
                    // It was recovered here meanwhile.
                    Err(StoreError::Owned { .. }) if self.shared.kernel.run(run).is_some() => return Ok(false),
                    upgraded => return Ok(upgraded?),
                },
                Err(NotHeld::Busy) if Instant::now() >= until => {
                    return Err(UpgradeError::Busy("a call of it is under way, or it waits for a place in its group"));
                }
                Err(NotHeld::Busy) => std::thread::sleep(HOLD_AGAIN_AFTER),
            }
        }
    }

    fn write_held(
        &self,
        workflow: &Workflow,
        run: &str,
        held: HeldRun,
        upgrade: &RunUpgrade,
    ) -> Result<bool, UpgradeError> {
        let (_, journal) = self.opened()?;
        let mut upgraded = Ok(false);
        let recovered = held.recover(|former| {
            upgraded = unless_owned(|| journal.store().upgrade(run, upgrade));
            let owned = unless_owned(|| match self.own_records(run) {
                Err(RecoverError::Journal(error)) => Err(error),
                owned => Ok(owned),
            });
            let owned = owned.map_err(RecoverError::from).and_then(|owned| owned);
            let OwnedRun { records, pending, log, .. } = owned.map_err(|error| error.to_string())?;
            let (root, programs) = match upgraded {
                Ok(true) => (self.root_for(workflow, &records), (*workflow.programs).clone()),
                _ => (former.root, former.programs),
            };
            let (effects, sink) = (former.effects, former.sink);
            let spec =
                RecoverySpec { root, programs, left: pending, unless_paused: false, log, effects, sink, watcher: None };
            Ok((spec, records))
        });
        match recovered {
            Ok(_) => Ok(upgraded?),
            Err(why) => Err(UpgradeError::Unrecovered { is_upgraded: matches!(upgraded, Ok(true)), why }),
        }
    }
}

/// Tries again while the journal says that somebody owns the run: another thread may look for runs
/// to resume, and lets go of one that the kernel has.
fn unless_owned<T>(mut act: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let until = Instant::now() + OWNED_TIME_MAX;
    loop {
        match act() {
            Err(StoreError::Owned { .. }) if Instant::now() < until => std::thread::sleep(HOLD_AGAIN_AFTER),
            done => return done,
        }
    }
}

/// Whether the run could have begun on the version with the inputs that it began with.
fn check_inputs(workflow: &Workflow, started: &Started) -> Result<(), UpgradeError> {
    let Payload::Json(inputs) = &started.input else { return Ok(()) };
    let Value::Object(mut inputs) = inputs.to_value() else { return Ok(()) };
    let declared = |name: &str| workflow.plan.inputs.0.iter().any(|input| input.name == name);
    // What the version does not declare, it does not read.
    inputs.retain(|name, _| declared(name));
    let complete = workflow.plan.inputs.accept(inputs.clone()).map_err(|violations| {
        UpgradeError::Inputs(violations.into_iter().map(|one| (one.pointer, one.message)).collect())
    })?;
    let added = complete.iter().filter(|(name, value)| !value.is_null() && inputs.get(*name) != Some(*value));
    let added: Vec<_> = added
        .map(|(name, _)| (format!("/{name}"), "the run began without it, and the version has a default".to_owned()))
        .collect();
    if added.is_empty() { Ok(()) } else { Err(UpgradeError::Inputs(added)) }
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
