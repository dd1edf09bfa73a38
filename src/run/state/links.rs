//! Links and monitors.
//!
//! **Which processes a process may end.** `stop` asks another process to end, and a link may come
//! to that. So both reach only the process itself, its descendants, and processes that have
//! accepted it: by a name, which exists to be reached, or by a link to the asker. A detached
//! process whose parent is gone is no descendant of any process. A monitor changes nothing for the
//! other process, and reaches every process.
//!
//! The process that asks for a link or a monitor gets the end of the other as `exited`, by the tag
//! of its own command. A link also cancels: an ending other than `completed` on either side cancels
//! the other. The side that did not ask gets no `exited`, for it has no command that the event
//! could name.

use super::endings::Endings;
use super::run_state::State;
use super::table::Entry;
use crate::process::{Event, Exit, Pid, Problem, Tag, Target, problem::kind};
use crate::run::record::kinds::Decision;

/// What the process asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Tie {
    Monitor,
    Link,
}

impl State {
    /// Resolves a target to a process, and says whether it lives.
    pub(in crate::run) fn look_up(&self, pid: Pid, target: &Target) -> Decision {
        match self.resolve(pid, target) {
            Some(target) if self.living(target).is_some() => Decision::Meant(target),
            Some(target) => Decision::Gone { pid: target, ending: self.ending_of(target) },
            None => Decision::Gone { pid: Pid(0), ending: Endings::unknown("Nothing goes by that name or tag.") },
        }
    }

    /// Like [`Self::look_up`], for a command that may end the target.
    ///
    /// # Errors
    /// The target lives, and the process may not end it.
    pub(in crate::run) fn look_up_accepting(&self, pid: Pid, target: &Target) -> Result<Decision, Box<Problem>> {
        let decision = self.look_up(pid, target);
        match decision {
            Decision::Meant(target) if !self.accepts(target, pid) => Err(Box::new(
                Problem::new(kind::NOT_ACCEPTED, "The process has not accepted to be ended by this one").with_detail(
                    format!(
                        "Process {target} is no descendant of process {pid}, has no name, and is not linked to it."
                    ),
                ),
            )),
            decision => Ok(decision),
        }
    }

    /// Returns whether a living process may be ended by another.
    fn accepts(&self, pid: Pid, by: Pid) -> bool {
        let Some(entry) = self.table.get(pid) else { return false };
        let is_linked = |entry: &Entry| {
            let to = (by, Tag(0))..=(by, Tag(u64::MAX));
            entry.ties.as_ref().is_some_and(|ties| ties.watches.range(to).any(|(_, link)| *link))
        };
        pid == by || !entry.names().is_empty() || is_linked(entry) || self.descends(entry, by)
    }

    /// Returns whether a process is a descendant of another.
    fn descends(&self, entry: &Entry, from: Pid) -> bool {
        let mut parent = entry.parent;
        while let Some((pid, _)) = parent {
            if pid == from {
                return true;
            }
            parent = self.table.get(pid).and_then(|entry| entry.parent);
        }
        false
    }

    fn ending_of(&self, pid: Pid) -> crate::process::Ending {
        if pid.0 == 0 || pid.0 > self.last_pid {
            return Endings::unknown("There never was one with that pid.");
        }
        self.endings.of(pid)
    }

    pub(in crate::run) fn apply_tie(&mut self, pid: Pid, tag: Tag, tie: Tie, decision: Decision) {
        match decision {
            Decision::Meant(target) if target != pid => self.tie(pid, tag, target, tie == Tie::Link),
            Decision::Gone { pid: gone, ending } => {
                self.post(pid, Event::Exited(Box::new(Exit { pid: gone, by: tag, ending })));
            }
            _ => {}
        }
    }

    pub(in crate::run) fn tie(&mut self, pid: Pid, tag: Tag, target: Pid, link: bool) {
        let Some(entry) = self.table.get_mut(target) else { return };
        entry.ties_mut().watchers.insert((pid, tag), link);
        let Some(entry) = self.table.get_mut(pid) else { return };
        entry.ties_mut().watches.insert((target, tag), link);
        self.ties += 1;
    }

    /// Removes everything that ties a process to another: its own links and monitors, and links of
    /// the other to it.
    pub(in crate::run) fn untie(&mut self, pid: Pid, other: Pid) {
        let range = (other, Tag(0))..=(other, Tag(u64::MAX));
        let Some(ties) = self.table.get(pid).and_then(|entry| entry.ties.as_ref()) else { return };
        let own: Vec<Tag> = ties.watches.range(range.clone()).map(|((_, tag), _)| *tag).collect();
        let others: Vec<Tag> =
            ties.watchers.range(range).filter(|(_, link)| **link).map(|((_, tag), _)| *tag).collect();
        for tag in own {
            self.remove_tie(pid, tag, other);
        }
        for tag in others {
            self.remove_tie(other, tag, pid);
        }
    }

    fn remove_tie(&mut self, pid: Pid, tag: Tag, target: Pid) {
        if let Some(entry) = self.table.get_mut(pid) {
            entry.ties_mut().watches.remove(&(target, tag));
        }
        if let Some(entry) = self.table.get_mut(target) {
            entry.ties_mut().watchers.remove(&(pid, tag));
        }
        self.ties -= 1;
    }
}
