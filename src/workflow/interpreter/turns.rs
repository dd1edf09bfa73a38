//! The turns of a step with `repeat`: each begins with the last one's result, and has keys of its
//! own.

use super::progress::Cause;
use super::state::Stage;
use super::timers::TimerKind;
use super::{Interpreter, ItemKey, kind};
use crate::process::{Problem, Timestamp};
use crate::workflow::expression::Size;
use crate::workflow::plan::Repeat;
use serde_json::Value;
use std::sync::Arc;

impl Interpreter {
    /// Ends a turn of an item with its result, which is counted already; the item ends with its
    /// last turn.
    pub(super) fn turn_over(&mut self, now: Timestamp, key: ItemKey, value: Value) {
        let node = Arc::clone(self.node(key.0));
        let Some(repeat) = &node.repeat else { return self.succeeded(key, value) };
        let former = std::mem::replace(&mut self.running(key.0).results[key.1], value);
        let (attempt, turn) = (self.item(key).attempt, self.item(key).turn);
        if turn > 0 {
            self.release(key.0, Size::of(&former));
        }
        let outcome = self.goes_on(key, repeat, turn);
        if node.compensate.is_some() && outcome != Ok(false) {
            // This turn has succeeded, however the item ends.
            let last = self.running(key.0).results[key.1].clone();
            self.can_be_undone(key, &last);
        }
        match outcome {
            Ok(true) if self.block(key.0).is_halted || self.running(key.0).stopped => self.cut_off(key),
            Ok(true) => self.next_turn(now, key, repeat),
            Ok(false) => {
                let value = std::mem::take(&mut self.running(key.0).results[key.1]);
                self.succeeded(key, value);
            }
            Err(problem) => self.failed(key, attempt, problem),
        }
    }

    /// Returns whether another turn follows.
    fn goes_on(&self, key: ItemKey, repeat: &Repeat, turn: u32) -> Result<bool, Problem> {
        let condition = repeat.until.as_ref().map(|until| (until, "repeat/until", true));
        let condition = condition.or_else(|| repeat.while_true.as_ref().map(|one| (one, "repeat/while", false)));
        if let Some((condition, place, ends_if)) = condition {
            self.budget.spend(condition.expressions().max(1));
            let value = self.evaluate(key.0, Some(key.1), condition, place)?;
            if !matches!(value, Value::Null | Value::Bool(false)) == ends_if {
                return Ok(false);
            }
        }
        if turn + 1 < repeat.max {
            return Ok(true);
        }
        if condition.is_none() {
            return Ok(false);
        }
        let detail = format!("after {} turns it is not yet as `repeat` wants it", repeat.max);
        Err(Problem::new(kind::TOO_MANY_TURNS, "A step was repeated as often as it may be").with_detail(detail))
    }

    fn next_turn(&mut self, now: Timestamp, key: ItemKey, repeat: &Repeat) {
        let (turn, number) = (self.item(key).turn, self.item(key).known_failures);
        self.nodes[key.0].ended_items.again.record_number(key.1, turn, number);
        self.keep_number(key.0, key.1, turn, number);
        self.forget_call_keys(key, turn);
        let former = self.former_call_key(key, turn + 1);
        let number = self.prior_number(key, turn + 1).max(former.number);
        let item = self.item(key);
        item.turn += 1;
        item.attempt = 0;
        item.known_failures = number;
        item.may_have_happened = former.may_have_happened;
        item.is_between = true;
        item.stage = Stage::Sleeping;
        let turn = item.turn;
        if repeat.delay.0 == 0 {
            self.begin_turn(key);
            return;
        }
        let until = now.saturating_add(repeat.delay);
        self.timers.set(until, key, TimerKind::Wake);
        self.waits(key, now, Some(until), Cause::Turn { turn });
    }

    /// Lets the next turn of an item begin.
    pub(super) fn begin_turn(&mut self, key: ItemKey) {
        let item = self.item(key);
        item.is_between = false;
        item.wait = None;
        self.running(key.0).turning.insert(key.1);
        self.fillable.insert(key.0);
        self.changed.insert(key.0);
    }

    /// The number of an item's turn, from 0.
    pub(super) fn turn_of(&self, (index, item): ItemKey) -> u32 {
        let running = self.nodes[index].running.as_ref();
        running.and_then(|running| running.live.get(&item)).map_or(0, |item| item.turn)
    }

    /// Ends an item of which no more is wanted.
    pub(super) fn cut_off(&mut self, key: ItemKey) {
        let ended = self.running(key.0).live.remove(&key.1);
        self.save_key_number(key, ended.as_ref());
    }

    /// Forgets the result of the turn before one that failed.
    pub(super) fn forget_last(&mut self, (index, item): ItemKey) {
        let last = std::mem::take(&mut self.running(index).results[item]);
        if !last.is_null() {
            self.release(index, Size::of(&last));
        }
    }

    /// No longer counts what a node made the run retain.
    fn release(&mut self, index: usize, size: Size) {
        self.retained -= size;
        let place = self.nodes[index].block;
        self.blocks.get_mut(place).release(size);
    }
}
