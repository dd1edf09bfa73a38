//! Rebuilding a run from its records alone: its state without running any process, and its processes by stepping them again with the
//! batches that they had. Nothing is decided here and nothing leaves: decisions, times and endings are taken from the records.

mod records;

use super::bodies::Bodies;
use super::replaying::Past;
use super::verify::Checks;
use crate::process::{
    Allocation, Answer, Body, Budget, Command, Event, Micros, Output, Pid, Problem, Program, Status, Tag,
};
use crate::run::record::kinds::{Digest, Record, Started};
use crate::run::state::config::Programs;
use crate::run::state::keys::{FormerKeys, NotedKeys};
use crate::run::state::projection::{Projected, Projection};
use crate::run::state::run_state::{Departure, State};
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
    /// The run was of another root program than the one at hand.
    #[error("the records are of a run of {expected}, and this is {got}")]
    OtherRoot {
        /// The recorded digest.
        expected: Arc<str>,
        /// The digest of the program at hand.
        got: Arc<str>,
    },
    /// A program is not the one that the run began with.
    #[error("the run began with {name} of {expected}, and this is {got}")]
    OtherProgram {
        /// The name of its component.
        name: Arc<str>,
        /// The recorded digest.
        expected: Arc<str>,
        /// What is at hand: a digest, or that there is none.
        got: Arc<str>,
    },
    /// A process behaves otherwise than its record says.
    #[error("process {pid} diverges in step {step}")]
    Diverged {
        /// The process.
        pid: Pid,
        /// The step.
        step: u64,
        /// The recorded digest.
        expected: Digest,
        /// What the process gave this time.
        got: Box<(Status, Vec<Command>)>,
    },
    /// A process ends, by a trap or a limit, where its record has commands. This host cannot repeat what was; that is no proof that
    /// the process diverges.
    #[error("process {pid} cannot be replayed by this host beyond step {step}")]
    CannotReplay {
        /// The process.
        pid: Pid,
        /// The step.
        step: u64,
        /// How it ended this time.
        #[source]
        problem: Box<Problem>,
    },
    /// A program is missing, or gives no body.
    #[error("process {pid} cannot be made")]
    Body {
        /// The process.
        pid: Pid,
        /// Why.
        #[source]
        problem: Box<Problem>,
    },
    /// The processes that live at one time and cannot be evicted take more memory than there is outside the pool.
    #[error(
        "process {pid} has no room: {} of {bytes_max} bytes outside the pool are taken (`EngineOptions::on_demand_bytes`)",
        used
    )]
    NoRoom {
        /// The process.
        pid: Pid,
        /// Bytes that are taken.
        used: u64,
        /// All bytes.
        bytes_max: u64,
    },
}

/// A run that is being rebuilt, record by record.
pub struct Rebuild {
    root: Arc<dyn Program>,
    programs: Programs,
    only: Option<Pid>,
    /// Nothing is stepped: what the processes did is kept, to be done again when they are next stepped.
    keeping: bool,
    /// The programs are others on purpose.
    substituted: bool,
    /// The keys of all calls are noted.
    noted_keys: Option<NotedKeys>,
    allocation: Allocation,
    /// The state, folded from the records.
    projection: Projection,
    bodies: Bodies,
    pasts: BTreeMap<Pid, Past>,
    departures: BTreeMap<(Pid, Tag), Box<Departure>>,
    output: Output,
    /// Snapshots that are compared on the way.
    pub(in crate::run) checks: Option<Checks>,
    /// Steps that were executed again.
    pub steps: u64,
    /// Steps among them that used another amount of fuel than recorded. It means nothing unless the engine is the same.
    pub fuel_differs: u64,
}

/// What a run that is taken up needs beside its state.
pub(in crate::run) struct TakenUp {
    pub(in crate::run) pasts: BTreeMap<Pid, Past>,
    pub(in crate::run) queues: BTreeMap<Pid, VecDeque<Event>>,
    /// Calls that were asked for, by process and tag; the answered ones are no longer outstanding in the state.
    pub(in crate::run) departures: BTreeMap<(Pid, Tag), Box<Departure>>,
    /// The greatest time in a record.
    pub(in crate::run) at: Micros,
}

impl Rebuild {
    /// Nothing rebuilt yet; these are the programs of the run, or others that are to be compared with them.
    #[must_use]
    pub fn new(root: Arc<dyn Program>, programs: Programs) -> Self {
        Self {
            root,
            programs,
            only: None,
            keeping: false,
            substituted: false,
            noted_keys: None,
            allocation: Allocation::Pool,
            projection: Projection::default(),
            bodies: Bodies::new(None),
            pasts: BTreeMap::new(),
            departures: BTreeMap::new(),
            output: Output::default(),
            checks: None,
            steps: 0,
            fuel_differs: 0,
        }
    }

    /// Steps only this process, which has a permit for an instance there; of the others only the state is rebuilt.
    #[must_use]
    pub fn only(mut self, pid: Pid, allocation: Allocation) -> Self {
        (self.only, self.allocation) = (Some(pid), allocation);
        self
    }

    /// Whether the root's program is not the one that the run began with, and that is meant: what it does is compared all the same.
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

    /// The place of a process in the workflow, and its component, where it has them.
    pub(in crate::run) fn place_of(&self, pid: Pid) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let entry = self.projection.run().and_then(|run| run.state.table.get(pid));
        entry.map_or((None, None), |entry| (entry.place.scope(), entry.component.clone()))
    }

    /// The body of a process that has been stepped and lives.
    pub(in crate::run) fn body_mut(&mut self, pid: Pid) -> Option<&mut (dyn Body + 'static)> {
        self.bodies.get_mut(pid)
    }

    /// Steps nothing, and keeps what is needed to go on.
    pub(in crate::run) fn keeping(mut self) -> Self {
        self.keeping = true;
        self
    }

    /// The state after the records, and what a run needs beside it to go on.
    pub(in crate::run) fn into_run(self) -> Option<(Started, State, TakenUp)> {
        let Self { projection, pasts, departures, .. } = self;
        let Projected { started, state, queues, at } = projection.into_run()?;
        Some((started, state, TakenUp { pasts, queues, departures, at }))
    }

    /// Makes all instances outside the pool, out of this budget. Otherwise they take slots that nobody counts: for processes that have
    /// no instances.
    #[must_use]
    pub fn outside(mut self, budget: Arc<Budget>) -> Self {
        self.allocation = Allocation::OnDemand;
        self.bodies = Bodies::new(Some(budget));
        self
    }

    /// Takes up the next record.
    ///
    /// # Errors
    /// Where the record does not follow from those before it, or a process does not do what it says.
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
        }
        self.projection.settle(|departure| {
            self.departures.insert((departure.pid, departure.tag), departure);
        });
        Ok(())
    }

    /// Takes up all of these.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_all(mut self, records: &[Record]) -> Result<Self, RebuildError> {
        records.iter().try_for_each(|record| self.apply(record))?;
        Ok(self)
    }

    /// What the root came to, once it and its attached descendants are gone.
    #[must_use]
    pub fn result(&self) -> Option<&Answer> {
        self.projection.run()?.state.result.as_ref()
    }

    /// Whether the records tell the run's end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.projection.run().is_some_and(|run| run.state.is_finished())
    }

    /// The body of a process that lives, as it is after its last recorded step, and the events that it has not taken yet.
    #[must_use]
    pub fn into_body(mut self, pid: Pid) -> Option<(Box<dyn Body>, Vec<Event>)> {
        let body = self.bodies.remove(pid)?;
        let mut run = self.projection.into_run()?;
        Some((body, run.queues.remove(&pid).unwrap_or_default().into()))
    }
}

/// Rebuilds a run from all of its records, and says how many steps were executed again.
///
/// # Errors
/// Where a record does not follow from those before it, or a process does not do what it says.
pub fn rebuild(records: &[Record], root: &Arc<dyn Program>, programs: &Programs) -> Result<Rebuild, RebuildError> {
    Rebuild::new(Arc::clone(root), programs.clone()).apply_all(records)
}
