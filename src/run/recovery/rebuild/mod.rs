//! Rebuilding a run from its records alone: its state by [`Projection`], and beside it its
//! processes, by stepping them again with the batches that they had. Nothing is decided here and
//! nothing leaves: decisions, times and endings are taken from the records.

mod records;

use super::bodies::Bodies;
use super::replaying::History;
use super::verify::Checks;
use crate::process::{
    Allocation, Answer, Body, Budget, Command, Event, Output, Pid, Problem, Program, Status, Tag, Timestamp,
};
use crate::run::record::former_keys::FormerKeys;
use crate::run::record::kinds::{Digest, Record, Started};
use crate::run::seam::effects::OutgoingCall;
use crate::run::state::config::Programs;
use crate::run::state::keys::NotedKeys;
use crate::run::state::projection::{Projected, Projection};
use crate::run::state::run_state::{Consequence, State};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Why a run cannot be rebuilt from its records.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The records do not follow from each other: some are missing, or in another order.
    #[error("record {record} does not follow from those before it: {why}")]
    Incoherent {
        /// The number of the record, from 1.
        record: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The run was of another root program than the one given.
    #[error("the records are of a run of {expected}, and this is {got}")]
    OtherRoot {
        /// The recorded digest.
        expected: Arc<str>,
        /// The digest of the given program.
        got: Arc<str>,
    },
    /// A program is not the one that the run began with.
    #[error("the run began with {name} of {expected}, and this is {got}")]
    OtherProgram {
        /// The name of its component.
        name: Arc<str>,
        /// The recorded digest.
        expected: Arc<str>,
        /// The digest of the given program, or a text that there is none.
        got: Arc<str>,
    },
    /// A step of a process gives something else than its record.
    #[error("process {pid} diverges in step {step}")]
    Diverged {
        /// The process that was stepped or made.
        pid: Pid,
        /// The number of the step, from 1.
        step: u64,
        /// The recorded digest.
        expected: Digest,
        /// The status and the commands that the process gave this time.
        got: Box<(Status, Vec<Command>)>,
    },
    /// A process ends, by a trap or a limit, but its record has commands. This host cannot repeat
    /// the step; that is no proof that the process diverges.
    #[error("process {pid} cannot be replayed by this host beyond step {step}")]
    CannotReplay {
        /// The process that was stepped or made.
        pid: Pid,
        /// The number of the step, from 1.
        step: u64,
        /// How it ended this time.
        #[source]
        problem: Box<Problem>,
    },
    /// A program is missing, or gives no body.
    #[error("process {pid} cannot be made")]
    Body {
        /// The process that was stepped or made.
        pid: Pid,
        /// The problem that the program gave.
        #[source]
        problem: Box<Problem>,
    },
    /// The processes that live at one time and cannot be evicted take more memory than there is
    /// outside the pool.
    #[error(
        "process {pid} has no room: {} of {bytes_max} bytes outside the pool are taken (`EngineOptions::on_demand_bytes`)",
        used
    )]
    NoRoom {
        /// The process that was stepped or made.
        pid: Pid,
        /// Bytes that are taken.
        used: u64,
        /// The whole budget.
        bytes_max: u64,
    },
}

/// A run that is being rebuilt, record by record.
pub struct Rebuild {
    root: Arc<dyn Program>,
    programs: Programs,
    only: Option<Pid>,
    /// Nothing is stepped: the steps are retained, to be replayed when their process is next
    /// stepped.
    retaining: bool,
    /// Other programs than those of the run are given on purpose.
    substituted: bool,
    /// The keys of all calls, if they are noted.
    noted_keys: Option<NotedKeys>,
    allocation: Allocation,
    /// The state, folded from the records.
    projection: Projection,
    bodies: Bodies,
    pasts: BTreeMap<Pid, History>,
    calls: BTreeMap<(Pid, Tag), Box<OutgoingCall>>,
    output: Output,
    /// Snapshots to compare on the way.
    pub(in crate::run) checks: Option<Checks>,
    /// Steps that were replayed.
    pub steps: u64,
    /// Steps among them that used another amount of fuel than recorded. It means nothing unless the
    /// engine is the same.
    pub fuel_differs: u64,
}

/// What a recovered run needs beside its state.
pub(in crate::run) struct Recovered {
    pub(in crate::run) pasts: BTreeMap<Pid, History>,
    pub(in crate::run) queues: BTreeMap<Pid, VecDeque<Event>>,
    /// The calls without an answer.
    pub(in crate::run) calls: BTreeMap<(Pid, Tag), Box<OutgoingCall>>,
    /// The greatest time in a record.
    pub(in crate::run) at: Timestamp,
}

impl Rebuild {
    /// Begins with no records; these are the programs of the run, or others to compare with them.
    #[must_use]
    pub fn new(root: Arc<dyn Program>, programs: Programs) -> Self {
        Self {
            root,
            programs,
            only: None,
            retaining: false,
            substituted: false,
            noted_keys: None,
            allocation: Allocation::Pool,
            projection: Projection::default(),
            bodies: Bodies::new(None),
            pasts: BTreeMap::new(),
            calls: BTreeMap::new(),
            output: Output::default(),
            checks: None,
            steps: 0,
            fuel_differs: 0,
        }
    }

    /// Replays only this process, which has a permit for an instance there; of the others only the
    /// state is rebuilt.
    #[must_use]
    pub fn only(mut self, pid: Pid, allocation: Allocation) -> Self {
        self.only = Some(pid);
        self.allocation = allocation;
        self
    }

    /// Sets whether the root's program may be another one than the run began with: its steps are
    /// compared all the same.
    #[must_use]
    pub fn substituted(mut self, substituted: bool) -> Self {
        self.substituted = substituted;
        self
    }

    /// Notes the keys of all calls, for a run that repeats this one.
    #[must_use]
    pub fn noting_keys(mut self) -> Self {
        self.noted_keys = Some(NotedKeys::default());
        self
    }

    /// The keys that were noted, for a run that repeats this one.
    #[must_use]
    pub fn former_keys(&self) -> FormerKeys {
        let both = self.projection.run().zip(self.noted_keys.as_ref());
        both.map(|(run, noted)| noted.former(&run.state)).unwrap_or_default()
    }

    /// The run as its records give it.
    #[must_use]
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// The place of a process in the workflow, and its component, if it has them.
    pub(in crate::run) fn place_of(&self, pid: Pid) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let entry = self.projection.run().and_then(|run| run.state.table.get(pid));
        entry.map_or((None, None), |entry| (entry.key_path.scope(), entry.component.clone()))
    }

    /// The body of a process that has been stepped and lives.
    pub(in crate::run) fn body_mut(&mut self, pid: Pid) -> Option<&mut (dyn Body + 'static)> {
        self.bodies.get_mut(pid)
    }

    /// Replays nothing, and retains what is needed to do so later.
    pub(in crate::run) fn retaining(mut self) -> Self {
        self.retaining = true;
        self
    }

    /// The state after the records, and what a run needs beside it to continue.
    pub(in crate::run) fn into_run(self) -> Option<(Started, State, Recovered)> {
        let Self { projection, pasts, calls, .. } = self;
        let Projected { started, state, queues, at } = projection.into_run()?;
        Some((started, state, Recovered { pasts, queues, calls, at }))
    }

    /// Makes all instances outside the pool, out of this budget. Otherwise they take slots that are
    /// not counted: for processes without instances.
    #[must_use]
    pub fn outside(mut self, budget: Arc<Budget>) -> Self {
        self.allocation = Allocation::OnDemand;
        self.bodies = Bodies::new(Some(budget));
        self
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// Fails if the record does not follow from those before it, or a process does not repeat it.
    pub fn apply(&mut self, record: &Record) -> Result<(), RebuildError> {
        self.projection.count();
        match record {
            Record::Started(started) => self.start(started)?,
            Record::Stepped(stepped) => self.step(stepped)?,
            Record::Died(died) => {
                self.projection.died(died)?;
                self.forget(died.pid);
            }
            Record::Arrived(arrived) => self.arrived(arrived)?,
            Record::Leaving { pid, tag } => self.projection.leaving(*pid, *tag)?,
            Record::Upgraded(upgraded) => self.projection.upgraded(upgraded)?,
        }
        self.projection.settle(|consequence| match consequence {
            Consequence::Call(call) => drop(self.calls.insert((call.pid, call.tag), call)),
            Consequence::Abandon { pid, tag } => drop(self.calls.remove(&(pid, tag))),
            _ => {}
        });
        Ok(())
    }

    /// Applies all of these.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_all(mut self, records: &[Record]) -> Result<Self, RebuildError> {
        records.iter().try_for_each(|record| self.apply(record))?;
        Ok(self)
    }

    /// The root's answer, once it and its attached descendants are gone.
    #[must_use]
    pub fn result(&self) -> Option<&Answer> {
        self.projection.run()?.state.result.as_ref()
    }

    /// Whether the run has ended with these records.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.projection.run().is_some_and(|run| run.state.is_finished())
    }

    /// The body of a process that lives, as it is after its last recorded step, and the events that
    /// it has not taken yet.
    #[must_use]
    pub fn into_body(mut self, pid: Pid) -> Option<(Box<dyn Body>, Vec<Event>)> {
        let body = self.bodies.remove(pid)?;
        let mut run = self.projection.into_run()?;
        Some((body, run.queues.remove(&pid).unwrap_or_default().into()))
    }
}

/// Rebuilds a run from all of its records.
///
/// # Errors
/// As [`Rebuild::apply`].
pub fn rebuild(records: &[Record], root: &Arc<dyn Program>, programs: &Programs) -> Result<Rebuild, RebuildError> {
    Rebuild::new(Arc::clone(root), programs.clone()).apply_all(records)
}
