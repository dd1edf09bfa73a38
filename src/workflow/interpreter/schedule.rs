//! Decides nodes and starts items.

use super::progress::{Cause, Wait};
use super::scope::payload;
use super::state::{Failure, Item, Running, Stage, Status};
use super::timers::TimerKind;
use super::{ITEMS_MAX, Interpreter, ItemKey, kind};
use crate::process::{Action as Ask, Call, Context, Micros, Payload, Placement, Problem, Spawn, Timestamp};
use crate::workflow::expression::Size;
use crate::workflow::model::{When, parse_duration, parse_time};
use crate::workflow::plan::{Action, Template};
use serde_json::Value;
use std::sync::Arc;

/// The decision on a node whose dependencies have ended.
enum Decision {
    Run,
    Skip,
    /// The node whose failure is the reason.
    Unreached(usize),
}

impl Interpreter {
    /// Decides a node whose dependencies have all ended.
    pub(super) fn decide(&mut self, context: &mut Context<'_>, index: usize) {
        self.budget.spend(1);
        match self.trigger(index) {
            Decision::Skip => return self.end(index, Status::Skipped),
            Decision::Unreached(cause) => {
                self.nodes[index].cause = Some(cause);
                return self.end(index, Status::Unreached);
            }
            Decision::Run => {}
        }
        match self.list(index) {
            Ok(None) => self.end(index, Status::Skipped),
            Ok(Some(running)) => {
                self.retained += running.size;
                let state = &mut self.nodes[index];
                state.total = running.total;
                state.status = Status::Running;
                state.running = Some(Box::new(running));
                self.changed.insert(index);
                self.fillable.insert(index);
                self.fill(context, index);
            }
            Err(problem) => {
                self.nodes[index].failure = Some(Failure { item: None, attempt: 0, problem, origin: None });
                self.end(index, Status::Failed);
            }
        }
    }

    fn trigger(&self, index: usize) -> Decision {
        let node = self.node(index);
        let status = |need: usize| self.nodes[need].status;
        let bad = |need: usize| matches!(status(need), Status::Failed | Status::Unreached);
        let forgiven = |need: usize| status(need) == Status::Failed && self.node(need).continue_on_error;
        let needs = || self.needs(index);
        let cause = |need: usize| self.nodes[need].cause.unwrap_or(need);
        let run_where = |is_so: bool| if is_so { Decision::Run } else { Decision::Skip };
        match node.when {
            When::Succeeded => match needs().find(|need| bad(*need) && !forgiven(*need)) {
                Some(need) => Decision::Unreached(cause(need)),
                None => Decision::Run,
            },
            When::Failed if self.version < 2 => run_where(needs().any(bad)),
            When::Failed => run_where(needs().any(|need| status(need) == Status::Failed)),
            When::Unreached => run_where(needs().any(|need| status(need) == Status::Unreached)),
            When::FailedOrUnreached => run_where(needs().any(bad)),
            When::Done => Decision::Run,
            When::Any if needs().any(|need| status(need) == Status::Succeeded) => Decision::Run,
            When::Any => {
                needs().find(|need| bad(*need)).map_or(Decision::Skip, |need| Decision::Unreached(cause(need)))
            }
        }
    }

    /// Evaluates `if` and `for-each`. `None` if the condition is false.
    fn list(&self, index: usize) -> Result<Option<Running>, Problem> {
        let node = self.node(index);
        if let Some(condition) = &node.condition
            && matches!(self.evaluate(index, None, condition, "if")?, Value::Null | Value::Bool(false))
        {
            return Ok(None);
        }
        let Some(for_each) = &node.for_each else { return Ok(Some(Running::new(None))) };
        match self.evaluate(index, None, for_each, "for-each")? {
            Value::Array(items) if items.len() > ITEMS_MAX => {
                let detail = format!("{} items are more than {ITEMS_MAX}", items.len());
                Err(Problem::new(kind::TOO_MANY_ITEMS, "A `for-each` has too many items").with_detail(detail))
            }
            Value::Array(items) => {
                let running = Running::new(Some(items));
                self.check_room(running.size).map(|()| Some(running))
            }
            other => {
                let kind_of = match other {
                    Value::Null => "null",
                    Value::Bool(_) => "a boolean",
                    Value::Number(_) => "a number",
                    Value::String(_) => "a string",
                    _ => "an object",
                };
                let detail = format!("the expression gave {kind_of}");
                Err(Problem::new(kind::NOT_A_LIST, "A `for-each` needs a list").with_detail(detail))
            }
        }
    }

    /// Starts as many items of a node as may start now.
    pub(super) fn fill(&mut self, context: &mut Context<'_>, index: usize) {
        let most = self.node(index).max_parallel as usize;
        while !self.budget.is_done() && !self.is_full() {
            let Some(running) = &mut self.nodes[index].running else { break };
            if let Some(item) = running.turning.pop_first() {
                self.start(context, (index, item));
            } else if let Some(item) = running.queued.first().copied() {
                if !self.budget.has_room(running.live[&item].input.size()) {
                    self.budget.bytes = 0;
                    break;
                }
                running.queued.pop_first();
                self.launch(context, (index, item));
            } else if running.next < running.total && running.live.len() < most && !running.stopped {
                let item = running.next;
                running.next += 1;
                match self.prior_result((index, item)) {
                    Some(result) => {
                        self.budget.spend(1);
                        let kept = self.retain(index, Size::of(&result));
                        match kept {
                            Ok(()) => self.succeeded((index, item), result),
                            Err(problem) => self.failed((index, item), 0, problem),
                        }
                    }
                    None => self.start(context, (index, item)),
                }
            } else {
                self.fillable.remove(&index);
                self.end_if_finished(index);
                return;
            }
        }
        if self.nodes[index].running.is_none() {
            self.fillable.remove(&index);
        }
    }

    /// Begins an item: evaluates its input. An item that needs no other process ends at once.
    fn start(&mut self, context: &mut Context<'_>, key: ItemKey) {
        let (index, item) = key;
        let node = Arc::clone(self.node(index));
        let begun = match &node.action {
            Action::Set(template) => {
                self.budget.spend(template.expressions().max(1));
                let value = self.evaluate(index, Some(item), template, "set");
                value.and_then(|value| {
                    self.retain(index, Size::of(&value))?;
                    if node.repeat.is_some() {
                        self.insert(key, Payload::NULL, Stage::Queued);
                    }
                    self.turn_over(context.now, key, value);
                    Ok(())
                })
            }
            Action::Wait(template) => {
                self.budget.spend(template.expressions().max(1));
                let duration = self.duration(key, template, "wait");
                duration.map(|duration| self.wait(context, key, context.now.saturating_add(duration)))
            }
            Action::Until(template) => {
                self.budget.spend(template.expressions().max(1));
                self.time(key, template, "wait/until").map(|until| self.wait(context, key, until))
            }
            action @ Action::Signal { name, timeout, prompt } => {
                self.budget.spend(action.templates().map(|one| one.expressions().max(1)).sum());
                self.wait_for_signal(context, key, name, timeout.as_ref(), prompt.as_ref())
            }
            action @ Action::Any { parts, timeout } => {
                self.budget.spend(action.templates().map(|one| one.expressions().max(1)).sum());
                self.wait_for_any(context, key, parts, timeout.as_ref())
            }
            Action::Uses { with, .. } | Action::Call { with, .. } | Action::Workflow { with, .. } => {
                self.budget.spend(with.expressions().max(1));
                let limits = [context.init.limits.payload_bytes, node.limits.payload_bytes];
                let limit = limits.into_iter().fold(super::STEP_BYTES_MAX as u64, u64::min);
                self.input(key, with, limit).and_then(|input| {
                    let cache = self.item_cache(key, &input)?;
                    self.insert(key, input, Stage::Queued);
                    self.item(key).cache = cache;
                    self.running(index).queued.insert(item);
                    Ok(())
                })
            }
            Action::Steps(_) | Action::Switch(_) | Action::All(_) => {
                self.budget.spend(1);
                self.insert(key, Payload::NULL, Stage::Queued);
                self.running(index).queued.insert(item);
                Ok(())
            }
        };
        if let Err(problem) = begun {
            self.failed(key, 0, problem);
        }
    }

    pub(super) fn insert(&mut self, (index, item): ItemKey, input: Payload, stage: Stage) {
        let turn = self.turn_of((index, item));
        let former = self.former_call_key((index, item), turn);
        let number = self.prior_number((index, item), turn).max(self.number_within((index, item))).max(former.number);
        let node = &mut self.nodes[index];
        node.turns = node.turns.max(if node.node.repeat.is_some() { turn + 1 } else { 0 });
        let state = Item {
            input,
            attempt: 0,
            known_failures: number,
            may_have_happened: former.may_have_happened || self.prior_doubt((index, item), turn),
            turn,
            is_between: false,
            stage,
            timed_out: false,
            deadline: None,
            until: None,
            wait: None,
            cache: None,
            origin: None,
            expected: None,
        };
        self.running(index).live.insert(item, state);
    }

    /// Lets an item wait, until its next attempt or its end.
    pub(super) fn waits(&mut self, key: ItemKey, since: Timestamp, until: Option<Timestamp>, cause: Cause) {
        let item = self.node(key.0).for_each.is_some().then_some(key.1);
        self.item(key).wait = Some(Box::new(Wait { cause, item, since, until }));
        self.changed.insert(key.0);
    }

    pub(super) fn wait(&mut self, context: &Context<'_>, key: ItemKey, until: Timestamp) {
        self.insert(key, Payload::NULL, Stage::Sleeping);
        self.timers.set(until, key, TimerKind::Wake);
        self.waits(key, context.now, Some(until), Cause::Time);
    }

    pub(super) fn time(&self, key: ItemKey, template: &Template, place: &str) -> Result<Timestamp, Problem> {
        let value = self.evaluate(key.0, Some(key.1), template, place)?;
        let bad = |detail: String| Problem::new(kind::BAD_TIME, "A `wait` needs a time").with_detail(detail);
        let Value::String(text) = &value else {
            return Err(bad("the expression did not give a string such as \"2027-01-31T09:00:00Z\"".to_owned()));
        };
        parse_time(text).map_err(bad)
    }

    pub(super) fn duration(&self, key: ItemKey, template: &Template, place: &str) -> Result<Micros, Problem> {
        let value = self.evaluate(key.0, Some(key.1), template, place)?;
        let bad = |detail: String| Problem::new(kind::BAD_DURATION, "A `wait` needs a duration").with_detail(detail);
        let Value::String(text) = &value else {
            return Err(bad("the expression did not give a string such as \"30s\"".to_owned()));
        };
        parse_duration(text).map_err(bad)
    }

    /// Begins an attempt of an item that is queued, unless the cache may have its outcome.
    fn launch(&mut self, context: &mut Context<'_>, key: ItemKey) {
        if self.look_up(context, key) {
            return;
        }
        let node = Arc::clone(self.node(key.0));
        let kept = self.item(key).retained();
        self.retained -= kept;
        let item = self.item(key);
        item.attempt += 1;
        item.timed_out = false;
        let (attempt, input, number) = (item.attempt, item.input.clone(), item.known_failures);
        item.origin = None;
        if node.action.has_block() {
            return self.launch_block(context, key);
        }
        let placement = Arc::new(Placement {
            scope: format!("{}/{number}", self.key_path(key)).into(),
            limits: Some(Arc::clone(&node.limits)),
            grants: Some(self.grants_of(&node)),
            cache: self.item(key).cache.as_ref().map(|cache| Arc::clone(&cache.key)),
        });
        let size = input.size();
        let tag = context.command(match &node.action {
            Action::Uses { component, entry, .. } => Ask::Spawn(Box::new(Spawn {
                component: Some(Arc::clone(component)),
                entry: Arc::clone(entry),
                input,
                name: None,
                link: false,
                detached: false,
                narrow: None,
                placement: Some(placement),
            })),
            Action::Call { handler, .. } => Ask::Call(Box::new(Call {
                handler: Arc::clone(handler),
                args: input,
                // The run enforces it: the time stands still while the outcome of the call is
                // unknown.
                timeout: node.timeout,
                idempotency_key: None,
                placement: Some(placement),
            })),
            Action::Wait(_)
            | Action::Until(_)
            | Action::Signal { .. }
            | Action::Any { .. }
            | Action::All(_)
            | Action::Set(_)
            | Action::Steps(_)
            | Action::Switch(_)
            | Action::Workflow { .. } => {
                unreachable!("invariant: only guests and calls are queued")
            }
        });
        let own = node.timeout.filter(|_| matches!(node.action, Action::Uses { .. }));
        let deadline = own.map(|timeout| self.timers.set(context.now.saturating_add(timeout), key, TimerKind::Timeout));
        let item = self.item(key);
        item.stage = Stage::InFlight(tag);
        item.deadline = deadline;
        item.until = node.timeout.map(|timeout| context.now.saturating_add(timeout));
        item.wait = None;
        self.in_flight.insert(tag, key);
        self.in_flight_bytes += size;
        self.budget.bytes = self.budget.bytes.saturating_sub(size);
        let state = &mut self.nodes[key.0];
        state.attempts = state.attempts.max(attempt);
        self.changed.insert(key.0);
    }

    /// Begins an attempt at an item that is made of steps.
    fn launch_block(&mut self, context: &Context<'_>, key: ItemKey) {
        let attempt = self.item(key).attempt;
        let state = &mut self.nodes[key.0];
        state.attempts = state.attempts.max(attempt);
        self.changed.insert(key.0);
        let begun = match self.chosen(key) {
            Ok(Some((block, child))) => self.begin_block(key, &block, child),
            Ok(None) => return self.turn_over(context.now, key, Value::Null),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = begun {
            return self.failed(key, attempt, problem);
        }
        let until = self.node(key.0).timeout.map(|timeout| context.now.saturating_add(timeout));
        let deadline = until.map(|until| self.timers.set(until, key, TimerKind::Timeout));
        let item = self.item(key);
        item.deadline = deadline;
        item.until = until;
        item.wait = None;
    }

    pub(super) fn running(&mut self, index: usize) -> &mut Running {
        self.nodes[index].running.as_mut().expect("invariant: items belong to a running node")
    }

    pub(super) fn item(&mut self, (index, item): ItemKey) -> &mut Item {
        self.running(index).live.get_mut(&item).expect("invariant: a started item lives until it ends")
    }

    /// The output of the process as a payload.
    pub(super) fn output(&self, context: &Context<'_>) -> Result<Payload, Problem> {
        let outputs = self.outputs()?;
        // The pointer to all outputs, since no single expression is at fault.
        payload(&outputs, context.init.limits.payload_bytes)
            .map_err(|problem| problem.with_data(&serde_json::json!({ "pointer": "/outputs" })))
    }
}
