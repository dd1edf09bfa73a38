//! What a run consists of between two commits, and how events are posted.
//!
//! Everything here is decided and applied under the run's commit lock, and is a pure function of
//! the run's records: a rebuild applies the records to a fresh state and gets the same. Whatever is
//! to happen outside the lock's data is noted as a [`Consequence`].

use super::act_ids::Acts;
use super::cached::Caching;
use super::endings::Endings;
use super::events::RunEvent;
use super::kv::Kv;
use super::promised::Promised;
use super::signals::Signals;
use super::spawn::Newborn;
use super::table::{Birth, Entry, Phase, Table, WaitState};
use super::timers::Timers;
use super::weight::{Consumed, message_bytes};
use crate::base::arithmetic;
use crate::process::{
    Answer, Ending, Event, Message, Micros, Payload, Pid, Problem, Status, Tag, Timestamp, problem::kind,
};
use crate::run::record::former_keys::{FormerKeys, REPEATS};
use crate::run::record::kinds::{Bounds, Started};
use crate::run::seam::effects::{CachedOutcome, OutgoingCall};
use crate::run::seam::log::{EndStatus, RunEnd};
use crate::scheduler::Next;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A time of the run's own clock, which timers are measured by: microseconds. It shows the recorded
/// time when the run starts or is recovered, and advances with the host's monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(in crate::run) struct RunTime(pub(in crate::run) u64);

arithmetic!(RunTime, pub(in crate::run));

/// The time of a decision: the recorded time, and that of the run's own clock.
#[derive(Clone, Copy)]
pub(in crate::run) struct Moment {
    pub(in crate::run) at: Timestamp,
    pub(in crate::run) mono: RunTime,
}

/// The time between two moments, by each clock.
#[derive(Clone, Copy)]
pub(in crate::run) struct Elapsed {
    pub(in crate::run) at: Micros,
    pub(in crate::run) mono: Micros,
}

impl Moment {
    /// The moment of a record that is applied again.
    pub(in crate::run) fn recorded(at: Timestamp) -> Self {
        Self { at, mono: RunTime(at.0) }
    }

    /// The time since an earlier moment.
    pub(in crate::run) fn since(self, earlier: Self) -> Elapsed {
        Elapsed { at: self.at.since(earlier.at), mono: self.mono.since(earlier.mono) }
    }
}

/// An event that goes onto a process's queue.
pub(in crate::run) struct Post {
    pub(in crate::run) pid: Pid,
    pub(in crate::run) event: Event,
}

/// What follows from a commit outside of the state, beside events and new processes. None of it is
/// visible before the record is in the log.
pub(in crate::run) enum Consequence {
    /// A call is sent to its handler.
    Call(Box<OutgoingCall>),
    /// A call needs no answer any more.
    Abandon { pid: Pid, tag: Tag },
    /// An outcome is kept for others.
    Keep(Box<CachedOutcome>),
    /// Processes are paused or unpaused.
    Pause(Vec<Pid>, bool),
    /// An observer gets an event.
    Tell(Box<RunEvent>),
}

/// Numbers of a run, for observers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// Processes that have been started.
    pub processes: u64,
    /// Steps that have been committed.
    pub steps: u64,
    /// Commands that have been decided.
    pub commands: u64,
    /// Messages that were delivered.
    pub messages: u64,
    /// Calls that were handed to handlers.
    pub calls: u64,
    /// Answers and messages that arrived when no process waited for them any more, or when there
    /// was no room.
    pub dropped: u64,
    /// Log lines beyond the limits.
    pub log_dropped: u64,
    /// Fuel of all committed steps.
    pub fuel: u64,
    /// Records written.
    pub records: u64,
    /// Steps tried again after a fault of the host.
    pub retried: u64,
}

/// A call that its process did not wait for.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Abandoned {
    /// The process that completed without the answer.
    pub pid: Pid,
    /// The command that made the call.
    pub tag: Tag,
    /// The name of its handler.
    pub handler: Arc<str>,
    /// Its idempotency key.
    pub key: Arc<str>,
}

/// Abandoned calls that are listed; more are counted. Arbitrary.
pub(in crate::run) const ABANDONED_MAX: usize = 1_000;

/// The most that an item counts beside what it carries. Derived: as many items as a host can have
/// do not overflow [`State::bytes`], whatever a damaged first record says.
const ITEM_BYTES_MAX: u64 = 1 << 32;

/// The state of a run.
pub(in crate::run) struct State {
    pub(in crate::run) run: Arc<str>,
    pub(in crate::run) bounds: Bounds,
    pub(in crate::run) table: Table,
    pub(in crate::run) last_pid: u64,
    /// Processes that have not ended.
    pub(in crate::run) living: u32,
    pub(in crate::run) names: HashMap<Arc<str>, Pid>,
    /// Calls that retain the keys that they had in another run.
    pub(in crate::run) former_keys: FormerKeys,
    /// In a run that repeats another: the beginning of the keys of calls made for the first time.
    pub(in crate::run) repeats: Option<Arc<str>>,
    pub(in crate::run) exposed: BTreeMap<Arc<str>, Payload>,
    pub(in crate::run) exposed_bytes: u64,
    pub(in crate::run) kv: Kv,
    pub(in crate::run) signals: Signals,
    pub(in crate::run) acts: Acts,
    pub(in crate::run) timers: Timers,
    pub(in crate::run) endings: Endings,
    /// The commands whose outcome is to be kept for others.
    pub(in crate::run) caching: Caching,
    /// What its processes hold, as [`super::weight`] counts it.
    pub(in crate::run) bytes: u64,
    /// How much of the host's room the run may have: [`crate::run::commit::capacity`]. A rebuild
    /// does not check it.
    pub(in crate::run) ceiling: u64,
    /// Links and monitors.
    pub(in crate::run) ties: u64,
    /// The parts still to come of steps that are given in parts.
    pub(in crate::run) promised: Promised,
    /// Calls of a recovered run whose outcome is unknown.
    pub(in crate::run) uncertain: BTreeMap<(Pid, Tag), Box<OutgoingCall>>,
    /// Calls that are to be sent again. They wait until every process that was asked to end has
    /// taken that event: a process that ends wants none of them.
    pub(in crate::run) withheld: BTreeMap<(Pid, Tag), Box<OutgoingCall>>,
    /// Processes that were asked to end and have not taken that event.
    pub(in crate::run) cancels_not_taken: u32,
    /// Since when the processes are paused; `None` if they are not.
    pub(in crate::run) paused: Option<Moment>,
    pub(in crate::run) abandoned: Vec<Abandoned>,
    pub(in crate::run) abandoned_more: u64,
    /// How long the run was allowed to take, if it was asked to end because it took longer.
    pub(in crate::run) late: Option<Micros>,
    /// How the root ended, once it has.
    pub(in crate::run) root_ending: Option<Ending>,
    /// The root's answer, once it and its attached descendants are gone.
    pub(in crate::run) result: Option<Answer>,
    pub(in crate::run) counts: Counts,
    /// Whether observers get events.
    pub(in crate::run) observed: bool,
    /// Events that the commit in progress posts, in order.
    pub(in crate::run) posts: Vec<Post>,
    pub(in crate::run) consequences: Vec<Consequence>,
    /// Processes that the host ends next, each with a record of its own.
    pub(in crate::run) doomed: Vec<(Pid, Ending)>,
    /// Bodies of the processes that the commit in progress starts, in order. There are none in a
    /// rebuild.
    pub(in crate::run) newborn: VecDeque<Newborn>,
}

impl State {
    /// How the run ended, if it has.
    pub(in crate::run) fn end(&self, at: Timestamp) -> Option<RunEnd> {
        let status = EndStatus::of(self.root_ending.as_ref()?, self.result.as_ref()?, self.late);
        Some(RunEnd { status, at, fuel: self.counts.fuel })
    }

    /// The state after the first record. The root is in the table and not started.
    pub(in crate::run) fn new(started: &Started) -> Self {
        let mut state = Self::bare(started.bounds);
        state.run = Arc::clone(&started.run);
        state.former_keys = started.origin.as_ref().map(|origin| origin.former_keys.clone()).unwrap_or_default();
        let repeats = started.origin.as_ref().filter(|origin| origin.record == 0 && origin.keys.ends_with(REPEATS));
        state.repeats = repeats.map(|origin| Arc::clone(&origin.keys));
        let root = Self::root(started);
        let pid = state.next_pid();
        debug_assert_eq!(pid, Pid::ROOT);
        state.enter(pid, root);
        state
    }

    /// A state without any process.
    pub(in crate::run) fn bare(bounds: Bounds) -> Self {
        Self {
            run: Arc::default(),
            bounds: Bounds { item_bytes: bounds.item_bytes.min(ITEM_BYTES_MAX), ..bounds },
            table: Table::default(),
            last_pid: 0,
            living: 0,
            names: HashMap::new(),
            former_keys: FormerKeys::default(),
            repeats: None,
            exposed: BTreeMap::new(),
            exposed_bytes: 0,
            kv: Kv::default(),
            signals: Signals::default(),
            acts: Acts::default(),
            timers: Timers::default(),
            endings: Endings::default(),
            caching: Caching::default(),
            bytes: 0,
            ceiling: u64::MAX,
            ties: 0,
            promised: Promised::default(),
            uncertain: BTreeMap::new(),
            withheld: BTreeMap::new(),
            cancels_not_taken: 0,
            paused: None,
            abandoned: Vec::new(),
            abandoned_more: 0,
            late: None,
            root_ending: None,
            result: None,
            counts: Counts::default(),
            observed: false,
            posts: Vec::new(),
            consequences: Vec::new(),
            doomed: Vec::new(),
            newborn: VecDeque::new(),
        }
    }

    fn root(started: &Started) -> Entry {
        Entry::new(Birth {
            parent: None,
            detached: false,
            component: None,
            entrypoint: Arc::clone(&started.entry),
            limits: Arc::new(started.limits.clone()),
            grants: started.grants.clone(),
            key_path: super::idempotency::KeyPath::default(),
            is_anonymous: false,
        })
    }

    pub(in crate::run) fn next_pid(&self) -> Pid {
        Pid(self.last_pid + 1)
    }

    /// Puts a new process into the table.
    pub(in crate::run) fn enter(&mut self, pid: Pid, entry: Entry) {
        self.last_pid = pid.0;
        self.living += 1;
        self.counts.processes += 1;
        self.table.insert(pid, Box::new(entry));
    }

    /// A process that has not ended.
    #[inline]
    pub(in crate::run) fn living(&self, pid: Pid) -> Option<&Entry> {
        self.table.get(pid).filter(|entry| entry.lives())
    }

    /// A process that has not ended.
    pub(in crate::run) fn living_mut(&mut self, pid: Pid) -> Option<&mut Entry> {
        self.table.get_mut(pid).filter(|entry| entry.lives())
    }

    /// Returns whether there may be consequences.
    #[inline]
    pub(in crate::run) fn has_consequences(&self) -> bool {
        !self.posts.is_empty()
            || !self.newborn.is_empty()
            || !self.consequences.is_empty()
            || !self.doomed.is_empty()
            || self.timers.is_changed()
            || self.releases_calls()
            || self.result.is_some()
    }

    /// Returns whether the run has ended: nothing will ever happen in it.
    pub(in crate::run) fn is_finished(&self) -> bool {
        self.result.is_some() && self.table.is_empty()
    }

    /// Posts an event other than a message.
    pub(in crate::run) fn post(&mut self, pid: Pid, event: Event) {
        let weight = self.weight_of_event(&event);
        let Some(entry) = self.table.get_mut(pid).filter(|entry| entry.lives()) else { return };
        entry.waking += 1;
        entry.queued_bytes += weight;
        self.bytes += weight;
        self.posts.push(Post { pid, event });
    }

    /// Posts the one answer of a tag.
    pub(in crate::run) fn post_answer(&mut self, pid: Pid, tag: Tag, answer: Answer) {
        let answer = self.fitting(answer);
        self.post(pid, Event::Completed { tag, answer });
    }

    /// An answer cut to the room there is: an oversized one becomes a problem.
    pub(in crate::run) fn fitting(&self, answer: Answer) -> Answer {
        let fits = match &answer {
            Ok(payload) => payload.size() == 0 || self.is_bounded(self.weigh(1, payload.size() as u64, 0)),
            Err(_) => self.is_bounded(self.weight_of_waiting(&answer)),
        };
        match answer {
            answer if fits => answer,
            Ok(_) => Err(Arc::new(
                Problem::new(kind::TOO_LARGE, "The run holds too much for the answer to fit")
                    .with_detail(format!("{} bytes wait in the run's queues.", self.bytes))
                    .with_class(crate::process::ProblemClass::Uncertain),
            )),
            // The kind of the problem is still reported.
            Err(problem) => Err(Arc::new(Problem { detail: None, data: None, ..Arc::unwrap_or_clone(problem) })),
        }
    }

    /// Returns whether a message fits into a process's mailbox.
    #[inline]
    pub(in crate::run) fn takes_message(&self, entry: &Entry, bytes: u64) -> bool {
        entry.mail < entry.limits.mailbox
            && entry.mail_bytes + bytes <= entry.limits.mailbox_bytes
            && self.is_bounded(self.weigh(1, bytes, 0))
    }

    /// Posts a message that fits.
    #[inline]
    pub(in crate::run) fn post_message(&mut self, pid: Pid, message: Box<Message>) {
        let bytes = message_bytes(&message.topic, &message.body);
        let weight = self.weigh(1, bytes, 0);
        let Some(entry) = self.table.get_mut(pid).filter(|entry| entry.lives()) else { return };
        entry.mail += 1;
        entry.mail_bytes += bytes;
        entry.queued_bytes += weight;
        self.bytes += weight;
        self.counts.messages += 1;
        self.posts.push(Post { pid, event: Event::Message(message) });
    }

    /// Subtracts what a step consumed, counts the step, and notes the last tag that it used.
    #[inline]
    pub(in crate::run) fn take(&mut self, moment: Moment, pid: Pid, took: Consumed, fuel: u64, last: Option<Tag>) {
        let weight = self.weight_of_batch(took);
        let entry = self.table.get_mut(pid).expect("invariant: a process that is stepped is in the table");
        entry.last_tag = last.unwrap_or(entry.last_tag);
        entry.mail -= took.mail;
        entry.mail_bytes -= took.mail_bytes;
        entry.waking -= took.events - took.mail;
        entry.queued_bytes -= weight;
        entry.has_taken |= took.events > 0;
        entry.steps += 1;
        entry.fuel = entry.fuel.saturating_add(fuel);
        self.bytes -= weight;
        self.counts.steps += 1;
        self.counts.fuel = self.counts.fuel.saturating_add(fuel);
        if took.cancel {
            self.cancels_not_taken -= u32::from(entry.take_cancel());
            self.begin_grace(moment, pid);
        }
        if took.mail > 0 {
            self.deliver_more_signals(pid);
        }
    }

    /// Returns whether calls that are to be sent again are sent now.
    fn releases_calls(&self) -> bool {
        self.cancels_not_taken == 0 && !self.withheld.is_empty()
    }

    /// Sends the calls that are to be sent again, unless a process has yet to take the event that
    /// it is to end.
    pub(in crate::run) fn release_calls(&mut self) {
        if self.releases_calls() {
            self.consequences.extend(std::mem::take(&mut self.withheld).into_values().map(Consequence::Call));
        }
    }

    /// Returns whether a blocked process waits for something that can arrive.
    pub(in crate::run) fn can_wake(&self, pid: Pid) -> bool {
        self.table.get(pid).is_some_and(|entry| {
            entry.waking > 0
                || !entry.outstanding.is_empty()
                || entry
                    .ties
                    .as_ref()
                    .is_some_and(|ties| !ties.watches.is_empty() || ties.watchers.values().any(|link| *link))
                || matches!(entry.phase, Phase::Cancelling { .. })
        })
    }

    /// Notes an event for observers.
    pub(in crate::run) fn report(&mut self, event: impl FnOnce() -> RunEvent) {
        if self.observed {
            self.consequences.push(Consequence::Tell(Box::new(event())));
        }
    }

    /// Applies a step's status.
    pub(in crate::run) fn apply_status(&mut self, moment: Moment, pid: Pid, status: Status, owes: bool) -> Next {
        let renews = matches!(status, Status::Renew { .. });
        let (waits, next) = match status {
            Status::Ready if owes => (WaitState::Owes, Next::Ready),
            Status::Ready | Status::Renew { .. } => (WaitState::Not, Next::Ready),
            Status::Blocked => (WaitState::Blocked, Next::Blocked),
            Status::Idle => (WaitState::Idle, Next::Idle),
            Status::Complete(output) => {
                self.exit(moment, pid, Ending::Completed, Ok(output));
                return Next::Complete;
            }
            Status::Failed(problem) => {
                self.exit(moment, pid, Ending::Failed(Arc::clone(&problem)), Err(problem));
                return Next::Complete;
            }
        };
        if let Some(entry) = self.table.get_mut(pid) {
            entry.waits = waits;
            // What it had read before is not known of its new body.
            entry.has_taken |= renews;
        }
        next
    }
}
