//! Draws faults that a correct workflow survives.

use super::{CallNumber, Fault, Faults};
use crate::process::Micros;
use crate::sim::Dice;
use crate::testing::case_file::Case;
use crate::testing::execution::{Execution, SeenCall};
use crate::workflow::interpreter::progress::without_items;
use crate::workflow::model::{Durability, parse_duration};
use crate::workflow::plan::{Action, Plan, Template};
use serde_json::Value;

/// Most faults that are drawn for one execution. Arbitrary: more hide each other.
const DRAWN_MAX: u64 = 4;
/// The longest delay that is drawn where no step has a timeout. Arbitrary.
const PATIENCE_MAX: Micros = Micros(3_600_000_000);
/// The share of the shortest timeout that a delay may have. Arbitrary: delays add up.
const PATIENCE_SHARE: u64 = 20;

/// Draws faults for a case, which without faults is executed so.
pub(in crate::testing) fn draw(dice: &mut Dice, plan: &Plan, case: &Case, calm: &Execution) -> Faults {
    let drawing = Drawing { plan, case, calm, patience: patience(plan) };
    let count = 1 + dice.below(DRAWN_MAX);
    let mut faults = Vec::new();
    for _ in 0..count {
        if let Some(fault) = drawing.one(dice, &faults).filter(|fault| !faults.contains(fault)) {
            faults.push(fault);
        }
    }
    // A call that must not be repeated, and may have left before a crash, is sent again only
    // because somebody says so. If it fails then, the host cannot know that nothing has happened.
    let dies = faults.iter().any(|fault| matches!(fault, Fault::Crash { .. } | Fault::Lost { .. }));
    let is_repeatable = |call: &CallNumber| seen(calm, call).is_some_and(|seen| seen.is_repeatable);
    faults.retain(|fault| !dies || !matches!(fault, Fault::Fail { call, .. } if !is_repeatable(call)));
    Faults(faults)
}

/// The call of that number.
fn seen<'a>(calm: &'a Execution, call: &CallNumber) -> Option<&'a SeenCall> {
    calm.calls.iter().find(|seen| *seen.handler == *call.handler && seen.number == call.number)
}

/// Whether no step failed only because faults took its retries: calls come in another order with
/// faults, so that one may hit a step that it was not drawn for.
pub(super) fn is_fair(plan: &Plan, execution: &Execution) -> bool {
    execution.calls.iter().filter(|call| call.is_injected).all(|call| {
        let attempts = execution.calls.iter().filter(|other| other.is_attempt_of(call));
        let retries = plan.node(&without_items(&call.step)).and_then(|node| node.retry.as_ref());
        let max = retries.map_or(0, |retry| retry.max) as usize;
        attempts.clone().count() <= max || attempts.clone().any(|attempt| matches!(attempt.answer, Some(Ok(_))))
    })
}

/// The longest delay that no timeout of a step notices.
fn patience(plan: &Plan) -> Micros {
    let timeouts = plan.all_nodes().filter_map(|node| node.timeout);
    let waits = plan.all_nodes().filter_map(|node| match &node.action {
        Action::Signal { timeout: Some(Template::Literal(Value::String(text))), .. }
        | Action::Any { timeout: Some(Template::Literal(Value::String(text))), .. } => parse_duration(text).ok(),
        _ => None,
    });
    let shortest = timeouts.chain(waits).min().unwrap_or(Micros(u64::MAX));
    Micros(shortest.0 / PATIENCE_SHARE).min(PATIENCE_MAX)
}

struct Drawing<'a> {
    plan: &'a Plan,
    case: &'a Case,
    calm: &'a Execution,
    patience: Micros,
}

impl Drawing<'_> {
    /// The next fault, beside these.
    fn one(&self, dice: &mut Dice, drawn: &[Fault]) -> Option<Fault> {
        let is_durable = self.plan.durability() == Durability::Journal;
        let record = 1 + dice.below(self.calm.story.records);
        let call = dice
            .pick(&self.calm.calls)
            .map(|call| CallNumber { handler: call.handler.to_string(), number: call.number });
        match dice.below(10) {
            0..3 if is_durable => Some(Fault::Crash { record, down: self.delay(dice, 30) }),
            3..6 if is_durable => Some(Fault::Lost { call: call?, down: self.delay(dice, 30) }),
            6 => self.late(dice, call?),
            7 => self.failing(dice, call?, drawn),
            8 => Some(Fault::Twice { signal: dice.pick(&self.case.signals)?.name.value.clone() }),
            9 if dice.chance(50) => {
                Some(Fault::Jump { record, by: self.delay(dice, 100) }).filter(|_| self.patience.0 > 0)
            }
            9 => Some(Fault::Evict),
            _ => None,
        }
    }

    /// A delay, in so many of 100 cases more than none: of any order of magnitude.
    fn delay(&self, dice: &mut Dice, percent: u64) -> Micros {
        if !dice.chance(percent) || self.patience.0 < 1_000 {
            return if percent == 100 { self.patience } else { Micros(0) };
        }
        let magnitudes = u64::from(self.patience.0.ilog2()).saturating_sub(9);
        let bound = (1_000_u64 << dice.below(magnitudes.max(1))).min(self.patience.0);
        // Whole milliseconds are easier to read.
        Micros((1 + dice.below(bound) / 1_000) * 1_000)
    }

    /// An answer that comes later, and in time for the call.
    fn late(&self, dice: &mut Dice, call: CallNumber) -> Option<Fault> {
        let slack = seen(self.calm, &call)?.slack.map_or(u64::MAX, |slack| slack.0 / PATIENCE_SHARE);
        let by = Micros(self.delay(dice, 100).0.min(slack / 1_000 * 1_000));
        (by.0 > 0).then_some(Fault::Late { call, by })
    }

    /// Failed attempts, if the step may try so often, beside those of the case and of other faults.
    fn failing(&self, dice: &mut Dice, call: CallNumber, drawn: &[Fault]) -> Option<Fault> {
        let it = seen(self.calm, &call)?;
        let node = self.plan.node(&without_items(&it.step))?;
        let max = node.retry.as_ref().filter(|_| matches!(node.action, Action::Call { .. }))?.max;
        let attempts = self.calm.calls.iter().filter(|seen| seen.is_attempt_of(it)).map(|seen| seen.sends);
        let others = drawn.iter().filter_map(|fault| match fault {
            Fault::Fail { call, times } if seen(self.calm, call).is_some_and(|seen| seen.is_attempt_of(it)) => {
                Some(*times)
            }
            _ => None,
        });
        let used = attempts.sum::<u64>().saturating_sub(1) + others.sum::<u64>();
        let left = u64::from(max).saturating_sub(used);
        (left > 0).then(|| Fault::Fail { call, times: 1 + dice.below(left.min(3)) })
    }
}
