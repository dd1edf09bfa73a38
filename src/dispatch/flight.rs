//! Calls between their dispatch and their answer.

use super::problems;
use crate::process::{Answer, Pid, Tag};
use crate::run::Reply;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// So many locks share the table of calls in flight. Arbitrary.
const SHARDS: usize = 16;

/// Names a call in flight.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) run: Arc<str>,
    pub(super) pid: Pid,
    pub(super) tag: Tag,
}

/// The calls in flight, so that they can be abandoned.
#[derive(Default)]
pub(super) struct Flights {
    shards: [Mutex<HashMap<Key, Entry>>; SHARDS],
    numbers: AtomicU64,
}

struct Entry {
    /// Tells two flights of one key apart: after a recovery a call may be dispatched again while the older one is still ending.
    number: u64,
    abandoned: CancellationToken,
}

/// Stands in the table until it is dropped.
pub(super) struct Flight {
    flights: Arc<Flights>,
    key: Key,
    number: u64,
}

impl Flights {
    /// Enters a call. An older one of the same key is abandoned: its answer could not be told from this one's.
    pub(super) fn enter(self: &Arc<Self>, key: Key, abandoned: CancellationToken) -> Flight {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let older = self.shard(&key).lock().insert(key.clone(), Entry { number, abandoned });
        if let Some(older) = older {
            older.abandoned.cancel();
        }
        Flight { flights: Arc::clone(self), key, number }
    }

    /// Tells a call that nobody waits for it. False: it is not in flight.
    pub(super) fn abandon(&self, key: &Key) -> bool {
        let entry = self.shard(key).lock().remove(key);
        entry.inspect(|entry| entry.abandoned.cancel()).is_some()
    }

    /// How many calls are in flight.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, key: &Key) -> &Mutex<HashMap<Key, Entry>> {
        &self.shards[(key.pid.0.wrapping_mul(31) ^ key.tag.0) as usize % SHARDS]
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut shard = self.flights.shard(&self.key).lock();
        if shard.get(&self.key).is_some_and(|entry| entry.number == self.number) {
            shard.remove(&self.key);
        }
    }
}

/// What one handler's calls have come to.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) calls: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) running: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) faults: AtomicU64,
    pub(super) abandoned: AtomicU64,
}

/// What one handler's calls have come to, since the dispatcher was built.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct HandlerStatistics {
    /// Calls that came.
    pub calls: u64,
    /// Calls that the handler never saw: bad arguments, no grant, too many.
    pub refused: u64,
    /// Calls that wait for their turn.
    pub waiting: u64,
    /// Calls that run.
    pub running: u64,
    /// Calls that were answered well.
    pub answered: u64,
    /// Calls that were answered with a problem of the handler's.
    pub failed: u64,
    /// Calls that ended in a panic, or with the host.
    pub faults: u64,
    /// Calls that ended because nobody waited any more.
    pub abandoned: u64,
}

impl Counters {
    pub(super) fn read(&self, waiting: usize) -> HandlerStatistics {
        // Relaxed: each figure stands for itself.
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HandlerStatistics {
            calls: get(&self.calls),
            refused: get(&self.refused),
            waiting: waiting as u64,
            running: get(&self.running),
            answered: get(&self.answered),
            failed: get(&self.failed),
            faults: get(&self.faults),
            abandoned: get(&self.abandoned),
        }
    }

    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The duty to answer one call. Whatever becomes of the call, it is answered once: dropping the duty is answered `host-fault`,
/// unless nobody waits.
pub(super) struct AnswerObligation {
    reply: Option<Arc<dyn Reply>>,
    counters: Arc<Counters>,
    abandoned: CancellationToken,
    payload_bytes_max: u64,
    /// Whether sending it again does no harm: of a call that its handler has not seen yet, that is so.
    repeatable: bool,
    has_begun: bool,
}

impl AnswerObligation {
    pub(super) fn new(
        reply: Arc<dyn Reply>,
        counters: Arc<Counters>,
        abandoned: CancellationToken,
        payload_bytes_max: u64,
    ) -> Self {
        Self { reply: Some(reply), counters, abandoned, payload_bytes_max, repeatable: true, has_begun: false }
    }

    /// The handler sees the call from now on.
    pub(super) fn begin(&mut self, repeatable: bool) {
        self.repeatable = repeatable;
        self.has_begun = true;
        Counters::add(&self.counters.running);
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.is_cancelled() || self.reply.as_ref().is_none_or(|reply| reply.is_abandoned())
    }

    /// Gives the answer to the one who waits.
    pub(super) fn answer(mut self, answer: Answer) {
        let answer = self.settle(answer);
        if let Some(reply) = self.reply.take() {
            reply.answer(answer);
        }
    }

    /// The answer itself, for a caller that is still there.
    pub(super) fn answer_here(mut self, answer: Answer) -> Answer {
        self.reply = None;
        self.settle(answer)
    }

    /// The answer to a call in which the handler panicked.
    pub(super) fn panicked(mut self) -> Answer {
        self.reply = None;
        Counters::add(&self.counters.faults);
        Err(Arc::new(problems::host_fault("the handler panicked", self.repeatable)))
    }

    /// Counts the answer, and bounds it.
    fn settle(&self, answer: Answer) -> Answer {
        let size = match &answer {
            Ok(payload) => payload.size(),
            Err(problem) => {
                problem.detail.as_ref().map_or(0, String::len) + problem.data.as_ref().map_or(0, |d| d.as_bytes().len())
            }
        };
        let answer = if size as u64 > self.payload_bytes_max {
            Err(Arc::new(problems::answer_too_large(size, self.payload_bytes_max, self.repeatable)))
        } else {
            answer
        };
        Counters::add(match (&answer, self.has_begun) {
            (Ok(_), _) => &self.counters.answered,
            (Err(_), true) => &self.counters.failed,
            (Err(_), false) => &self.counters.refused,
        });
        answer
    }
}

impl Drop for AnswerObligation {
    fn drop(&mut self) {
        if self.has_begun {
            self.counters.running.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(reply) = self.reply.take() else { return };
        if self.abandoned.is_cancelled() || reply.is_abandoned() {
            Counters::add(&self.counters.abandoned);
            return;
        }
        Counters::add(&self.counters.faults);
        let why = if std::thread::panicking() { "the handler panicked" } else { "the handlers were shut down" };
        reply.answer(Err(Arc::new(problems::host_fault(why, self.repeatable))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tag: u64) -> Key {
        Key { run: "run".into(), pid: Pid::ROOT, tag: Tag(tag) }
    }

    #[test]
    fn an_older_flight_of_the_same_key_is_abandoned_and_does_not_remove_the_newer() {
        let flights = Arc::new(Flights::default());
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let older = flights.enter(key(1), first.clone());
        let newer = flights.enter(key(1), second.clone());
        assert!(first.is_cancelled() && !second.is_cancelled());
        drop(older);
        assert_eq!(flights.len(), 1);
        drop(newer);
        assert_eq!(flights.len(), 0);
    }

    #[test]
    fn abandoning_reaches_one_flight_only() {
        let flights = Arc::new(Flights::default());
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let _one = flights.enter(key(1), first.clone());
        let _two = flights.enter(key(2), second.clone());
        assert!(flights.abandon(&key(1)));
        assert!(!flights.abandon(&key(1)) && !flights.abandon(&key(3)));
        assert!(first.is_cancelled() && !second.is_cancelled());
    }
}
