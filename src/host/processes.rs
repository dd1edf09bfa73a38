//! The processes of a run as its records give them: those that live, and those that have ended.

use super::projection::RunProjection;
use super::spans::SpanEnd;
use crate::process::{Action, Ending, Pid, Status, Timestamp};
use crate::run::{Decided, Decision, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A place in a run: the number of a record, from 1, and its time.
pub type Place = (u64, Timestamp);

/// A process of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunProcess {
    /// The process that spawned it; `None` for the root.
    pub parent: Option<Pid>,
    /// The name for people: the step that it belongs to, with the number of its item, else its
    /// entry point. Empty for the workflow itself.
    pub name: String,
    /// Its place in the workflow, `<step>/<item>/<n>`, if it has one.
    pub scope: Option<Arc<str>>,
    /// Its component, if the spawn names one.
    pub component: Option<Arc<str>>,
    /// Its entry point.
    pub entry: Arc<str>,
    /// The record in which it was spawned.
    pub began: Place,
    /// The last record of its own.
    pub last: Place,
    /// The record in which it ended, if it has.
    pub ended: Option<Place>,
    /// How it ended.
    pub end: SpanEnd,
    /// Steps that it took.
    pub steps: u64,
    /// Fuel of those.
    pub fuel: u64,
    /// Calls that it made.
    pub calls: u64,
    /// Messages that it sent and that were delivered.
    pub sent: u64,
    /// Processes that it spawned.
    pub spawned: u64,
}

/// Folds records into the processes of their run.
#[derive(Default, Debug)]
pub struct RunProcesses {
    projection: RunProjection,
    records: u64,
    processes: BTreeMap<Pid, RunProcess>,
}

impl RunProcesses {
    /// Applies the next record.
    pub fn apply(&mut self, record: &Record) {
        self.records += 1;
        self.projection.apply(record, &mut |_| {});
        match record {
            Record::Started(started) => {
                let place = (self.records, started.at);
                self.processes.insert(Pid::ROOT, new(None, String::new(), Arc::clone(&started.entry), place));
            }
            Record::Stepped(stepped) => {
                let place = (self.records, stepped.at);
                for Decided { command, decision } in &stepped.decided {
                    self.decided(stepped.pid, &command.action, decision, place);
                }
                let Some(process) = self.processes.get_mut(&stepped.pid) else { return };
                process.steps += 1;
                process.fuel += stepped.fuel;
                process.last = place;
                match &stepped.status {
                    Status::Complete(_) => process.ends(place, SpanEnd::Succeeded),
                    Status::Failed(problem) => process.ends(place, SpanEnd::Failed(problem.kind.to_string())),
                    Status::Renew { entry, .. } => process.entry = Arc::from(&**entry),
                    _ => {}
                }
            }
            Record::Died(died) => {
                let place = (self.records, died.at);
                let Some(process) = self.processes.get_mut(&died.pid) else { return };
                process.fuel += died.fuel;
                process.last = place;
                process.ends(
                    place,
                    match &died.ending {
                        Ending::Completed => SpanEnd::Succeeded,
                        Ending::Failed(problem) => SpanEnd::Failed(problem.kind.to_string()),
                        Ending::Cancelled(_) => SpanEnd::Cancelled,
                    },
                );
            }
            Record::Arrived(_) | Record::Leaving { .. } | Record::Upgraded(_) => {}
        }
    }

    fn decided(&mut self, pid: Pid, action: &Action, decision: &Decision, place: Place) {
        let mut count = |count: fn(&mut RunProcess) -> &mut u64| {
            if let Some(process) = self.processes.get_mut(&pid) {
                *count(process) += 1;
            }
        };
        match (action, decision) {
            (Action::Spawn(spawn), Decision::Spawned(child)) => {
                count(|process| &mut process.spawned);
                let name = self.projection.name(*child).unwrap_or(&spawn.entry).to_owned();
                let mut process = new(Some(pid), name, Arc::clone(&spawn.entry), place);
                process.component.clone_from(&spawn.component);
                process.scope = spawn.placement.as_ref().map(|placement| Arc::clone(&placement.scope));
                self.processes.insert(*child, process);
            }
            (Action::Send(_), Decision::Delivered(_)) => count(|process| &mut process.sent),
            (Action::Call(_), _) => count(|process| &mut process.calls),
            _ => {}
        }
    }

    /// The processes from a pid on, in the order in which they were spawned.
    pub fn from(&self, pid: Pid) -> impl Iterator<Item = (Pid, &RunProcess)> {
        self.processes.range(pid..).map(|(pid, process)| (*pid, process))
    }

    /// One process.
    #[must_use]
    pub fn get(&self, pid: Pid) -> Option<&RunProcess> {
        self.processes.get(&pid)
    }
}

impl RunProcess {
    fn ends(&mut self, place: Place, end: SpanEnd) {
        self.ended = Some(place);
        self.end = end;
    }
}

fn new(parent: Option<Pid>, name: String, entry: Arc<str>, place: Place) -> RunProcess {
    RunProcess {
        parent,
        name,
        scope: None,
        component: None,
        entry,
        began: place,
        last: place,
        ended: None,
        end: SpanEnd::Open,
        steps: 0,
        fuel: 0,
        calls: 0,
        sent: 0,
        spawned: 0,
    }
}
