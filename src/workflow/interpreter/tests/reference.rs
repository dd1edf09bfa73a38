//! An executor of workflows as plain as the rules allow: one step after the other, by recursion,
//! without processes, events, time or bounds. What the interpreter does in any order of answers is
//! compared with it.
//!
//! Whether a call succeeds is a function of its place and of how often it was made, so both see the
//! same world. The graphs are such that the order of answers decides nothing: where items run side
//! by side, all begin at once, and those that fail do not keep others from a further attempt.

use super::drawn::{CacheKey, Flow, Kind, Step, body_of, child, is_careful};
use crate::process::{Answer, Payload, Problem, ProblemClass};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The scope of a call without the numbers in its keys: its place in the workflow.
pub(crate) fn place(scope: &str) -> String {
    let parts = scope.split('/').enumerate().filter(|(at, _)| at % 3 != 2);
    parts.map(|(_, part)| part).collect::<Vec<_>>().join("/")
}

/// How the call of a place ends, by how many were made there before. A handler that is not
/// repeatable never answers that the call may be retried.
pub(crate) fn outcome(place: &str, time: u32) -> Result<Value, ProblemClass> {
    let hash = blake3::hash(format!("{place}#{time}").as_bytes());
    let is_careful = place.rsplit('/').nth(1).is_some_and(is_careful);
    match hash.as_bytes()[0] % 10 {
        0 => Err(ProblemClass::Definite),
        1 | 2 if !is_careful => Err(ProblemClass::Retryable),
        _ => Ok(json!(hash.as_bytes()[1])),
    }
}

/// What a server answers.
pub(crate) fn answer(outcome: Result<Value, ProblemClass>) -> Answer {
    let problem = |class| Arc::new(Problem::new("drawn", "It was drawn").with_class(class));
    outcome.map(|value| Payload::json(&value)).map_err(problem)
}

/// What the keys begin with of all that a compensation undoes, by the scope of one of its calls.
pub(crate) fn undoes(scope: &str) -> Option<&str> {
    scope.split_once("compensate/").map(|(keys, _)| keys)
}

/// Whether a call, or a step around it, has keys that begin so.
pub(crate) fn is_within(scope: &str, keys: &str) -> bool {
    format!("{scope}/").starts_with(keys)
}

/// How a step ended.
#[derive(Clone)]
pub(crate) struct Ended {
    pub(crate) status: &'static str,
    pub(crate) output: Value,
}

/// The run as the rules say.
#[derive(Default)]
pub(crate) struct Reference {
    times: BTreeMap<String, u32>,
    /// The number in the key of a further call, by what is before it.
    numbers: BTreeMap<String, u32>,
    /// The answers of calls that succeeded, by their scopes.
    succeeded: BTreeMap<String, Value>,
    /// All calls under keys that had not succeeded: the scope, how often one of the place was made
    /// before, and what it was given.
    pub(crate) calls: BTreeSet<(String, u32, String)>,
    /// What can be undone: the scope of the compensation without its number, and what it is given.
    undos: BTreeMap<String, String>,
    /// Whether the cache finds anything.
    finds: bool,
    all_succeeds: bool,
    /// What the cache has, by the ids of the steps and what it is found by.
    cache: BTreeMap<(Vec<String>, String), Value>,
    /// How the steps of the workflow ended.
    pub(crate) ended: Vec<Ended>,
    pub(crate) is_failed: bool,
    /// The steps below `on` that failed: `on.always.s7`.
    pub(crate) failed_after: BTreeSet<String>,
}

impl Reference {
    /// Runs a workflow, with a cache of steps that finds what it was given, or nothing.
    pub(crate) fn run(flow: &Flow, finds: bool) -> Self {
        Self { finds, ..Self::default() }.runs(flow)
    }

    /// Runs a workflow in a world in which all calls succeed.
    pub(crate) fn without_failures(flow: &Flow) -> Self {
        Self { all_succeeds: true, ..Self::default() }.runs(flow)
    }

    fn runs(mut self, flow: &Flow) -> Self {
        let run = &mut self;
        let (ended, result) = run.list(&flow.steps, "");
        (run.ended, run.is_failed) = (ended, result.is_err());
        if run.is_failed {
            run.undo();
        }
        for (occasion, steps) in &flow.on {
            if *occasion == "always" || (*occasion == "failure" && run.is_failed) {
                let (ended, _) = run.list(steps, &format!("on.{occasion}/0/0/"));
                let ended = steps.iter().zip(ended);
                let failed = ended.filter(|(step, ended)| ended.status == "failed" && !step.continue_on_error);
                run.failed_after.extend(failed.map(|(step, _)| format!("on.{occasion}.{}", step.id)));
            }
        }
        self
    }

    /// A call under a key that has succeeded has that answer.
    fn call(&mut self, scope: String, input: &Value) -> Result<Value, ProblemClass> {
        if let Some(known) = self.succeeded.get(&scope) {
            return Ok(known.clone());
        }
        let place = place(&scope);
        let times = self.times.entry(place.clone()).or_default();
        let outcome = if self.all_succeeds { Ok(Value::Null) } else { outcome(&place, *times) };
        self.calls.insert((scope.clone(), *times, input.to_string()));
        *times += 1;
        if let Ok(value) = &outcome {
            self.succeeded.insert(scope, value.clone());
        }
        outcome
    }

    /// Runs a list of steps. `Err` if one of them failed.
    fn list(&mut self, steps: &[Step], above: &str) -> (Vec<Ended>, Result<(), ProblemClass>) {
        let mut ended: Vec<Ended> = Vec::new();
        let mut failure = Ok(());
        for step in steps {
            let (one, class) = self.decide(step, &ended, steps, above);
            if let (Some(class), Ok(()), false) = (class, failure, step.continue_on_error) {
                failure = Err(class);
            }
            ended.push(one);
        }
        (ended, failure)
    }

    fn decide(&mut self, step: &Step, ended: &[Ended], list: &[Step], above: &str) -> (Ended, Option<ProblemClass>) {
        let status = |need: &usize| ended[*need].status;
        let is = |wanted: &str| step.needs.iter().any(|need| status(need) == wanted);
        let is_bad = |need: &usize| match status(need) {
            "failed" => !list[*need].continue_on_error,
            other => other == "unreached",
        };
        let end = |status| (Ended { status, output: Value::Null }, None);
        match step.when {
            _ if step.needs.is_empty() => {}
            "succeeded" if step.needs.iter().any(is_bad) => return end("unreached"),
            "failed" if !is("failed") => return end("skipped"),
            "unreached" if !is("unreached") => return end("skipped"),
            "any" if !is("succeeded") && (is("failed") || is("unreached")) => return end("unreached"),
            "any" if !is("succeeded") => return end("skipped"),
            _ => {}
        }
        if step.condition == Some(false) {
            return end("skipped");
        }
        let needs: Vec<Value> = step.needs.iter().map(|need| ended[*need].output.clone()).collect();
        let mut results = Vec::new();
        let mut failure = None;
        for item in 0..step.items.unwrap_or(1) {
            if failure.is_some() && !step.continue_on_error && !step.is_parallel {
                break;
            }
            match self.item(step, item, &needs, above) {
                Ok(result) => results.push(result),
                Err(class) => {
                    results.push(Value::Null);
                    failure = failure.or(Some(class));
                }
            }
        }
        let output = match (step.items, failure) {
            (Some(_), None) => Value::Array(results),
            (Some(_), Some(_)) if step.continue_on_error => Value::Array(results),
            (None, None) => results.remove(0),
            _ => Value::Null,
        };
        (Ended { status: if failure.is_some() { "failed" } else { "succeeded" }, output }, failure)
    }

    fn item(&mut self, step: &Step, item: usize, needs: &[Value], above: &str) -> Result<Value, ProblemClass> {
        let mut last = Value::Null;
        for turn in 0..step.turns.unwrap_or(1) {
            let turn_text = if turn == 0 { String::new() } else { format!(".{turn}") };
            let path = format!("{above}{}/{item}{turn_text}", step.id);
            let found_by = cached_by(step, (item, turn), needs, &path).filter(|_| self.finds);
            if let Some(found) = found_by.as_ref().and_then(|key| self.cache.get(key)) {
                last = found.clone();
                continue;
            }
            let (result, number) = self.attempts(step, (item, turn), needs, &path)?;
            if let Some(key) = found_by {
                self.cache.insert(key, result.clone());
            }
            if step.compensate {
                let item = if step.items.is_some() { json!(item) } else { Value::Null };
                let keys = format!("{path}/{number}/");
                self.undos.retain(|scope, _| !scope.starts_with(&keys));
                self.undos.insert(format!("{keys}compensate/0"), json!([result, item]).to_string());
            }
            last = result;
        }
        Ok(last)
    }

    /// The result of a turn, and the number in the keys of the attempt that succeeded.
    fn attempts(
        &mut self,
        step: &Step,
        (item, turn): (usize, u32),
        needs: &[Value],
        path: &str,
    ) -> Result<(Value, u32), ProblemClass> {
        // In a further attempt of a step around it, a call goes on where it was.
        let mut number = self.numbers.get(path).copied().unwrap_or(0);
        for attempt in 0..=step.retries {
            let outcome = match &step.kind {
                Kind::Call => self.call(format!("{path}/{number}"), &arguments(step, (item, turn), needs)),
                Kind::Set(value) => Ok(json!(value)),
                Kind::Wait => Ok(Value::Null),
                Kind::Signal => Ok(body_of(&step.id)),
                Kind::Group(steps) => self.block(steps, &format!("{path}/{number}/")),
                Kind::Switch(cases) => {
                    let case = cases.iter().position(|(applies, _)| *applies).unwrap_or(cases.len() - 1);
                    let case = if case + 1 < cases.len() { case } else { cases.len() - 1 };
                    self.block(&cases[case].1, &format!("{path}/{number}/"))
                }
                Kind::Workflow => self.block(&child(), &format!("{path}/{number}/")),
            };
            let class = match outcome {
                Ok(value) => return Ok((value, number)),
                Err(class) => class,
            };
            if matches!(step.kind, Kind::Call) && !self.succeeded.contains_key(&format!("{path}/{number}")) {
                number += 1;
                self.numbers.insert(path.to_owned(), number);
            }
            if class != ProblemClass::Retryable || attempt == step.retries {
                return Err(class);
            }
        }
        unreachable!("the last attempt returns")
    }

    fn block(&mut self, steps: &[Step], above: &str) -> Result<Value, ProblemClass> {
        let (ended, failure) = self.list(steps, above);
        failure?;
        Ok(steps.iter().zip(ended).map(|(step, ended)| (step.id.clone(), ended.output)).collect())
    }

    /// The outputs of the run: the status and the output of each step.
    pub(crate) fn outputs(&self, flow: &Flow) -> Value {
        let ended = flow.steps.iter().zip(&self.ended);
        ended.map(|(step, ended)| (step.id.clone(), json!([ended.status, ended.output]))).collect()
    }

    /// The steps of the workflow that failed, and count.
    pub(crate) fn failed<'a>(&self, flow: &'a Flow) -> Vec<&'a str> {
        let ended = flow.steps.iter().zip(&self.ended);
        let failed = ended.filter(|(step, ended)| ended.status == "failed" && !step.continue_on_error);
        failed.map(|(step, _)| step.id.as_str()).collect()
    }

    /// Undoes all that succeeded. The order does not matter to what is called.
    fn undo(&mut self) {
        for (scope, input) in std::mem::take(&mut self.undos) {
            let input: Value = serde_json::from_str(&input).unwrap();
            for number in 0..=1 {
                match self.call(format!("{scope}/{number}"), &input) {
                    Err(ProblemClass::Retryable) => {}
                    _ => break,
                }
            }
        }
    }
}

/// The arguments of a call.
fn arguments(step: &Step, (item, turn): (usize, u32), needs: &[Value]) -> Value {
    let item = if step.items.is_some() { json!(item) } else { Value::Null };
    let turn = if step.turns.is_some() { json!(turn) } else { Value::Null };
    json!([if step.sees_needs { needs } else { &[] }, item, turn])
}

/// What the outcome of a call is found by in the cache.
fn cached_by(step: &Step, of: (usize, u32), needs: &[Value], path: &str) -> Option<(Vec<String>, String)> {
    let key = match step.cache? {
        CacheKey::Input => arguments(step, of, needs),
        CacheKey::Item => json!(of.0),
    };
    // A path has an item and a number after each id.
    Some((path.split('/').step_by(3).map(str::to_owned).collect(), key.to_string()))
}

/// The steps below `on` that failed, by the problem of the run.
pub(crate) fn failed_after(data: &Value) -> BTreeSet<String> {
    let others = data["on"].as_array().into_iter().flatten().map(|problem| &problem["data"]["step"]);
    let paths = others.chain([&data["step"]]).filter_map(Value::as_str).filter(|path| path.starts_with("on."));
    paths.map(|path| path.split(['.', '[']).take(3).collect::<Vec<_>>().join(".")).collect()
}

/// Whether the call of a scope can be undone by itself.
pub(crate) fn can_undo(steps: &[Step], scope: &str) -> bool {
    let mut parts = scope.split('/');
    let (Some(id), _, _) = (parts.next(), parts.next(), parts.next()) else { return false };
    let rest: Vec<&str> = parts.collect();
    let Some(step) = steps.iter().find(|step| step.id == id) else { return false };
    if rest.is_empty() {
        return step.compensate;
    }
    let rest = rest.join("/");
    match &step.kind {
        Kind::Group(inner) => can_undo(inner, &rest),
        Kind::Switch(cases) => cases.iter().any(|(_, inner)| can_undo(inner, &rest)),
        Kind::Workflow => can_undo(&child(), &rest),
        _ => false,
    }
}
