//! Waits for signals: for one, or for the first of several things.

use super::progress::Cause;
use super::state::{Expected, Stage};
use super::{Interpreter, ItemKey, kind};
use crate::process::problem::kind::TIMED_OUT;
use crate::process::{Action as Ask, Answer, Call, Context, Micros, Payload, Problem, ProblemClass, Timestamp};
use crate::workflow::plan::{Part, Template};
use serde_json::{Value, json};
use std::sync::Arc;

/// Characters of the title and of the text that a person is shown; longer ones are cut. Arbitrary:
/// a line, and what fits on a page.
const PROMPT_CHARS_MAX: [(&str, usize); 2] = [("title", 200), ("text", 4_000)];

impl Interpreter {
    /// Waits by a call that the run itself answers, so that its timeout pauses with the run. It
    /// does not count as an attempt.
    pub(super) fn wait_for_signal(
        &mut self,
        context: &mut Context<'_>,
        key: ItemKey,
        name: &Template,
        timeout: Option<&Template>,
        prompt: Option<&Template>,
    ) -> Result<(), Problem> {
        let name = self.signal_name(key, name, "wait/signal")?;
        let timeout = timeout.map(|timeout| self.duration(key, timeout, "wait/timeout")).transpose()?;
        let prompt = prompt.map(|prompt| self.evaluate(key.0, Some(key.1), prompt, "wait")).transpose()?;
        self.ask_for_signal(context, key, &signal_arguments(&name, prompt), timeout);
        let until = timeout.map(|timeout| context.now.saturating_add(timeout));
        self.waits(key, context.now, until, Cause::Signal { name });
        Ok(())
    }

    /// Waits for the first of several things: by one call for all signals among them, so that only
    /// one is taken, whose time is the first of the times.
    pub(super) fn wait_for_any(
        &mut self,
        context: &mut Context<'_>,
        key: ItemKey,
        parts: &[(Arc<str>, Part)],
        timeout: Option<&Template>,
    ) -> Result<(), Problem> {
        let mut expected = Expected::default();
        let mut any = Vec::new();
        let mut first: Option<(Timestamp, Option<Arc<str>>)> = None;
        let mut add = |at: Timestamp, name: Option<Arc<str>>| {
            if first.as_ref().is_none_or(|(known, _)| at < *known) {
                first = Some((at, name));
            }
        };
        for (part, wait) in parts {
            let place = |what: &str| format!("wait/any/{part}{what}");
            match wait {
                Part::Wait(template) => {
                    let duration = self.duration(key, template, &place(""))?;
                    add(context.now.saturating_add(duration), Some(Arc::clone(part)));
                }
                Part::Until(template) => add(self.time(key, template, &place("/until"))?, Some(Arc::clone(part))),
                Part::Signal { name, prompt } => {
                    let name = self.signal_name(key, name, &place("/signal"))?;
                    let prompt = prompt.as_ref();
                    let prompt = prompt.map(|prompt| self.evaluate(key.0, Some(key.1), prompt, &place("")));
                    if expected.signals.iter().any(|(known, _)| *known == name) {
                        let detail = format!("two of its parts wait for {name:?}");
                        return Err(Problem::new(kind::BAD_SIGNAL, "A `wait` has a signal twice").with_detail(detail));
                    }
                    any.push(signal_arguments(&name, prompt.transpose()?));
                    expected.signals.push((name, Arc::clone(part)));
                }
            }
        }
        if let Some(timeout) = timeout {
            add(context.now.saturating_add(self.duration(key, timeout, "wait/timeout")?), None);
        }
        let until = first.as_ref().map(|(at, _)| *at);
        expected.by_time = first.and_then(|(_, name)| name);
        if any.is_empty() {
            self.wait(context, key, until.expect("invariant: it waits for something"));
        } else {
            let timeout = until.map(|until| until.since(context.now));
            self.ask_for_signal(context, key, &json!({ "any": any }), timeout);
            let names = expected.signals.iter().map(|(name, _)| name.clone()).collect();
            self.waits(key, context.now, until, Cause::Any { names });
        }
        self.item(key).expected = Some(Box::new(expected));
        Ok(())
    }

    /// The output of a wait for the first of several things: the name of the one that came, and the
    /// body of the signal. An error says that none came in time, or that it cannot be had.
    pub(super) fn came(&mut self, key: ItemKey, answer: Answer) -> Answer {
        let Some(expected) = self.item(key).expected.take() else { return answer };
        match answer {
            Ok(Payload::Json(json)) => {
                let Value::Object(mut answer) = json.to_value() else { return Ok(Payload::NULL) };
                let name = answer.get("name").and_then(Value::as_str);
                let part = expected.signals.iter().find(|(signal, _)| Some(signal.as_str()) == name);
                let body = answer.remove("body").unwrap_or_default();
                Ok(Payload::json(&json!({ "first": part.map(|(_, part)| &**part), "value": body })))
            }
            Err(problem) if problem.kind == TIMED_OUT => match &expected.by_time {
                Some(part) => Ok(Payload::json(&json!({ "first": **part, "value": null }))),
                None => Err(problem),
            },
            other => other,
        }
    }

    /// The output of a wait for a time, or for the first of several. An error says that none came
    /// in time.
    pub(super) fn came_by_time(&mut self, key: ItemKey) -> Result<Value, Problem> {
        let Some(expected) = self.item(key).expected.take() else { return Ok(Value::Null) };
        let part = expected.by_time.ok_or_else(|| {
            Problem::new(TIMED_OUT, "Nothing came in time")
                .with_detail("the timeout was over before the first of the times")
                .with_class(ProblemClass::Retryable)
        })?;
        Ok(json!({ "first": *part, "value": null }))
    }

    fn signal_name(&self, key: ItemKey, name: &Template, place: &str) -> Result<String, Problem> {
        match self.evaluate(key.0, Some(key.1), name, place)? {
            Value::String(name) if !name.is_empty() => Ok(name),
            other => {
                let detail = format!("the expression gave {other}, which is no text");
                Err(Problem::new(kind::BAD_SIGNAL, "A signal's name is a text").with_detail(detail))
            }
        }
    }

    fn ask_for_signal(&mut self, context: &mut Context<'_>, key: ItemKey, args: &Value, timeout: Option<Micros>) {
        let args = Payload::json(args);
        self.in_flight_bytes += args.size();
        self.budget.bytes = self.budget.bytes.saturating_sub(args.size());
        let call = Call {
            handler: crate::run::SIGNAL.into(),
            args: args.clone(),
            timeout,
            idempotency_key: None,
            placement: None,
        };
        let tag = context.command(Ask::Call(Box::new(call)));
        self.insert(key, args, Stage::InFlight(tag));
        self.in_flight.insert(tag, key);
    }
}

/// The arguments of a call that waits for a signal.
fn signal_arguments(name: &str, prompt: Option<Value>) -> Value {
    let mut arguments = json!({ "name": name });
    let (Value::Object(all), Some(Value::Object(prompt))) = (&mut arguments, prompt) else { return arguments };
    all.extend(prompt);
    for (key, chars_max) in PROMPT_CHARS_MAX {
        let Some(value) = all.get_mut(key) else { continue };
        let text = if let Value::String(text) = value { std::mem::take(text) } else { value.to_string() };
        let cut = text.char_indices().nth(chars_max).map(|(at, _)| format!("{}…", &text[..at]));
        *value = Value::String(cut.unwrap_or(text));
    }
    arguments
}
