//! What a step returned, in parts small enough to be committed in a few slices.
//!
//! A guest may return thousands of commands and megabytes from one step, and a commit decides all
//! of its commands under the run's lock, on one worker. So what exceeds one part becomes further
//! steps of the process, in which the guest is not called: each gives the next part and says
//! `ready`, and the last one has the status. These steps take no events: what arrives meanwhile
//! waits for the guest's next step. The records say which steps others follow, so that a run can be
//! recovered between two of them. How a step is divided depends only on what it returned: it is in
//! the records as these steps, and is divided the same way when it is replayed.

use crate::process::{Action, Command, Owed, Status};

/// The weight of a part. Derived: a spawn within a run takes 2 to 3 µs (`cargo bench --bench run`),
/// so a commit of 64 takes a fraction of a slice.
const WEIGHT_MAX: usize = 256;

/// The weight of a command: that of a spawn makes a process.
const SPAWN_WEIGHT: usize = 4;
const OTHER_WEIGHT: usize = 1;

/// Bytes of payloads that weigh as much as a command. A part is at most a MiB, or one command.
const BYTES_PER_WEIGHT: usize = 4 << 10;

/// A spawn's `narrow` is read under the lock, byte by byte.
const NARROW_FACTOR: usize = 16;

/// The parts of a step that are still to be given.
pub(super) struct RemainingParts {
    status: Status,
    commands: std::vec::IntoIter<Command>,
}

impl RemainingParts {
    /// Takes the first part of what a step returned. If more remains, returns it, and the step's
    /// status is `ready` for now.
    pub(super) fn divide(status: Status, commands: &mut Vec<Command>) -> Result<Status, Self> {
        if commands.len() <= 1 || weight(commands) <= WEIGHT_MAX {
            return Ok(status);
        }
        let mut rest = Self { status, commands: std::mem::take(commands).into_iter() };
        let first = rest.next(commands);
        debug_assert!(first.is_none(), "what is one part was looked at before");
        Err(rest)
    }

    /// Gives the next part. Returns the step's status if it was the last one.
    pub(super) fn next(&mut self, commands: &mut Vec<Command>) -> Option<Status> {
        let mut weight = 0;
        while let Some(command) = self.commands.next() {
            weight += weight_of(&command);
            commands.push(command);
            let next = self.commands.as_slice().first().map_or(0, weight_of);
            if weight + next > WEIGHT_MAX {
                break;
            }
        }
        (self.commands.len() == 0).then(|| std::mem::replace(&mut self.status, Status::Ready))
    }

    pub(super) fn owed(&self) -> Owed<'_> {
        Owed { commands: self.commands.as_slice(), status: &self.status }
    }
}

fn weight(commands: &[Command]) -> usize {
    commands.iter().map(weight_of).sum()
}

fn weight_of(command: &Command) -> usize {
    let (weight, bytes) = match &command.action {
        Action::Spawn(spawn) => (
            SPAWN_WEIGHT,
            spawn.input.size() + spawn.narrow.as_ref().map_or(0, |narrow| narrow.as_bytes().len() * NARROW_FACTOR),
        ),
        Action::Call(call) => (OTHER_WEIGHT, call.args.size()),
        Action::Send(send) => (OTHER_WEIGHT, send.message.body.size()),
        Action::Expose { value, .. } => (OTHER_WEIGHT, value.size()),
        _ => (OTHER_WEIGHT, 0),
    };
    weight + bytes / BYTES_PER_WEIGHT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Micros, Payload, Spawn, Tag};

    fn parts(actions: Vec<Action>) -> Vec<(usize, Status)> {
        let tagged = (1..).zip(actions).map(|(tag, action)| Command { tag: Tag(tag), action });
        let mut commands: Vec<Command> = tagged.collect();
        let all = commands.len();
        let mut found = Vec::new();
        match RemainingParts::divide(Status::Idle, &mut commands) {
            Ok(status) => found.push((commands.len(), status)),
            Err(mut rest) => {
                found.push((commands.len(), Status::Ready));
                let mut last = None;
                while last.is_none() {
                    let before = commands.len();
                    last = rest.next(&mut commands);
                    found.push((commands.len() - before, last.clone().unwrap_or(Status::Ready)));
                }
            }
        }
        assert!(commands.iter().map(|command| command.tag.0).eq(1..=all as u64), "all of them, in their order");
        found
    }

    fn sleeps(count: usize) -> Vec<Action> {
        vec![Action::Sleep(Micros(1)); count]
    }

    fn sized(bytes: usize) -> Action {
        Action::Expose { query: "x".into(), value: Payload::Bytes(vec![0; bytes].into()) }
    }

    #[test]
    fn what_fits_is_one_part() {
        for count in [0, 1, 255, 256] {
            assert_eq!(parts(sleeps(count)), [(count, Status::Idle)]);
        }
        assert_eq!(parts(vec![sized(8 << 20)]), [(1, Status::Idle)]);
    }

    #[test]
    fn the_last_part_has_the_status() {
        assert_eq!(parts(sleeps(257)), [(256, Status::Ready), (1, Status::Idle)]);
        assert_eq!(parts(sleeps(768)), [(256, Status::Ready), (256, Status::Ready), (256, Status::Idle)]);
    }

    #[test]
    fn spawns_and_bytes_weigh_more() {
        let spawn = Action::Spawn(Box::new(Spawn {
            component: None,
            entry: "run".into(),
            input: Payload::NULL,
            name: None,
            link: false,
            detached: false,
            narrow: None,
            placement: None,
        }));
        assert_eq!(parts(vec![spawn; 65]), [(64, Status::Ready), (1, Status::Idle)]);
        let large = parts(vec![sized(1 << 20), sized(500 << 10), sized(500 << 10), sized(1 << 20)]);
        let sizes: Vec<_> = large.iter().map(|(count, _)| *count).collect();
        assert_eq!(sizes, [1, 2, 1]);
    }
}
