//! An executor of workflows as plain as the rules allow: one step after the other, by recursion,
//! without processes, events, time or bounds. What the interpreter does in any order of answers is
//! compared with it.
//!
//! Whether a call succeeds is a function of its scope and of how often it was made, so both see the
//! same world. The graphs are such that the order of answers decides nothing: where items run side
//! by side, all begin at once, and those that fail do not keep others from a further attempt.

use super::drawn::{Draw, Kind, Step, child};
use super::*;
use crate::workflow::plan::{Environment, Handlers, ResolvedComponent, Unusable};
use std::collections::{BTreeMap, BTreeSet};

/// How a call ends that is made for the time with this number, from 0.
fn outcome(scope: &str, time: u32) -> Result<Value, ProblemClass> {
    let hash = blake3::hash(format!("{scope}#{time}").as_bytes());
    match hash.as_bytes()[0] % 10 {
        0 => Err(ProblemClass::Definite),
        1 | 2 => Err(ProblemClass::Retryable),
        _ => Ok(json!(hash.as_bytes()[1])),
    }
}

/// How a step ended.
#[derive(Clone)]
struct Ended {
    status: &'static str,
    output: Value,
}

/// The run as the rules say.
#[derive(Default)]
struct Reference {
    times: BTreeMap<String, u32>,
    /// All calls, with what they were given.
    calls: BTreeSet<(String, u32, String)>,
    /// What can be undone: the scope of the compensation without its number, and what it is given.
    undos: BTreeMap<String, String>,
}

impl Reference {
    fn call(&mut self, scope: String, input: &Value) -> Result<Value, ProblemClass> {
        let times = self.times.entry(scope.clone()).or_default();
        let outcome = outcome(&scope, *times);
        self.calls.insert((scope, *times, input.to_string()));
        *times += 1;
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
            let (result, number) = self.attempts(step, (item, turn), needs, &path)?;
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
        let mut number = 0;
        for attempt in 0..=step.retries {
            let outcome = match &step.kind {
                Kind::Call => {
                    let item = if step.items.is_some() { json!(item) } else { Value::Null };
                    let turn = if step.turns.is_some() { json!(turn) } else { Value::Null };
                    self.call(format!("{path}/{number}"), &json!([needs, item, turn]))
                }
                Kind::Set(value) => Ok(json!(value)),
                Kind::Wait => Ok(Value::Null),
                Kind::Group(steps) => self.block(steps, &format!("{path}/{number}/")),
                Kind::Switch(cases) => {
                    let case = cases.iter().position(|(applies, _)| *applies).unwrap_or(cases.len() - 1);
                    let case = if case + 1 < cases.len() { case } else { cases.len() - 1 };
                    self.block(&cases[case].1, &format!("{path}/{number}/"))
                }
                Kind::Workflow => self.block(&child(), &format!("{path}/{number}/")),
            };
            match outcome {
                Ok(value) => return Ok((value, number)),
                Err(ProblemClass::Retryable) if attempt < step.retries => {}
                Err(class) => return Err(class),
            }
            number += u32::from(matches!(step.kind, Kind::Call));
        }
        unreachable!("the last attempt returns")
    }

    fn block(&mut self, steps: &[Step], above: &str) -> Result<Value, ProblemClass> {
        let (ended, failure) = self.list(steps, above);
        failure?;
        Ok(steps.iter().zip(ended).map(|(step, ended)| (step.id.clone(), ended.output)).collect())
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

/// The file that runs as a step of others.
struct Files(String);

impl Environment for Files {
    fn component(&self, _: &str) -> Result<ResolvedComponent, Unusable> {
        Ok(ResolvedComponent::default())
    }

    fn workflow(&self, path: &str) -> Result<Source, Unusable> {
        Ok(Source::new(path, &self.0))
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        None
    }
}

fn plan_of(steps: &[Step]) -> Plan {
    let outputs: Value = steps
        .iter()
        .map(|step| (step.id.clone(), json!(format!("${{ .steps.{0} | [.status, .output] }}", step.id))))
        .collect();
    let list = |steps: &[Step]| -> Value { steps.iter().map(|step| step.to_json(steps)).collect() };
    let text = json!({ "steps": list(steps), "outputs": outputs }).to_string();
    let outputs = json!({ "one": "${ .steps.one.output }", "two": "${ .steps.two.output }" });
    let files = Files(json!({ "steps": list(&child()), "outputs": outputs }).to_string());
    match load(&Source::new("drawn.yaml", &text), &jq(), &files) {
        Ok(plan) => plan,
        Err(problems) => panic!("{problems:?}\n{text}"),
    }
}

/// The answer to a call, by its scope and by how often it was made.
fn answer(times: &mut BTreeMap<String, u32>, ask: &Ask) -> Answer {
    let time = times.entry(ask.scope.clone()).or_default();
    let outcome = outcome(&ask.scope, *time);
    *time += 1;
    outcome
        .map(|value| Payload::json(&value))
        .map_err(|class| Arc::new(Problem::new("drawn", "It was drawn").with_class(class)))
}

fn calls(world: &World) -> BTreeSet<(String, u32, String)> {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let call = |ask: &Ask| {
        let time = times.entry(ask.scope.clone()).or_default();
        *time += 1;
        (ask.scope.clone(), *time - 1, ask.input.to_string())
    };
    world.asked.iter().map(call).collect()
}

fn compare(seed: u64, order: impl FnMut(usize) -> usize) {
    let steps = Draw::new(seed).list(0);
    let mut reference = Reference::default();
    let (ended, failure) = reference.list(&steps, "");
    if failure.is_err() {
        reference.undo();
    }
    let mut times = BTreeMap::new();
    let world = World::of(plan_of(&steps), json!({}));
    let world = world.run(|ask| Reply::Now(answer(&mut times, ask)), order);
    let expected: Vec<_> = reference.calls.difference(&calls(&world)).cloned().collect();
    let extra: Vec<_> = calls(&world).difference(&reference.calls).cloned().collect();
    assert!(
        expected.is_empty() && extra.is_empty(),
        "seed {seed}: not made {expected:?}, not expected {extra:?}\n{steps:#?}"
    );
    for (step, ended) in steps.iter().zip(&ended) {
        assert_eq!(world.status(&step.id), ended.status, "seed {seed}: {}\n{steps:#?}", step.id);
    }
    if failure.is_ok() {
        let outputs: Value = steps
            .iter()
            .zip(&ended)
            .map(|(step, ended)| (step.id.clone(), json!([ended.status, ended.output])))
            .collect();
        assert_eq!(world.output(), outputs, "seed {seed}\n{steps:#?}");
    } else {
        let failed: Vec<&str> = steps
            .iter()
            .zip(&ended)
            .filter(|(step, ended)| ended.status == "failed" && !step.continue_on_error)
            .map(|(step, _)| step.id.as_str())
            .collect();
        assert_eq!(world.data()["failed"], json!(failed), "seed {seed}\n{steps:#?}");
    }
}

fn seeds() -> u64 {
    std::env::var("WFHOST_GRAPHS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

#[test]
fn random_workflows_do_what_the_rules_say_in_any_order_of_answers() {
    let only = std::env::var("WFHOST_GRAPH").ok().and_then(|text| text.parse().ok());
    for seed in only.map_or(0..seeds(), |seed| seed..seed + 1) {
        compare(seed, |_| 0);
        let mut draw = Draw::new(seed ^ 0xabcd);
        compare(seed, |open| draw.below(open));
    }
}

/// The scopes below which something was undone in a run that was cancelled after some answers, and
/// the scopes of successes that had to be.
fn cancelled(seed: u64, after: usize) {
    let steps = Draw::new(seed).list(0);
    let mut world = World::of(plan_of(&steps), json!({}));
    let mut times = BTreeMap::new();
    let mut answers = 0;
    let mut draw = Draw::new(seed ^ 0x77);
    let mut is_cancelled = false;
    let mut succeeded: BTreeSet<String> = BTreeSet::new();
    let mut calls_before = usize::MAX;
    while world.end.is_none() {
        if !is_cancelled && answers == after {
            is_cancelled = true;
            calls_before = world.asked.len();
            world.step(vec![Event::Cancel { reason: "enough".into(), grace: Micros(3_600_000_000) }]);
            continue;
        }
        if world.settle_stopped() {
            continue;
        }
        if world.pending.is_empty() {
            world.sleep_over();
            continue;
        }
        let ask = world.pending[draw.below(world.pending.len())].clone();
        let answer = answer(&mut times, &ask);
        answers += 1;
        if answer.is_ok() && !ask.scope.contains("compensate") {
            succeeded.insert(ask.scope.clone());
        }
        world.answer(ask.tag, answer);
    }
    let after: Vec<&str> = world.asked.iter().skip(calls_before).map(|ask| &*ask.scope).collect();
    assert!(after.iter().all(|scope| scope.contains("compensate")), "seed {seed}: {after:?}\n{steps:#?}");
    if !is_cancelled || !matches!(&world.end, Some(StepStatus::Failed(problem)) if problem.kind == "cancelled") {
        return;
    }
    // Each call that succeeded, and can be undone by itself, was undone, or by a step around it.
    let undone: BTreeSet<&str> =
        world.asked.iter().filter_map(|ask| ask.scope.split_once("compensate").map(|(keys, _)| keys)).collect();
    let data = world.data();
    let listed = data["undone"].as_array().map_or(0, Vec::len) + data["not-undone"].as_array().map_or(0, Vec::len);
    assert_eq!(listed, undone.len(), "seed {seed}: each is listed\n{steps:#?}");
    for scope in &succeeded {
        let (keys, is_undoable) = (format!("{scope}/"), can_undo(&steps, scope));
        let is_undone = undone.iter().any(|undone| keys.starts_with(undone));
        assert!(!is_undoable || is_undone, "seed {seed}: {scope} was not undone: {undone:?}\n{steps:#?}");
    }
}

/// Whether the call of a scope can be undone by itself.
fn can_undo(steps: &[Step], scope: &str) -> bool {
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

#[test]
fn random_workflows_that_are_cancelled_undo_what_they_did() {
    let only = std::env::var("WFHOST_GRAPH").ok().and_then(|text| text.parse().ok());
    for seed in only.map_or(0..seeds(), |seed| seed..seed + 1) {
        for after in [0, 1, 3, 6] {
            cancelled(seed, after);
        }
    }
}
