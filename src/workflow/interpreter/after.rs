//! What runs after the steps: compensations, then the steps below `on`.
//!
//! # The order
//! 1. The steps end, and with them it is decided how the run ends: with its outputs, with the
//!    problem of the first step that failed, or cancelled. Nothing after that changes it, but a
//!    failure below `on` when all had succeeded.
//! 2. Unless they succeeded, what was done is undone (see [`undo`](super::undo)). What could not be
//!    is listed in the problem.
//! 3. `on.failure` or `on.cancel`, then `on.always`: each as a block whose steps see all steps of
//!    the workflow, and `.run.problem`.
//!
//! A cancelled run has its grace for all of it, less a margin in which the process ends by itself,
//! so that its problem says what was not undone. A cancel that comes when the steps have ended
//! only sets that time.
//!
//! - **A1** A block runs alone: the next begins when it has ended and nothing is in flight.

use super::blocks::{AfterBlock, ROOT};
use super::outcome::problem_value;
use super::timers::TimerKind;
use super::undo::{Undo, UndoReport};
use super::{Interpreter, ItemKey, kind};
use crate::process::{Context, Json, Micros, Payload, Problem, ProblemClass, Status as StepStatus};
use crate::workflow::model::Occasion;
use crate::workflow::plan::Block;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// What of a grace is left when the process ends by itself: a tenth, at most this. Arbitrary: time
/// for a step and its commit.
const MARGIN_MAX: Micros = Micros(1_000_000);

/// The item of the timer of the grace.
const OF_NO_ITEM: ItemKey = (usize::MAX, 0);

/// Most failures below `on` that the run's problem names. Arbitrary.
const FAILURES_MAX: usize = 20;

/// What runs after the steps, once they have ended.
#[derive(Debug, Default)]
pub(super) struct After {
    /// How the steps ended. `None` while they run.
    result: Option<Result<Payload, Problem>>,
    /// The lists that are still to run.
    occasions: VecDeque<Occasion>,
    /// The block that runs.
    place: Option<usize>,
    report: UndoReport,
    /// Steps below `on` that failed, with their problems, and how many more.
    failures: Vec<Problem>,
    failures_more: usize,
    /// Whether the time is over.
    is_over: bool,
}

impl After {
    /// Whether the steps have ended, and other blocks run.
    pub(super) fn has_begun(&self) -> bool {
        self.result.is_some()
    }
}

impl Interpreter {
    /// Whether nothing runs: the steps, or what follows them.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_done = match self.after.result {
            None => self.blocks.get(ROOT).is_done(),
            Some(_) => self.after.place.is_none(),
        };
        is_done && self.in_flight.is_empty()
    }

    /// Begins the next block, or ends the run.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) -> Option<StepStatus> {
        if !self.after.has_begun() {
            let result = self.result(context);
            if self.plan.on.is_empty() && (result.is_ok() || self.undos.is_empty()) {
                return Some(self.end_with(context, result));
            }
            self.run["problem"] = result.as_ref().err().map_or(Value::Null, |problem| json!(problem_value(problem)));
            let reaction = match (&result, &self.cancelled) {
                (Ok(_), _) => None,
                (Err(_), Some(_)) => Some(Occasion::Cancel),
                (Err(_), None) => Some(Occasion::Failure),
            };
            self.after.occasions = reaction.into_iter().chain([Occasion::Always]).collect();
            self.after.result = Some(result);
        }
        if self.begin_next() {
            return None;
        }
        Some(self.end_after(context))
    }

    /// Begins the next block. Returns whether there is one.
    fn begin_next(&mut self) -> bool {
        if matches!(self.after.result, Some(Err(_))) {
            while let Some(undo) = self.undos.pop() {
                let problem = self.run["problem"].clone();
                match self.begin_undo(undo, &problem) {
                    Ok(place) => {
                        self.after.place = Some(place);
                        return true;
                    }
                    Err((undo, problem)) => self.left_undone(undo, &problem, false),
                }
            }
            if !self.after.report.is_empty() {
                let mut data = self.run["problem"]["data"].as_object().cloned().unwrap_or_default();
                self.after.report.write(&mut data);
                self.run["problem"]["data"] = Value::Object(data);
            }
        }
        while let Some(occasion) = self.after.occasions.pop_front() {
            let Some((_, block)) = self.plan.on.iter().find(|(on, _)| *on == occasion) else { continue };
            let (block, path) = (Arc::clone(block), occasion.path());
            let keys = format!("{path}/0/{}/", self.generation);
            self.after.place =
                Some(self.begin_after(&block, AfterBlock::On(Arc::clone(&block)), path + ".", keys, false));
            return true;
        }
        false
    }

    /// Ends a block that follows the steps.
    pub(super) fn finish_after(&mut self, context: &mut Context<'_>, place: usize) {
        let failed: Vec<usize> = self.failed_nodes(place).collect();
        let first = failed.first().map(|index| self.origin_of(*index).0);
        let problems: Vec<Problem> = failed.iter().map(|index| self.failure_of(*index)).collect();
        let has_acted = first.is_some() && self.has_acted(place);
        self.report_ended(context, place, true);
        self.after.place = None;
        match self.remove_block(place).after {
            Some(AfterBlock::Undo(mut undo, seen)) => {
                undo.seen = Ok(seen);
                match first {
                    None => self.was_undone(&undo),
                    Some(problem) => self.left_undone(*undo, &problem, has_acted),
                }
            }
            _ => {
                for problem in problems {
                    if self.after.failures.len() < FAILURES_MAX {
                        self.after.failures.push(problem);
                    } else {
                        self.after.failures_more += 1;
                    }
                }
            }
        }
    }

    /// Sets when a cancelled run ends by itself, if something is to follow the steps: again, if the
    /// host was away when that time came.
    pub(super) fn set_deadline(&mut self, context: &Context<'_>, grace: Micros) {
        if !self.plan.ends_by_steps() {
            return;
        }
        let margin = Micros(grace.0 / 10).min(MARGIN_MAX);
        let deadline = context.now.saturating_add(Micros(grace.0 - margin.0));
        self.timers.cancel_of(OF_NO_ITEM);
        self.timers.set(deadline, OF_NO_ITEM, TimerKind::Grace);
    }

    /// Notes that the grace of a cancelled run is over.
    pub(super) fn grace_is_over(&mut self) {
        self.after.is_over = true;
    }

    /// Ends the run at once if its grace is over: the host would end it without a word.
    pub(super) fn give_up(&mut self, context: &mut Context<'_>) -> Option<StepStatus> {
        if !self.after.is_over {
            return None;
        }
        if !self.after.has_begun() {
            self.after.result = Some(self.result(context));
        }
        if matches!(self.after.result, Some(Err(_))) {
            self.leave_undo();
            while let Some(undo) = self.undos.pop() {
                self.left_undone(undo, &no_time(), false);
            }
        }
        Some(self.end_after(context))
    }

    /// Leaves the compensation that runs as it is.
    pub(super) fn leave_undo(&mut self) {
        let Some(place) = self.after.place.take() else { return };
        let has_acted = self.has_acted(place);
        let Some(AfterBlock::Undo(mut undo, seen)) = self.remove_block(place).after else { return };
        undo.seen = Ok(seen);
        let class = if has_acted { ProblemClass::Uncertain } else { ProblemClass::Definite };
        self.left_undone(*undo, &no_time().with_class(class), has_acted);
    }

    /// Whether a compensation that did not succeed has done something, or may have.
    fn has_acted(&self, place: usize) -> bool {
        self.nodes_in(place).any(|index| self.nodes[index].may_have_acted())
    }

    /// Notes a success that was undone.
    fn was_undone(&mut self, undo: &Undo) {
        self.note_undone(undo, true);
        self.after.report.add(undo, Ok(()), false);
    }

    /// Notes a success that was not undone, and whether it may be all the same.
    fn left_undone(&mut self, undo: Undo, problem: &Problem, has_acted: bool) {
        self.note_undone(&undo, false);
        self.after.report.add(&undo, Err(problem), has_acted);
        self.keep_not_undone(undo, has_acted);
    }

    /// The final status, when all that follows the steps has ended.
    fn end_after(&mut self, context: &mut Context<'_>) -> StepStatus {
        let after = std::mem::take(&mut self.after);
        let mut failures = after.failures.into_iter();
        let result = match after.result.unwrap_or_else(|| Ok(Payload::NULL)) {
            Ok(output) => match failures.next() {
                None => Ok(output),
                Some(problem) => Err(problem),
            },
            Err(problem) => Err(problem),
        };
        let result = result.map_err(|mut problem| {
            let mut data = match problem.data.as_ref().map(Json::to_value) {
                Some(Value::Object(data)) => data,
                _ => serde_json::Map::new(),
            };
            if !after.report.is_empty() {
                after.report.write(&mut data);
                if let Some(left) = after.report.left() {
                    let detail = problem.detail.take().unwrap_or_default();
                    let separator = if detail.is_empty() { "" } else { "; " };
                    problem.detail = Some(format!("{detail}{separator}{left}"));
                }
            }
            let others: Vec<Value> = failures.map(|problem| Value::Object(problem_value(&problem))).collect();
            if !others.is_empty() {
                data.insert("on".to_owned(), json!(others));
            }
            if after.failures_more > 0 {
                data.insert("on-not-listed".to_owned(), json!(after.failures_more));
            }
            if !data.is_empty() {
                problem.data = Some(Json::from_value(&data));
            }
            problem
        });
        self.end_with(context, result)
    }

    fn end_with(&mut self, context: &mut Context<'_>, result: Result<Payload, Problem>) -> StepStatus {
        self.timers.clear(context);
        match result {
            Ok(output) => StepStatus::Complete(output),
            Err(problem) => StepStatus::Failed(problem.into()),
        }
    }

    /// Begins a block that follows the steps.
    pub(super) fn begin_after(
        &mut self,
        block: &Arc<Block>,
        after: AfterBlock,
        path: String,
        keys: String,
        is_of_list: bool,
    ) -> usize {
        let state = super::blocks::BlockState::after(after, path, keys, is_of_list);
        self.place_block(block, state)
    }
}

fn no_time() -> Problem {
    Problem::new(kind::NO_TIME, "The time to end was over")
}
