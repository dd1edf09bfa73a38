//! Links and monitors.
//!
//! Whoever asks for one hears the end of the other process as `exited`, by the tag of its own command. A link also cancels: an ending
//! other than `completed` on either side cancels the other. The side that did not ask hears no `exited`, for it has no command that
//! the event could name.

use super::endings::Endings;
use super::record::Decision;
use super::state::State;
use crate::process::{Event, Exit, Pid, Tag, Target};

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    Monitor,
    Link,
}

impl State {
    /// Which process a target is, and whether it lives.
    pub(super) fn look_up(&self, pid: Pid, target: &Target) -> Decision {
        match self.resolve(pid, target) {
            Some(target) if self.living(target).is_some() => Decision::Meant(target),
            Some(target) => Decision::Gone { pid: target, ending: self.ending_of(target) },
            None => Decision::Gone { pid: Pid(0), ending: Endings::unknown("Nothing goes by that name or tag.") },
        }
    }

    fn ending_of(&self, pid: Pid) -> crate::process::Ending {
        if pid.0 == 0 || pid.0 > self.last_pid {
            return Endings::unknown("There never was one with that pid.");
        }
        self.endings.of(pid)
    }

    pub(super) fn apply_tie(&mut self, pid: Pid, tag: Tag, tie: Tie, decision: Decision) {
        match decision {
            Decision::Meant(target) if target != pid => self.tie(pid, tag, target, tie == Tie::Link),
            Decision::Gone { pid: gone, ending } => {
                self.post(pid, Event::Exited(Box::new(Exit { pid: gone, by: tag, ending })));
            }
            _ => {}
        }
    }

    pub(super) fn tie(&mut self, pid: Pid, tag: Tag, target: Pid, link: bool) {
        let Some(entry) = self.table.get_mut(target) else { return };
        entry.ties_mut().watchers.insert((pid, tag), link);
        let Some(entry) = self.table.get_mut(pid) else { return };
        entry.ties_mut().watches.insert((target, tag), link);
        self.ties += 1;
    }

    /// Takes back everything that ties a process to another: its own links and monitors, and links of the other to it.
    pub(super) fn untie(&mut self, pid: Pid, other: Pid) {
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
