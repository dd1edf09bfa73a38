//! Rebuilding a run from its records alone: its state without running any process, and its processes by stepping them again with the
//! batches that they had. Nothing is decided here and nothing leaves: decisions, times and endings are taken from the records.

use super::bodies::Bodies;
use super::exit::answer_of;
use super::fixed::Programs;
use super::news::Unwanted;
use super::past::{Past, PastStep};
use super::record::{Arrived, Decided, Decision, Died, Digest, News, Record, Started, Stepped};
use super::state::{Consequence, Departure, Moment, Post, State, Took};
use super::table::Waits;
use super::verify::Checks;
use crate::process::{
    Action, Answer, Birth, Body, Budget, Command, Death, Event, Home, Micros, Output, Payload, Pid, Problem, Program,
    Progress, Status, Tag,
};
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
    home: Home,
    /// What the instances are taken from; none where their one process has a permit already.
    budget: Option<Arc<Budget>>,
    run: Option<Rebuilding>,
    records: u64,
    output: Output,
    /// Snapshots that are compared on the way.
    pub(super) checks: Option<Checks>,
    /// Steps that were executed again.
    pub steps: u64,
    /// Steps among them that used another amount of fuel than recorded. It means nothing unless the engine is the same.
    pub fuel_differs: u64,
}

struct Rebuilding {
    started: Started,
    state: State,
    queues: BTreeMap<Pid, VecDeque<Event>>,
    bodies: Bodies,
    taken_up: TakenUp,
}

/// What a run that is taken up needs beside its state.
#[derive(Default)]
pub(super) struct TakenUp {
    pub(super) pasts: BTreeMap<Pid, Past>,
    pub(super) queues: BTreeMap<Pid, VecDeque<Event>>,
    /// Calls that were asked for, by process and tag; the answered ones are no longer outstanding in the state.
    pub(super) departures: BTreeMap<(Pid, Tag), Box<Departure>>,
    /// The greatest time in a record.
    pub(super) at: Micros,
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
            home: Home::Pool,
            budget: None,
            run: None,
            records: 0,
            output: Output::default(),
            checks: None,
            steps: 0,
            fuel_differs: 0,
        }
    }

    /// Steps only this process, which has a permit for an instance there; of the others only the state is rebuilt.
    #[must_use]
    pub fn only(mut self, pid: Pid, home: Home) -> Self {
        (self.only, self.home) = (Some(pid), home);
        self
    }

    /// The root's program is not the one that the run began with, and that is meant: what it does is compared all the same.
    #[must_use]
    pub fn substituted(mut self) -> Self {
        self.substituted = true;
        self
    }

    /// The place of a process in the workflow, and its component, where it has them.
    pub(super) fn place_of(&self, pid: Pid) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let entry = self.run.as_ref().and_then(|run| run.state.table.get(pid));
        entry.map_or((None, None), |entry| (entry.place.scope(), entry.component.clone()))
    }

    /// The body of a process that has been stepped and lives.
    pub(super) fn body_mut(&mut self, pid: Pid) -> Option<&mut (dyn Body + 'static)> {
        self.run.as_mut()?.bodies.get_mut(pid)
    }

    /// What the run began with.
    pub(super) fn started(&self) -> Option<&Started> {
        self.run.as_ref().map(|run| &run.started)
    }

    /// Steps nothing, and keeps what is needed to go on.
    pub(super) fn keeping(mut self) -> Self {
        self.keeping = true;
        self
    }

    /// The state after the records, and what a run needs beside it to go on.
    pub(super) fn into_run(self) -> Option<(Started, State, TakenUp)> {
        let Rebuilding { started, state, queues, mut taken_up, .. } = self.run?;
        taken_up.queues = queues;
        Some((started, state, taken_up))
    }

    /// Makes all instances outside the pool, out of this budget. Otherwise they take slots that nobody counts: for processes that have
    /// no instances.
    #[must_use]
    pub fn outside(mut self, budget: Arc<Budget>) -> Self {
        (self.home, self.budget) = (Home::OnDemand, Some(budget));
        self
    }

    /// Takes up the next record.
    ///
    /// # Errors
    /// Where the record does not follow from those before it, or a process does not do what it says.
    pub fn apply(&mut self, record: &Record) -> Result<(), RebuildError> {
        self.records += 1;
        match record {
            Record::Started(started) => self.start(started)?,
            Record::Stepped(stepped) => self.step(stepped)?,
            Record::Died(died) => self.died(died)?,
            Record::Arrived(arrived) => self.arrived(arrived)?,
            Record::Leaving { pid, tag } => self.running("the run has not started")?.state.leave(*pid, *tag),
        }
        if let Some(run) = &mut self.run {
            run.state.counts.records = self.records;
            run.deliver();
            if run.started.origin.as_ref().is_some_and(|origin| origin.held.contains(&self.records)) {
                run.state.fork();
            }
        }
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
        self.run.as_ref()?.state.result.as_ref()
    }

    /// Whether the records tell the run's end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.state.is_finished())
    }

    /// The body of a process that lives, as it is after its last recorded step, and the events that it has not taken yet.
    #[must_use]
    pub fn into_body(self, pid: Pid) -> Option<(Box<dyn Body>, Vec<Event>)> {
        let mut run = self.run?;
        let body = run.bodies.remove(pid)?;
        Some((body, run.queues.remove(&pid).unwrap_or_default().into()))
    }

    fn incoherent(&self, why: &'static str) -> RebuildError {
        RebuildError::Incoherent { record: self.records, why }
    }

    fn running(&mut self, why: &'static str) -> Result<&mut Rebuilding, RebuildError> {
        let record = self.records;
        self.run.as_mut().ok_or(RebuildError::Incoherent { record, why })
    }

    fn start(&mut self, started: &Started) -> Result<(), RebuildError> {
        if self.run.is_some() {
            return Err(self.incoherent("the run has started already"));
        }
        let (expected, got) = (Arc::clone(&started.root), self.root.digest());
        if expected != got && !self.substituted {
            return Err(RebuildError::OtherRoot { expected, got });
        }
        let run = Rebuilding {
            started: started.clone(),
            state: State::new(started),
            queues: BTreeMap::new(),
            bodies: Bodies::new(self.budget.clone()),
            taken_up: TakenUp { at: started.at, ..TakenUp::default() },
        };
        self.run = Some(run);
        self.embody(Pid::ROOT, Tag(1), &started.entry, &started.input)
    }

    /// Makes the body of a process that is in the table.
    fn embody(&mut self, pid: Pid, next_tag: Tag, entry: &Arc<str>, input: &Payload) -> Result<(), RebuildError> {
        if self.only.is_some_and(|only| only != pid) {
            return Ok(());
        }
        let run = self.run.as_mut().expect("invariant: the run has started");
        let known = &run.state.table[pid];
        let program = match &known.component {
            None => &self.root,
            Some(name) => self.programs.get(name).ok_or_else(|| RebuildError::Body {
                pid,
                problem: Box::new(
                    Problem::new(crate::process::problem::kind::UNKNOWN_COMPONENT, "The component is not at hand")
                        .with_detail(&**name),
                ),
            })?,
        };
        let birth = Birth {
            run: Arc::clone(run.started.seen_as()),
            pid,
            seed: run.started.seed,
            entry: Arc::clone(entry),
            input: input.clone(),
            limits: Arc::clone(&known.limits),
            grants: known.grants.clone(),
            next_tag,
        };
        if self.keeping {
            let past = Past { program: Arc::clone(program), birth, steps: VecDeque::new() };
            run.taken_up.pasts.insert(pid, past);
            return Ok(());
        }
        let bytes = program.permit().within(&known.limits).bytes;
        let mut body = program.body(birth).map_err(|problem| RebuildError::Body { pid, problem: Box::new(problem) })?;
        body.house(self.home);
        run.bodies.insert(pid, body, bytes);
        Ok(())
    }

    fn step(&mut self, stepped: &Stepped) -> Result<(), RebuildError> {
        let Stepped { pid, step, at, took, .. } = *stepped;
        let record = self.records;
        let incoherent = move |why| RebuildError::Incoherent { record, why };
        let run = self.running("the run has not started")?;
        let known = run.state.living(pid).ok_or(incoherent("the process that stepped does not live"))?;
        if known.steps + 1 != step {
            return Err(incoherent("the process has taken another number of steps"));
        }
        let stays = matches!(known.waits, Waits::Blocked | Waits::Idle) && took == 0;
        let queue = run.queues.entry(pid).or_default();
        if stays || queue.len() < took as usize {
            return Err(incoherent("the process took events that it was not sent"));
        }
        let mut events: Vec<Event> = queue.drain(..took as usize).collect();
        let taken = Took::of(&events);
        self.execute(stepped, &mut events)?;

        let run = self.run.as_mut().expect("invariant: the run has started");
        let moment = Moment { at, mono: at };
        let last = stepped.decided.last().map(|decided| decided.command.tag);
        run.state.take(pid, taken, stepped.fuel, last);
        for Decided { command, decision } in &stepped.decided {
            let state = &mut self.running("the run has not started")?.state;
            if matches!(decision, Decision::Spawned(child) if *child != state.next_pid()) {
                return Err(incoherent("a child's pid is not the next of the run"));
            }
            state.apply(pid, moment, command.clone(), decision.clone());
            if let (Action::Spawn(spawn), Decision::Spawned(child)) = (&command.action, decision) {
                self.embody(*child, Tag(1), &spawn.entry, &spawn.input)?;
            }
        }
        let run = self.run.as_mut().expect("invariant: the run has started");
        run.state.apply_status(moment, pid, stepped.status.clone());
        match &stepped.status {
            Status::Renew { entry, input } => {
                let next_tag = Tag(run.state.table[pid].last_tag.0 + 1);
                // One that cannot be made anew has its end in the next record.
                match self.embody(pid, next_tag, entry, input) {
                    Err(RebuildError::Body { .. }) | Ok(()) => {}
                    Err(other) => return Err(other),
                }
            }
            Status::Complete(_) | Status::Failed(_) => run.forget(pid),
            _ => {}
        }
        Ok(())
    }

    /// Steps the process again and compares.
    fn execute(&mut self, stepped: &Stepped, events: &mut Vec<Event>) -> Result<(), RebuildError> {
        let Stepped { pid, step, at, .. } = *stepped;
        let run = self.run.as_mut().expect("invariant: the run has started");
        run.taken_up.at = run.taken_up.at.max(at);
        if let Some(past) = run.taken_up.pasts.get_mut(&pid) {
            let events = std::mem::take(events);
            past.steps.push_back(PastStep { number: step, at, events, digest: stepped.digest });
        }
        if !run.bodies.contains(pid) {
            return Ok(());
        }
        let body = run.bodies.step(pid).map_err(|budget| RebuildError::NoRoom {
            pid,
            used: budget.used(),
            bytes_max: budget.bytes_max(),
        })?;
        self.output.clear();
        body.begin(at, events);
        let status = loop {
            match body.poll(&mut self.output) {
                Progress::Preempted => {}
                Progress::Stepped(status) => break status,
                Progress::Died(Death::Guest(problem) | Death::Host(problem)) => {
                    return Err(RebuildError::CannotReplay { pid, step, problem: Box::new(problem) });
                }
            }
        };
        self.steps += 1;
        self.fuel_differs += u64::from(self.output.fuel != stepped.fuel);
        if Digest::of_step(&status, &self.output.commands) != stepped.digest {
            let got = Box::new((status, std::mem::take(&mut self.output.commands)));
            return Err(RebuildError::Diverged { pid, step, expected: stepped.digest, got });
        }
        if let Some(checks) = &mut self.checks {
            checks.stepped(pid, step, body);
        }
        Ok(())
    }

    fn died(&mut self, died: &Died) -> Result<(), RebuildError> {
        let missing = self.incoherent("the process that died does not live");
        let run = self.running("the run has not started")?;
        if run.state.living(died.pid).is_none() {
            return Err(missing);
        }
        let moment = Moment { at: died.at, mono: died.at };
        run.taken_up.at = run.taken_up.at.max(died.at);
        run.state.exit(moment, died.pid, died.ending.clone(), answer_of(&died.ending));
        run.forget(died.pid);
        Ok(())
    }

    fn arrived(&mut self, arrived: &Arrived) -> Result<(), RebuildError> {
        let Arrived { at, act, news } = arrived;
        let (at, record) = (*at, self.records);
        let unwanted = self.incoherent("nobody waits for what arrived");
        let run = self.running("the run has not started")?;
        match run.state.wants(news) {
            Ok(()) => {}
            Err(Unwanted::Idle) if act.is_some() => {}
            Err(_) => return Err(unwanted),
        }
        if let Some(act) = act {
            run.state.acts.remember(act.clone(), record);
        }
        run.taken_up.at = run.taken_up.at.max(at);
        if let News::Answered { pid, tag, .. } = news {
            run.taken_up.departures.remove(&(*pid, *tag));
        }
        run.state.apply_news(Moment { at, mono: at }, news.clone());
        Ok(())
    }
}

impl Rebuilding {
    /// Lets go of what belongs to a process that has ended.
    fn forget(&mut self, pid: Pid) {
        drop(self.bodies.remove(pid));
        self.queues.remove(&pid);
        self.taken_up.pasts.remove(&pid);
    }

    /// Puts what was posted into the queues.
    fn deliver(&mut self) {
        for consequence in std::mem::take(&mut self.state.consequences) {
            if let Consequence::Call(departure) = consequence {
                self.taken_up.departures.insert((departure.pid, departure.tag), departure);
            }
        }
        for Post { pid, event, .. } in std::mem::take(&mut self.state.posts) {
            if self.state.living(pid).is_some() {
                self.queues.entry(pid).or_default().push_back(event);
            }
        }
    }
}

/// Rebuilds a run from all of its records, and says how many steps were executed again.
///
/// # Errors
/// Where a record does not follow from those before it, or a process does not do what it says.
pub fn rebuild(records: &[Record], root: &Arc<dyn Program>, programs: &Programs) -> Result<Rebuild, RebuildError> {
    Rebuild::new(Arc::clone(root), programs.clone()).apply_all(records)
}
