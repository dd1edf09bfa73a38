//! The one interpreter of records: folds them, one after the other, into the state of their run.
//!
//! No program is needed and nothing is executed. A rebuild does this and steps programs beside it;
//! for a run that is not in memory, the commands that show a run read the folded state. Its memory
//! is bounded like that of the run itself: by what the run holds, not by how many records it has.

use super::exit::answer_of;
use super::news::Rejected;
use super::outstanding::Pending;
use super::run_state::{Abandoned, Consequence, Counts, Moment, Post, State};
use super::signals::{PendingSignal, SignalStatus, Wanted};
use super::table::WaitState;
use super::weight::Consumed;
use crate::process::{Action, Event, Json, Micros, Payload, Pid, Status, Tag, Timestamp};
use crate::run::record::kinds::{Arrived, Decided, Decision, Died, Record, Started, Stepped, Upgraded};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The records do not follow from each other: some are missing, or in another order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("record {record} does not follow from those before it: {why}")]
pub struct Incoherent {
    /// The number of the record, from 1.
    pub record: u64,
    /// What is wrong with it.
    pub why: &'static str,
}

/// A call whose outcome is unknown, and which must not be repeated without being asked.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Uncertain {
    /// The process that made the call.
    pub pid: Pid,
    /// The command that made it.
    pub tag: Tag,
    /// The name of its handler.
    pub handler: Arc<str>,
    /// Its idempotency key.
    pub key: Arc<str>,
    /// When it was made, in microseconds since 1970; 0 if a host of an older release reports it.
    #[serde(default)]
    pub since: Timestamp,
}

/// A signal that a call waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignalWait {
    /// The process that waits.
    pub pid: Pid,
    /// The signal's name.
    pub name: Arc<str>,
    /// Since when, in microseconds since 1970.
    pub since: Timestamp,
    /// Until when at most, in microseconds since 1970, if the run is not paused meanwhile.
    pub until: Option<Timestamp>,
    /// What a person is shown: an object with the name and with `title`, `text` or `schema`. `None`
    /// if there is only the name.
    pub prompt: Option<Json>,
}

/// A run as its records give it.
#[derive(Default)]
pub struct Projection {
    records: u64,
    run: Option<Projected>,
    /// The first record that did not follow: the run is what it was before.
    broken: Option<Incoherent>,
}

/// A run that has its first record.
pub(in crate::run) struct Projected {
    pub(in crate::run) started: Started,
    pub(in crate::run) state: State,
    /// Events that no step has taken yet.
    pub(in crate::run) queues: BTreeMap<Pid, VecDeque<Event>>,
    /// The greatest time in a record.
    pub(in crate::run) at: Timestamp,
}

impl std::fmt::Debug for Projection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projection").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Projection {
    /// Applies the next record.
    ///
    /// # Errors
    /// Fails if the record does not follow from those before it, and for each one after it: they
    /// are counted, and change nothing.
    pub fn apply(&mut self, record: &Record) -> Result<(), Incoherent> {
        self.records += 1;
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        self.apply_counted(record).inspect_err(|broken| self.broken = Some(*broken))
    }

    fn apply_counted(&mut self, record: &Record) -> Result<(), Incoherent> {
        match record {
            Record::Started(started) => self.start(started)?,
            Record::Stepped(stepped) => {
                let took = Consumed::of(&self.take_events(stepped)?);
                self.step(stepped, took, |_, _| {})?;
            }
            Record::Died(died) => self.died(died)?,
            Record::Arrived(arrived) => self.arrived(arrived)?,
            Record::Leaving { pid, tag } => self.leaving(*pid, *tag)?,
            Record::Upgraded(upgraded) => self.upgraded(upgraded)?,
        }
        self.settle(drop);
        Ok(())
    }

    /// What the run began with; `None` before its first record.
    #[must_use]
    pub fn started(&self) -> Option<&Started> {
        self.run.as_ref().map(|run| &run.started)
    }

    /// The greatest time in a record, in microseconds since 1970.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.run.as_ref().map_or(Timestamp(0), |run| run.at)
    }

    /// What has happened, in numbers. Late arrivals and retried steps have no record.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { records: self.records, ..self.state().map_or_else(Counts::default, |state| state.counts) }
    }

    /// Since when the run is paused, in microseconds since 1970; `None` if it is not.
    #[must_use]
    pub fn paused(&self) -> Option<Timestamp> {
        self.state()?.paused.map(|since| since.at)
    }

    /// How long the run was allowed to take, if it was asked to end because it took longer.
    #[must_use]
    pub fn late(&self) -> Option<Micros> {
        self.state()?.late
    }

    /// The values that the run last exposed, by name.
    pub fn exposed(&self) -> impl Iterator<Item = (&Arc<str>, &Payload)> {
        self.state().into_iter().flat_map(|state| &state.exposed)
    }

    /// The calls without an answer, in the order of their processes and tags.
    pub fn calls(&self) -> impl Iterator<Item = (Pid, Tag)> {
        self.pending().filter(|(_, pending)| matches!(pending, Pending::Call(_))).map(|(call, _)| call)
    }

    /// The calls whose outcome is unknown if no host owns the run, in the order of their processes
    /// and tags.
    #[must_use]
    pub fn uncertain(&self) -> Vec<Uncertain> {
        self.pending().filter_map(uncertain).collect()
    }

    /// The calls of one process whose outcome is unknown if no host owns the run.
    #[must_use]
    pub fn uncertain_of(&self, pid: Pid) -> Vec<Uncertain> {
        let living = self.state().and_then(|state| state.living(pid));
        let pending = living.into_iter().flat_map(|entry| entry.outstanding.iter());
        pending.filter_map(|(tag, pending)| uncertain(((pid, tag), pending))).collect()
    }

    /// Returns whether a command has no answer yet.
    #[must_use]
    pub fn is_outstanding(&self, pid: Pid, tag: Tag) -> bool {
        self.state().is_some_and(|state| state.pending(pid, tag).is_some())
    }

    /// Calls that processes did not wait for when they completed: a list up to a limit, and how
    /// many more there were.
    #[must_use]
    pub fn abandoned(&self) -> (&[Abandoned], u64) {
        self.state().map_or((&[], 0), |state| (&state.abandoned, state.abandoned_more))
    }

    /// Every name that a call waits for or under which signals are retained, in the order of the
    /// names.
    #[must_use]
    pub fn signals(&self) -> Vec<SignalStatus> {
        self.state().map(|state| state.signals.status()).unwrap_or_default()
    }

    /// Returns whether a call waits for signals of this name, or a process has it.
    #[must_use]
    pub fn takes_signal(&self, name: &str) -> bool {
        self.state().is_some_and(|state| state.names.contains_key(name) || state.signals.is_awaited(name))
    }

    /// The signals that calls wait for, those of the calls that have waited longest first. A call
    /// that waits for one of several is listed with each.
    #[must_use]
    pub fn signal_waits(&self) -> Vec<SignalWait> {
        let mut waits: Vec<_> = self
            .pending()
            .filter_map(|((pid, _), pending)| match pending {
                Pending::Signal(signal) => Some((pid, &**signal)),
                _ => None,
            })
            .collect();
        waits.sort_by_key(|(_, signal)| signal.number);
        let wait = |(pid, signal): (Pid, &PendingSignal), wanted: &Wanted| SignalWait {
            pid,
            name: Arc::clone(&wanted.name),
            since: signal.since,
            // Here timers use the recorded time.
            until: signal.timer.map(|(due, _)| Timestamp(due.0)),
            prompt: wanted.prompt.clone(),
        };
        waits.into_iter().flat_map(|one| one.1.wanted.iter().map(move |wanted| wait(one, wanted))).collect()
    }

    fn state(&self) -> Option<&State> {
        self.run.as_ref().map(|run| &run.state)
    }

    /// The commands without an answer of processes that live.
    fn pending(&self) -> impl Iterator<Item = ((Pid, Tag), &Pending)> {
        let living = self.state().into_iter().flat_map(|state| state.table.iter()).filter(|(_, entry)| entry.lives());
        living.flat_map(|(pid, entry)| entry.outstanding.iter().map(move |(tag, pending)| ((pid, tag), pending)))
    }
}

fn uncertain(((pid, tag), pending): ((Pid, Tag), &Pending)) -> Option<Uncertain> {
    let Pending::Call(call) = pending else { return None };
    let uncertain =
        || Uncertain { pid, tag, handler: Arc::clone(&call.handler), key: Arc::clone(&call.key), since: call.since };
    call.sending.is_leaving().then(uncertain)
}

/// A rebuild does these one by one, with programs beside them.
impl Projection {
    /// Counts the next record.
    pub(in crate::run) fn count(&mut self) {
        self.records += 1;
    }

    pub(in crate::run) fn run(&self) -> Option<&Projected> {
        self.run.as_ref()
    }

    pub(in crate::run) fn into_run(self) -> Option<Projected> {
        self.run
    }

    fn incoherent(&self, why: &'static str) -> Incoherent {
        Incoherent { record: self.records, why }
    }

    fn begun(&mut self) -> Result<&mut Projected, Incoherent> {
        let missing = self.incoherent("the run has not started");
        self.run.as_mut().ok_or(missing)
    }

    pub(in crate::run) fn start(&mut self, started: &Started) -> Result<(), Incoherent> {
        if self.run.is_some() {
            return Err(self.incoherent("the run has started already"));
        }
        let state = State::new(started);
        self.run = Some(Projected { started: started.clone(), state, queues: BTreeMap::new(), at: started.at });
        Ok(())
    }

    /// Checks that a step can be the next one of its process, and takes its events out of its
    /// queue.
    pub(in crate::run) fn take_events(&mut self, stepped: &Stepped) -> Result<Vec<Event>, Incoherent> {
        let Stepped { pid, step, took, .. } = *stepped;
        let record = self.records;
        let incoherent = |why| Incoherent { record, why };
        let run = self.begun()?;
        let known = run.state.living(pid).ok_or(incoherent("the process that stepped does not live"))?;
        if known.steps + 1 != step {
            return Err(incoherent("the process has taken another number of steps"));
        }
        let stays = match known.waits {
            WaitState::Not => false,
            WaitState::Owes => took > 0,
            WaitState::Blocked | WaitState::Idle => took == 0,
        };
        let queue = run.queues.entry(pid).or_default();
        if stays || queue.len() < took as usize {
            return Err(incoherent("the process took events that it was not sent"));
        }
        let mut last = known.last_tag;
        for Decided { command, .. } in &stepped.decided {
            if command.tag <= last {
                return Err(incoherent("a tag is not greater than the one before"));
            }
            last = command.tag;
        }
        Ok(queue.drain(..took as usize).collect())
    }

    /// Applies a step whose events were taken. `decides` gets each command before it is applied.
    pub(in crate::run) fn step(
        &mut self,
        stepped: &Stepped,
        took: Consumed,
        mut decides: impl FnMut(&State, &Decided),
    ) -> Result<(), Incoherent> {
        let Stepped { pid, at, .. } = *stepped;
        let record = self.records;
        let incoherent = |why| Incoherent { record, why };
        let Projected { started, state, queues, at: latest } = self.begun()?;
        let is_before_fork = started.origin.as_ref().is_some_and(|origin| record <= origin.record);
        *latest = at.max(*latest);
        let moment = Moment::recorded(at);
        state.take(moment, pid, took, stepped.fuel, stepped.decided.last().map(|decided| decided.command.tag));
        state.counts.log_dropped = state.counts.log_dropped.saturating_add(stepped.log_dropped);
        for decided in &stepped.decided {
            let Decided { command, decision } = decided;
            if let (Action::Spawn(spawn), Decision::Spawned(child)) = (&command.action, decision) {
                if *child != state.next_pid() {
                    return Err(incoherent("a child's pid is not the next of the run"));
                }
                if !state.may_inherit(pid, spawn) {
                    return Err(incoherent("a child has more than its parent"));
                }
            }
            decides(state, decided);
            if let (Action::Call(call), true) = (&command.action, is_before_fork) {
                state.note_key(pid, command.tag, call, decision);
            }
            state.apply(pid, moment, command.clone(), decision.clone());
        }
        state.apply_status(moment, pid, stepped.status.clone(), stepped.owes);
        if matches!(stepped.status, Status::Complete(_) | Status::Failed(_)) {
            queues.remove(&pid);
        }
        Ok(())
    }

    pub(in crate::run) fn died(&mut self, died: &Died) -> Result<(), Incoherent> {
        let missing = self.incoherent("the process that died does not live");
        let Projected { state, queues, at, .. } = self.begun()?;
        if state.living(died.pid).is_none() {
            return Err(missing);
        }
        *at = died.at.max(*at);
        state.counts.log_dropped = state.counts.log_dropped.saturating_add(died.log_dropped);
        let moment = Moment::recorded(died.at);
        state.exit(moment, died.pid, died.ending.clone(), answer_of(&died.ending));
        queues.remove(&died.pid);
        Ok(())
    }

    pub(in crate::run) fn arrived(&mut self, arrived: &Arrived) -> Result<(), Incoherent> {
        let Arrived { at, act, news } = arrived;
        let unwanted = self.incoherent("nothing waits for what arrived");
        let run = self.begun()?;
        match run.state.wants(news) {
            Ok(()) => {}
            Err(Rejected::Idle) if act.is_some() => {}
            Err(_) => return Err(unwanted),
        }
        if let Some(act) = act {
            run.state.acts.remember(act.clone(), unwanted.record);
        }
        run.at = run.at.max(*at);
        run.state.apply_news(Moment::recorded(*at), news.clone());
        Ok(())
    }

    pub(in crate::run) fn leaving(&mut self, pid: Pid, tag: Tag) -> Result<(), Incoherent> {
        self.begun()?.state.mark_leaving(pid, tag);
        Ok(())
    }

    /// The run is one of another version from now on.
    pub(in crate::run) fn upgraded(&mut self, upgraded: &Upgraded) -> Result<(), Incoherent> {
        let run = self.begun()?;
        run.at = run.at.max(upgraded.at);
        upgraded.amend(&mut run.started);
        if let Some(root) = run.state.living_mut(Pid::ROOT).filter(|_| run.started.run == upgraded.run) {
            root.grants = upgraded.to.grants.clone();
        }
        Ok(())
    }

    /// Puts the events that a record has posted into the queues, passes its consequences on, and
    /// cuts the run where it was forked.
    pub(in crate::run) fn settle(&mut self, consequences: impl FnMut(Consequence)) {
        let Some(Projected { started, state, queues, .. }) = &mut self.run else { return };
        state.counts.records = self.records;
        state.consequences.drain(..).for_each(consequences);
        let mut posts = std::mem::take(&mut state.posts);
        for Post { pid, event } in posts.drain(..) {
            if state.living(pid).is_some() {
                queues.entry(pid).or_default().push_back(event);
            }
        }
        state.posts = posts;
        if let Some(held) = started.origin.as_ref().and_then(|origin| origin.cut(self.records)) {
            state.fork(held);
        }
    }
}
