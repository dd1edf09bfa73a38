//! Ends attempts, items and nodes.

use super::attempt_keys::CallKey;
use super::blocks::ROOT;
use super::progress::{Cause, FAILURES_REPORTED_MAX, ItemFailure};
use super::scope::{size_of, value};
use super::state::{Failure, Item, Stage, Status};
use super::timers::TimerKind;
use super::{Interpreter, ItemKey, STATE_SIZE_MAX, kind, outcome};
use crate::process::{Answer, Context, Micros, Problem, ProblemClass};
use crate::workflow::expression::Size;
use crate::workflow::model::Retry;
use crate::workflow::plan::Action;
use serde_json::Value;
use std::sync::Arc;

/// The longest `retry-after` of a problem that is honoured: a day. Arbitrary.
const RETRY_AFTER_MAX: Micros = Micros(86_400_000_000);

impl Interpreter {
    /// Handles the answer to an attempt.
    pub(super) fn answered(&mut self, context: &mut Context<'_>, key: ItemKey, answer: Answer) {
        let answer = self.came(key, answer);
        let is_late = self.is_late(key, &answer);
        let item = self.item(key);
        let size = item.input.size();
        let (attempt, turn, number) = (item.attempt, item.turn, item.known_failures);
        let timed_out = item.timed_out || is_late;
        let deadline = item.deadline.take();
        self.in_flight_bytes -= size;
        if let Some(deadline) = deadline {
            self.timers.cancel(deadline);
        }
        self.fillable.insert(key.0);
        match answer {
            // Too late: the attempt ended with its time.
            _ if timed_out => self.attempt_timed_out(context, key),
            Ok(output) => {
                self.keep_call_key(key, turn, CallKey { number, may_have_happened: true });
                match self.retain(key.0, size_of(&output)) {
                    Ok(()) => self.turn_over(context.now, key, value(&output)),
                    Err(problem) => self.failed(key, attempt, problem),
                }
            }
            Err(problem) => {
                // What a guest did before it failed is unknown.
                let is_call = matches!(self.node(key.0).action, Action::Call { .. });
                let known = is_call && !problem.may_have_happened && problem.class != ProblemClass::Uncertain;
                self.attempt_failed(context, key, Arc::unwrap_or_clone(problem), known);
            }
        }
        self.end_if_finished(key.0);
    }

    /// Handles a due timer of an item.
    pub(super) fn timer(&mut self, context: &mut Context<'_>, key: ItemKey, why: TimerKind) {
        let is_wait = matches!(self.node(key.0).action, Action::Wait(_) | Action::Until(_) | Action::Any { .. });
        let item = self.item(key);
        match (why, item.stage) {
            (TimerKind::Timeout, Stage::InFlight(tag)) => {
                item.timed_out = true;
                item.deadline = None;
                self.stop(context, tag);
            }
            (TimerKind::Timeout, Stage::Inside(place)) => {
                item.timed_out = true;
                item.deadline = None;
                self.stop_block(context, place);
            }
            (TimerKind::Wake, Stage::Sleeping) if item.is_between => self.begin_turn(key),
            (TimerKind::Wake, Stage::Sleeping) if is_wait => {
                let came = self.came_by_time(key);
                self.fillable.insert(key.0);
                match came {
                    Ok(value) => self.turn_over(context.now, key, value),
                    Err(problem) => self.failed(key, 0, problem),
                }
                self.end_if_finished(key.0);
            }
            (TimerKind::Wake, Stage::Sleeping) => {
                item.stage = Stage::Queued;
                item.wait = None;
                self.running(key.0).queued.insert(key.1);
                self.fillable.insert(key.0);
            }
            (stale, stage) => unreachable!("invariant: {stale:?} is taken back before {stage:?}"),
        }
    }

    pub(super) fn attempt_failed(&mut self, context: &mut Context<'_>, key: ItemKey, problem: Problem, known: bool) {
        let retry = self.node(key.0).retry;
        let may_go_on = !self.block(key.0).is_halted && !self.running(key.0).stopped;
        let size = Size::bytes(self.item(key).input.size());
        let has_room = self.check_room(size).is_ok();
        let item = self.item(key);
        // If an earlier attempt under this key may have happened, the key stays, whatever the
        // outcome of this one.
        item.may_have_happened |= !known;
        item.known_failures += u32::from(!item.may_have_happened);
        let attempt = item.attempt;
        match retry {
            Some(retry)
                if may_go_on && has_room && problem.class == ProblemClass::Retryable && attempt <= retry.max =>
            {
                item.stage = Stage::Sleeping;
                self.retained += size;
                let delay = self.backoff(context, key, attempt, retry, problem.retry_after);
                let until = context.now.saturating_add(delay);
                self.timers.set(until, key, TimerKind::Wake);
                self.report_retry(context, key, attempt, &problem, delay);
                let cause = Cause::Attempt {
                    attempt: attempt + 1,
                    attempts_max: retry.max.saturating_add(1),
                    kind: problem.kind.into_owned(),
                    title: problem.title.into_owned(),
                };
                self.waits(key, context.now, Some(until), cause);
            }
            _ => self.failed(key, attempt, problem),
        }
    }

    /// The wait before the next attempt. The jitter depends only on the run's seed and on the node,
    /// item and attempt.
    fn backoff(
        &self,
        context: &Context<'_>,
        key: ItemKey,
        attempt: u32,
        retry: Retry,
        after: Option<Micros>,
    ) -> Micros {
        let doubled = retry.backoff_min.0.saturating_mul(1 << (attempt - 1).min(40)).min(retry.backoff_max.0);
        let place = format!("backoff/{}/{attempt}", self.key_path(key));
        let hash = blake3::keyed_hash(&context.init.seed, place.as_bytes());
        let bits = u32::from_le_bytes(hash.as_bytes()[..4].try_into().expect("invariant: a hash has 32 bytes"));
        let jitter = ((u128::from(doubled / 2) * u128::from(bits)) >> 32) as u64;
        let after = after.unwrap_or_default().min(RETRY_AFTER_MAX);
        Micros(doubled - jitter).max(after)
    }

    /// Counts a value that is retained from now on.
    pub(super) fn retain(&mut self, index: usize, size: Size) -> Result<(), Problem> {
        self.check_room(size)?;
        self.keep(index, size);
        Ok(())
    }

    pub(super) fn check_room(&self, size: Size) -> Result<(), Problem> {
        if !(self.retained + size).fits(STATE_SIZE_MAX) {
            let Size { bytes, values } = STATE_SIZE_MAX;
            let detail = format!("the results of the run's steps have more than {bytes} bytes, or {values} values");
            return Err(Problem::new(kind::STATE_TOO_LARGE, "The run keeps too much").with_detail(detail));
        }
        Ok(())
    }

    /// Ends an item with its result, which is counted already.
    pub(super) fn succeeded(&mut self, (index, item): ItemKey, result: Value) {
        self.can_be_undone((index, item), &result);
        let running = self.running(index);
        running.results[item] = result;
        if running.items.is_some() {
            running.succeeded.insert(item);
        }
        let ended = running.live.remove(&item);
        self.nodes[index].done += 1;
        self.save_key_number((index, item), ended.as_ref());
        self.changed.insert(index);
    }

    /// Ends an item that failed for good.
    pub(super) fn failed(&mut self, (index, item): ItemKey, attempt: u32, mut problem: Problem) {
        self.may_be_done((index, item), &problem);
        self.forget_last((index, item));
        let goes_on = self.node(index).continue_on_error;
        let running = self.running(index);
        let item_number = running.items.is_some().then_some(item);
        let ended = running.live.remove(&item);
        if item_number.is_some() {
            self.report_failure((index, item), attempt, &problem);
        }
        let running = self.running(index);
        if running.is_first(item_number) {
            problem.data = problem.data.map(outcome::carried);
            // It is retained twice: as it came, and as expressions see it.
            let size = problem.data.as_ref().map_or(Size::default(), |data| Size::of_text(data.as_str()));
            if self.retain(index, size + Size::bytes(size.bytes)).is_err() {
                problem.data = None;
            }
            let origin = ended.as_ref().and_then(|item| item.origin.clone());
            self.running(index).failure = Some(Failure { item: item_number, attempt, problem, origin });
        }
        let running = self.running(index);
        running.stopped |= !goes_on;
        // An item that waits for its next attempt gets no further one.
        let idle = if running.stopped { running.take_idle() } else { Vec::new() };
        self.save_key_number((index, item), ended.as_ref());
        for (item, state) in idle {
            self.timers.cancel_of((index, item));
            self.retained -= state.retained();
            self.save_key_number((index, item), Some(&state));
        }
        let state = &mut self.nodes[index];
        state.done += 1;
        state.failed += 1;
        self.changed.insert(index);
    }

    /// Reports the failure of an item.
    fn report_failure(&mut self, (index, item): ItemKey, attempt: u32, problem: &Problem) {
        let node = self.path(index);
        let state = &mut self.nodes[index];
        state.failures_reported += 1;
        if state.failures_reported <= FAILURES_REPORTED_MAX {
            self.failures.push(ItemFailure {
                node,
                item,
                attempt,
                kind: problem.kind.to_string(),
                title: problem.title.to_string(),
                detail: problem.detail.clone(),
            });
        }
    }

    /// Records the number in the keys of a further attempt at an item, and whether one under it may
    /// have happened.
    pub(super) fn save_key_number(&mut self, (index, number): ItemKey, item: Option<&Item>) {
        if let Some(item) = item {
            self.nodes[index].ended_items.again.record(number, item, item.may_have_happened);
            self.keep_number(index, number, item.turn, item.known_failures);
            let key = CallKey { number: item.known_failures, may_have_happened: item.may_have_happened };
            self.keep_call_key((index, number), item.turn, key);
            self.forget_call_keys((index, number), item.turn);
        }
    }

    /// Ends a node that has nothing left to run.
    pub(super) fn end_if_finished(&mut self, index: usize) {
        let Some(running) = &mut self.nodes[index].running else { return };
        if !running.live.is_empty() || (running.next < running.total && !running.stopped) {
            return;
        }
        if self.block(index).is_halted {
            return self.end(index, Status::Cancelled);
        }
        let mut running = self.nodes[index].running.take().expect("invariant: seen above");
        self.retained -= running.size;
        let state = &mut self.nodes[index];
        state.failure = running.failure.take();
        let failed = state.failure.is_some();
        if failed {
            state.retain_results(*running, state.node.continue_on_error);
        } else if running.items.is_some() {
            state.output = Value::Array(running.results);
        } else {
            state.output = running.results.into_iter().next().unwrap_or_default();
        }
        self.end(index, if failed { Status::Failed } else { Status::Succeeded });
    }

    /// Ends a node, and readies the nodes that waited for it alone.
    pub(super) fn end(&mut self, index: usize, status: Status) {
        let state = &mut self.nodes[index];
        debug_assert!(!state.status.is_end() && status.is_end(), "a node ends once");
        state.status = status;
        let mut released = Size::default();
        if let Some(running) = state.running.take() {
            // Nothing begins after the workflow itself was stopped.
            released = if state.block == ROOT { released } else { running.size };
            state.retain_results(*running, false);
        }
        if let Some(failure) = &state.failure {
            state.error = outcome::error_value(&state.node, failure);
        }
        let dependents = std::mem::take(&mut state.dependents);
        self.retained -= released;
        self.fillable.remove(&index);
        self.changed.insert(index);
        self.count_end(index);
        for dependent in dependents {
            let state = &mut self.nodes[dependent];
            state.open -= 1;
            if state.open == 0 && state.status == Status::Waiting {
                self.ready.insert(dependent);
            }
        }
    }
}
