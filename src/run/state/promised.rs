//! What steps that are given in parts were promised.
//!
//! A step is checked as a whole with its first part, so that none of it happens if one of its parts
//! may not. Between two parts other processes of the run may use up what all may have together: so
//! from the first part on, the parts still to come are counted as if they were there.

use crate::process::{Action, Command, Owed, Pid};
use std::collections::BTreeMap;

/// The share of the run's bounds that commands without an answer take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::run) struct Asked {
    pub(in crate::run) ties: u64,
    /// As if each query were a new one.
    pub(in crate::run) exposed: u64,
    pub(in crate::run) exposed_bytes: u64,
}

impl Asked {
    fn of(commands: &[Command]) -> Self {
        let mut asked = Self::default();
        for command in commands {
            match &command.action {
                Action::Monitor(_) | Action::Link(_) => asked.ties += 1,
                Action::Expose { value, .. } => {
                    asked.exposed += 1;
                    asked.exposed_bytes += value.size() as u64;
                }
                _ => {}
            }
        }
        asked
    }

    fn add(&mut self, other: Self) {
        self.ties += other.ties;
        self.exposed += other.exposed;
        self.exposed_bytes += other.exposed_bytes;
    }

    fn subtract(&mut self, other: Self) {
        self.ties -= other.ties;
        self.exposed -= other.exposed;
        self.exposed_bytes -= other.exposed_bytes;
    }
}

/// What is promised in a run. None of it is in records: a run that is recovered between two parts
/// checks the rest as a whole.
#[derive(Default)]
pub(in crate::run) struct Promised {
    by: BTreeMap<Pid, Asked>,
    all: Asked,
}

impl Promised {
    /// The promises to all processes together.
    pub(in crate::run) fn all(&self) -> Asked {
        self.all
    }

    /// Returns whether the output of a process was checked before.
    pub(in crate::run) fn covers(&self, pid: Pid) -> bool {
        !self.by.is_empty() && self.by.contains_key(&pid)
    }

    /// Notes that a process has given these commands, and owes those.
    #[inline]
    pub(in crate::run) fn give(&mut self, pid: Pid, given: &[Command], owed: Option<Owed<'_>>) {
        if owed.is_some() || !self.by.is_empty() {
            self.note(pid, given, owed);
        }
    }

    fn note(&mut self, pid: Pid, given: &[Command], owed: Option<Owed<'_>>) {
        match (self.by.get_mut(&pid), owed) {
            (_, None) => self.end(pid),
            (Some(promised), Some(_)) => {
                let given = Asked::of(given);
                promised.subtract(given);
                self.all.subtract(given);
            }
            (None, Some(owed)) => {
                let promised = Asked::of(owed.commands);
                self.by.insert(pid, promised);
                self.all.add(promised);
            }
        }
    }

    /// Notes that a process owes nothing any more.
    pub(in crate::run) fn end(&mut self, pid: Pid) {
        if let Some(promised) = self.by.remove(&pid) {
            self.all.subtract(promised);
        }
    }
}
