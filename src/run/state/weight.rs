//! What a run holds in the host, in bytes: what waits in queues, what belongs to commands without
//! an answer, names, and answers that wait.
//!
//! All of it is counted in [`State::bytes`], whichever of the run's processes has it, and removing
//! an item subtracts as much as was added. Beside what an item carries it counts
//! [`Bounds::item_bytes`](crate::run::record::kinds::Bounds::item_bytes), so that many small items
//! are bounded as few large ones are. Like the rest of the state it is a pure function of the
//! records: runs of releases that counted only what is carried have 0 there, and count as they did.

use super::outstanding::Pending;
use super::run_state::State;
use crate::process::{Answer, Ending, Event, Payload, Problem};

/// What a step took from the front of its queue.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::run) struct Consumed {
    pub(in crate::run) events: u32,
    pub(in crate::run) mail: u32,
    pub(in crate::run) mail_bytes: u64,
    /// Bytes that the events carry.
    pub(in crate::run) bytes: u64,
    /// Bytes of the texts of problems in them, which are not part of that.
    pub(in crate::run) problem_bytes: u64,
    /// Whether one of them asks the process to end.
    pub(in crate::run) cancel: bool,
}

impl Consumed {
    #[inline]
    pub(in crate::run) fn of(events: &[Event]) -> Self {
        let mut took = Self { events: events.len() as u32, ..Self::default() };
        for event in events {
            let bytes = event_bytes(event);
            took.bytes += bytes;
            took.problem_bytes += event_problem_bytes(event);
            took.cancel |= matches!(event, Event::Cancel { .. });
            if matches!(event, Event::Message(_)) {
                took.mail += 1;
                took.mail_bytes += bytes;
            }
        }
        took
    }
}

/// The bytes of an event that its sender chose.
#[inline]
pub(in crate::run) fn event_bytes(event: &Event) -> u64 {
    match event {
        Event::Completed { answer: Ok(payload), .. } => payload.size() as u64,
        Event::Message(message) => message_bytes(&message.topic, &message.body),
        _ => 0,
    }
}

pub(in crate::run) fn message_bytes(topic: &str, body: &Payload) -> u64 {
    (topic.len() + body.size()) as u64
}

#[inline]
fn event_problem_bytes(event: &Event) -> u64 {
    match event {
        Event::Completed { answer: Err(problem), .. } => problem_bytes(problem),
        Event::Exited(exit) => ending_bytes(&exit.ending),
        Event::Cancel { reason, .. } => reason.len() as u64,
        Event::Completed { answer: Ok(_), .. } | Event::Message(_) => 0,
    }
}

/// Bytes of the texts of an ending. All processes that get it share them; they count for each all
/// the same, as a bound.
pub(in crate::run) fn ending_bytes(ending: &Ending) -> u64 {
    match ending {
        Ending::Completed => 0,
        Ending::Failed(problem) => problem_bytes(problem),
        Ending::Cancelled(reason) => reason.len() as u64,
    }
}

fn problem_bytes(problem: &Problem) -> u64 {
    let texts = problem.kind.len() + problem.title.len() + problem.detail.as_ref().map_or(0, String::len);
    (texts + problem.data.as_ref().map_or(0, |data| data.as_bytes().len())) as u64
}

impl State {
    /// What this many items count that carry this many bytes. `texts` are not counted if items are
    /// not.
    #[inline]
    pub(in crate::run) fn weigh(&self, items: u64, bytes: u64, texts: u64) -> u64 {
        match self.bounds.item_bytes {
            0 => bytes,
            item_bytes => items.saturating_mul(item_bytes).saturating_add(bytes).saturating_add(texts),
        }
    }

    pub(in crate::run) fn weight_of_event(&self, event: &Event) -> u64 {
        self.weigh(1, event_bytes(event), event_problem_bytes(event))
    }

    #[inline]
    pub(in crate::run) fn weight_of_batch(&self, took: Consumed) -> u64 {
        self.weigh(took.events.into(), took.bytes, took.problem_bytes)
    }

    pub(in crate::run) fn weight_of_name(&self, name: &str) -> u64 {
        self.weigh(1, 0, name.len() as u64)
    }

    pub(in crate::run) fn weight_of_pending(&self, pending: &Pending) -> u64 {
        match pending {
            Pending::Sleep(_) => self.weigh(1, 0, 0),
            Pending::Spawn { bytes, .. } => self.weigh(1, *bytes, 0),
            Pending::Call(call) => self.weigh(1, call.bytes, (call.handler.len() + call.key.len()) as u64),
            Pending::Signal(signal) => self.weigh(1, signal.bytes, signal.names_bytes()),
        }
    }

    /// What an answer counts that waits for the descendants of the process that gave it.
    pub(in crate::run) fn weight_of_waiting(&self, answer: &Answer) -> u64 {
        let bytes = match answer {
            Ok(payload) => payload.size() as u64,
            Err(problem) => problem_bytes(problem),
        };
        self.weigh(1, 0, bytes)
    }

    /// Returns whether this many more bytes are within the run's own bounds.
    #[inline]
    pub(in crate::run) fn is_bounded(&self, more: u64) -> bool {
        more == 0 || self.bytes.saturating_add(more) <= self.bounds.bytes
    }

    /// Returns whether this many more bytes are within the run's bounds and within the host's room
    /// for it. The result depends on other runs: only a decision that is recorded may ask.
    #[inline]
    pub(in crate::run) fn has_room(&self, more: u64) -> bool {
        more == 0 || self.is_bounded(more) && self.held().saturating_add(more) <= self.ceiling
    }

    /// Says why there is no room for this many more bytes.
    pub(in crate::run) fn no_room(&self, more: u64) -> String {
        if !self.is_bounded(more) {
            return format!("The run's processes hold {} bytes of {}.", self.bytes, self.bounds.bytes);
        }
        format!(
            "The run holds {} bytes; of what the host has for all its runs it may hold {} now (`HostBuilder::held_bytes_max`).",
            self.held(),
            self.ceiling
        )
    }

    /// All bytes that the host holds for the run's processes.
    #[inline]
    pub(in crate::run) fn held(&self) -> u64 {
        self.bytes + self.signals.bytes() + self.exposed_bytes + self.kv.bytes() + self.endings.bytes()
    }
}
