//! The obligation to answer a call exactly once.

use super::problems;
use super::statistics::Counters;
use crate::process::Answer;
use crate::run::Reply;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// The obligation to answer one call. However the call ends, it is answered once: dropping the
/// obligation answers `host-fault`, unless the call was abandoned.
pub(super) struct AnswerObligation {
    reply: Option<Arc<dyn Reply>>,
    counters: Arc<Counters>,
    abandoned: CancellationToken,
    payload_bytes_max: u64,
    /// Whether the call may be sent again: always true before the handler has seen it.
    repeatable: bool,
    /// Since when the handler sees the call, if it does.
    begun: Option<Instant>,
}

impl AnswerObligation {
    pub(super) fn new(
        reply: Arc<dyn Reply>,
        counters: Arc<Counters>,
        abandoned: CancellationToken,
        payload_bytes_max: u64,
    ) -> Self {
        Self { reply: Some(reply), counters, abandoned, payload_bytes_max, repeatable: true, begun: None }
    }

    /// Notes that the handler sees the call from now on.
    pub(super) fn mark_begun(&mut self, repeatable: bool) {
        self.repeatable = repeatable;
        self.begun = Some(Instant::now());
        Counters::add(&self.counters.running);
    }

    /// Whether the answer is no longer awaited.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.is_cancelled() || self.reply.as_ref().is_none_or(|reply| reply.is_abandoned())
    }

    /// Answers the waiting run.
    pub(super) fn answer(mut self, answer: Answer) {
        let answer = self.bound_and_count(answer);
        if let Some(reply) = self.reply.take() {
            reply.answer(answer);
        }
    }

    /// Returns the answer to a caller that is still on the stack.
    pub(super) fn answer_inline(mut self, answer: Answer) -> Answer {
        self.reply = None;
        self.bound_and_count(answer)
    }

    /// Returns the answer to a call whose handler panicked.
    pub(super) fn panicked(mut self) -> Answer {
        self.reply = None;
        Counters::add(&self.counters.faults);
        Err(Arc::new(problems::host_fault("the handler panicked", self.repeatable)))
    }

    /// Bounds the answer and counts it.
    fn bound_and_count(&self, answer: Answer) -> Answer {
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
        Counters::add(match (&answer, self.begun.is_some()) {
            (Ok(_), _) => &self.counters.answered,
            (Err(_), true) => &self.counters.failed,
            (Err(_), false) => &self.counters.refused,
        });
        answer
    }
}

impl Drop for AnswerObligation {
    fn drop(&mut self) {
        if let Some(begun) = self.begun {
            self.counters.durations.add_since(begun);
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
