//! What caused what in a run, as its records give it: spawns, messages, answers, timers, signals.
//!
//! An event that reaches a process is a cause of the next step that the process takes. If the step
//! left the event in its queue, this says too early that it had an effect, never too late.

use super::projection::RunProjection;
use crate::process::handler::SIGNAL;
use crate::process::{Action, Payload, Pid, Status, Tag};
use crate::run::{Decided, Decision, News, Record};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Edges that are kept: those of the last records. Arbitrary: 48 MiB.
const EDGES_MAX: usize = 2_000_000;

/// Events that wait for the next step of one process. Further ones are not shown.
const WAITING_MAX: usize = 1_000;

/// One record caused another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Caused {
    /// The number of the record that was caused, from 1.
    pub record: u64,
    /// The number of the record that caused it.
    pub by: u64,
    /// How.
    pub how: How,
}

/// How one record caused another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum How {
    /// It is the process's step before.
    Step,
    /// The process was spawned.
    Spawn,
    /// A message was sent to it.
    Message,
    /// It made the call, or waited for the signal or the time.
    Asked,
    /// An answer to its call arrived.
    Answer,
    /// A time that it waited for came.
    Timer,
    /// A signal that it waited for arrived.
    Signal,
    /// It was asked to end.
    Cancel,
    /// A process that it spawned, monitors or is linked to has ended.
    End,
}

impl How {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Spawn => "spawn",
            Self::Message => "message",
            Self::Asked => "asked",
            Self::Answer => "answer",
            Self::Timer => "timer",
            Self::Signal => "signal",
            Self::Cancel => "cancel",
            Self::End => "end",
        }
    }
}

/// Folds records into what caused what.
#[derive(Default, Debug)]
pub struct RunCauses {
    projection: RunProjection,
    records: u64,
    /// The last record of each process.
    last: BTreeMap<Pid, u64>,
    /// What has reached each process since its last step.
    waiting: BTreeMap<Pid, Vec<(u64, How)>>,
    /// Where the commands that have no answer yet were given.
    asked: BTreeMap<(Pid, Tag), u64>,
    /// Who waits for signals.
    signal_waits: BTreeMap<Arc<str>, VecDeque<(Pid, Tag)>>,
    /// Where the signals that nobody waited for arrived.
    kept: BTreeMap<Arc<str>, VecDeque<u64>>,
    parents: BTreeMap<Pid, Pid>,
    watchers: BTreeMap<Pid, Vec<Pid>>,
    edges: VecDeque<Caused>,
    dropped: bool,
}

impl RunCauses {
    /// Applies the next record.
    pub fn apply(&mut self, record: &Record) {
        self.records += 1;
        let number = self.records;
        self.projection.apply(record, &mut |_| {});
        match record {
            Record::Started(_) => {
                self.waiting.entry(Pid::ROOT).or_default().push((number, How::Spawn));
            }
            Record::Stepped(stepped) => {
                self.turn(stepped.pid);
                for Decided { command, decision } in &stepped.decided {
                    self.decided(stepped.pid, command.tag, &command.action, decision);
                }
                if matches!(stepped.status, Status::Complete(_) | Status::Failed(_)) {
                    self.ended(stepped.pid);
                }
            }
            Record::Died(died) => {
                self.turn(died.pid);
                self.ended(died.pid);
            }
            Record::Arrived(arrived) => self.arrived(&arrived.news),
            Record::Leaving { pid, tag } => {
                if let Some(asked) = self.asked.get(&(*pid, *tag)).copied() {
                    self.caused(asked, How::Asked);
                }
            }
            Record::Upgraded(_) => {}
        }
    }

    /// Notes that a record caused this one.
    fn caused(&mut self, by: u64, how: How) {
        if self.edges.len() == EDGES_MAX {
            self.edges.pop_front();
            self.dropped = true;
        }
        self.edges.push_back(Caused { record: self.records, by, how });
    }

    /// A process takes a step: it has what has reached it.
    fn turn(&mut self, pid: Pid) {
        if let Some(before) = self.last.insert(pid, self.records) {
            self.caused(before, How::Step);
        }
        for (by, how) in self.waiting.remove(&pid).unwrap_or_default() {
            self.caused(by, how);
        }
    }

    fn reaches(&mut self, pid: Pid, how: How) {
        let waiting = self.waiting.entry(pid).or_default();
        if waiting.len() < WAITING_MAX {
            waiting.push((self.records, how));
        }
    }

    fn decided(&mut self, pid: Pid, tag: Tag, action: &Action, decision: &Decision) {
        match (action, decision) {
            (Action::Spawn(_), Decision::Spawned(child)) => {
                self.parents.insert(*child, pid);
                self.reaches(*child, How::Spawn);
            }
            (Action::Send(_), Decision::Delivered(to)) => self.reaches(*to, How::Message),
            (Action::Stop(_), Decision::Meant(to)) => self.reaches(*to, How::Cancel),
            (Action::Monitor(_) | Action::Link(_), Decision::Meant(to)) => {
                self.watchers.entry(*to).or_default().push(pid);
            }
            (Action::Cancel(tag), _) => {
                self.asked.remove(&(pid, *tag));
            }
            (Action::Sleep(_), Decision::Due(_)) | (Action::Call(_), Decision::Called(_)) => {
                self.asked.insert((pid, tag), self.records);
            }
            (Action::Call(call), Decision::Waits) if *call.handler == *SIGNAL => {
                self.asked.insert((pid, tag), self.records);
                for name in signals_of(&call.args) {
                    self.signal_waits.entry(name).or_default().push_back((pid, tag));
                }
            }
            (Action::Call(call), Decision::Took(_)) => {
                let mut names = signals_of(&call.args).into_iter();
                let kept = names.find_map(|name| self.kept.get_mut(&name)?.pop_front());
                if let Some(by) = kept {
                    self.caused(by, How::Signal);
                }
            }
            _ => {}
        }
    }

    fn arrived(&mut self, news: &News) {
        match news {
            News::Answered { pid, tag, .. } => self.answers(*pid, *tag, How::Answer),
            News::Due { pid, tag } => self.answers(*pid, *tag, How::Timer),
            News::Again { pid, tag } => {
                if let Some(asked) = self.asked.get(&(*pid, *tag)).copied() {
                    self.caused(asked, How::Asked);
                }
            }
            News::Message { pid, .. } => self.reaches(*pid, How::Message),
            News::Cancel { pid, .. } => self.reaches(*pid, How::Cancel),
            News::TimedOut { .. } | News::GraceAgain => self.reaches(Pid::ROOT, How::Cancel),
            News::Signal { name, .. } => {
                let waits = self.signal_waits.entry(Arc::clone(name)).or_default();
                // Those that gave up are passed over.
                let state = self.projection.state();
                let taken = loop {
                    match waits.pop_front() {
                        Some((pid, tag)) if !self.asked.contains_key(&(pid, tag)) => {}
                        Some((pid, tag)) if state.is_outstanding(pid, tag) => {
                            waits.push_front((pid, tag));
                            break None;
                        }
                        taken => break taken,
                    }
                };
                match taken {
                    Some((pid, tag)) => self.answers(pid, tag, How::Signal),
                    None => self.kept.entry(Arc::clone(name)).or_default().push_back(self.records),
                }
            }
            News::Paused(_) => {}
        }
    }

    /// What a process asked for has come.
    fn answers(&mut self, pid: Pid, tag: Tag, how: How) {
        if let Some(asked) = self.asked.remove(&(pid, tag)) {
            self.caused(asked, How::Asked);
        }
        self.reaches(pid, how);
    }

    fn ended(&mut self, pid: Pid) {
        self.waiting.remove(&pid);
        self.last.remove(&pid);
        let open: Vec<(Pid, Tag)> =
            self.asked.range((pid, Tag(0))..=(pid, Tag(u64::MAX))).map(|(key, _)| *key).collect();
        for key in open {
            self.asked.remove(&key);
        }
        let watchers = self.watchers.remove(&pid).unwrap_or_default();
        for watcher in self.parents.remove(&pid).into_iter().chain(watchers) {
            self.reaches(watcher, How::End);
        }
    }

    /// The records that caused a record, and what caused those, at most `most` edges, the nearest
    /// first; and whether there are more.
    #[must_use]
    pub fn of(&self, record: u64, most: usize) -> (Vec<Caused>, bool) {
        let mut found = Vec::new();
        let mut seen = std::collections::BTreeSet::from([record]);
        let mut next = VecDeque::from([record]);
        while let Some(record) = next.pop_front() {
            for edge in self.edges_of(record) {
                if found.len() == most {
                    return (found, true);
                }
                found.push(*edge);
                if seen.insert(edge.by) {
                    next.push_back(edge.by);
                }
            }
        }
        (found, self.dropped)
    }

    fn edges_of(&self, record: u64) -> impl Iterator<Item = &Caused> {
        let from = self.edges.partition_point(|edge| edge.record < record);
        self.edges.range(from..).take_while(move |edge| edge.record == record)
    }

    /// What a record caused directly, at most `most`.
    #[must_use]
    pub fn effects(&self, record: u64, most: usize) -> Vec<Caused> {
        self.edges.iter().filter(|edge| edge.by == record).take(most).copied().collect()
    }

    /// How many records there were.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// The name of the signal that a call waits for.
fn signals_of(args: &Payload) -> Vec<Arc<str>> {
    let Payload::Json(json) = args else { return Vec::new() };
    let args = json.to_value();
    let one = std::slice::from_ref(&args);
    let all = args["any"].as_array().map_or(one, Vec::as_slice);
    all.iter().filter_map(|one| one["name"].as_str().map(Arc::from)).collect()
}
