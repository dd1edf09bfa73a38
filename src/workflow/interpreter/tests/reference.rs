//! An executor of workflows as plain as the rules allow: one step after the other, by recursion,
//! without processes, events, time or bounds. What the interpreter does in any order of answers is
//! compared with it.
//!
//! Whether a call succeeds is a function of its scope and of how often it was made, so both see the
//! same world. The graphs are such that the order of answers decides nothing: where items run side
//! by side, all begin at once, and those that fail do not keep others from a further attempt.

use super::*;
use crate::workflow::plan::{Environment, Handlers, ResolvedComponent, Unusable};
use std::collections::{BTreeMap, BTreeSet};

/// What a step does.
#[derive(Clone, Debug)]
enum Kind {
    Call,
    Set(i64),
    Wait,
    Group(Vec<Step>),
    /// Whether each case applies; the last one does.
    Switch(Vec<(bool, Vec<Step>)>),
    Workflow,
}

/// A step, as a file says it.
#[derive(Clone, Debug)]
struct Step {
    id: String,
    kind: Kind,
    /// Earlier steps of the list.
    needs: Vec<usize>,
    when: &'static str,
    condition: Option<bool>,
    items: Option<usize>,
    is_parallel: bool,
    retries: u32,
    turns: Option<u32>,
    continue_on_error: bool,
    compensate: bool,
}

/// Draws workflows.
struct Draw {
    seed: u64,
    drawn: u64,
    next: usize,
    left: usize,
}

impl Draw {
    fn new(seed: u64) -> Self {
        Self { seed, drawn: 0, next: 0, left: 14 }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        let hash = blake3::hash(format!("{}/{}", self.seed, self.drawn).as_bytes());
        let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap());
        (number % bound as u64) as usize
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    fn list(&mut self, depth: usize) -> Vec<Step> {
        let count = 1 + self.below(if depth == 0 { 5 } else { 3 });
        let mut steps: Vec<Step> = Vec::new();
        for _ in 0..count {
            if self.left == 0 && !steps.is_empty() {
                break;
            }
            let step = self.step(&steps, depth);
            steps.push(step);
        }
        steps
    }

    fn step(&mut self, before: &[Step], depth: usize) -> Step {
        self.left = self.left.saturating_sub(1);
        self.next += 1;
        let id = format!("s{}", self.next);
        let needs: Vec<usize> = (0..before.len()).filter(|_| self.one_in(2)).collect();
        let when = ["succeeded", "failed", "unreached", "done", "any"];
        let when = if needs.is_empty() || !self.one_in(4) { "succeeded" } else { when[self.below(5)] };
        let kind = match self.below(if depth < 2 { 9 } else { 5 }) {
            0 => Kind::Set(self.below(100) as i64),
            1 => Kind::Wait,
            5 | 6 => Kind::Group(self.list(depth + 1)),
            7 => {
                let applies = self.one_in(2);
                Kind::Switch(vec![(applies, self.list(depth + 1)), (true, self.list(depth + 1))])
            }
            8 => Kind::Workflow,
            _ => Kind::Call,
        };
        let acts = !matches!(kind, Kind::Set(_) | Kind::Wait);
        let items = self.one_in(3).then(|| self.below(4));
        let is_parallel = items.is_some() && self.one_in(2);
        let continue_on_error = self.one_in(4);
        // Whether another item has failed by then would decide.
        let may_go_on = !is_parallel || continue_on_error;
        Step {
            condition: self.one_in(6).then(|| self.one_in(2)),
            retries: if acts && may_go_on && self.one_in(2) { 1 + self.below(2) as u32 } else { 0 },
            turns: (may_go_on && self.one_in(5)).then(|| 1 + self.below(3) as u32),
            compensate: acts && self.one_in(2),
            id,
            kind,
            needs,
            when,
            items,
            is_parallel,
            continue_on_error,
        }
    }
}

/// The steps of the file that the others run as a workflow.
fn child() -> Vec<Step> {
    let plain = |id: &str, kind, needs| Step {
        id: id.to_owned(),
        kind,
        needs,
        when: "succeeded",
        condition: None,
        items: None,
        is_parallel: false,
        retries: 0,
        turns: None,
        continue_on_error: false,
        compensate: id == "one",
    };
    vec![plain("one", Kind::Call, vec![]), plain("two", Kind::Call, vec![0])]
}

impl Step {
    /// The step as JSON, which is YAML.
    fn to_json(&self, list: &[Self]) -> Value {
        let outputs = |steps: &[Self]| -> Value {
            steps.iter().map(|step| (step.id.clone(), json!(format!("${{ .steps.{}.output }}", step.id)))).collect()
        };
        let steps = |steps: &[Self]| -> Value { steps.iter().map(|step| step.to_json(steps)).collect() };
        let mut step = json!({ "id": self.id });
        match &self.kind {
            Kind::Call => {
                step["call"] = json!("kv");
                let needs: Vec<String> =
                    self.needs.iter().map(|need| format!(".steps.{}.output", list[*need].id)).collect();
                let item = if self.items.is_some() { ".item" } else { "null" };
                let turn = if self.turns.is_some() { ".turn" } else { "null" };
                step["with"] = json!(format!("${{ [[{}], {item}, {turn}] }}", needs.join(", ")));
            }
            Kind::Set(value) => step["set"] = json!(value),
            Kind::Wait => step["wait"] = json!("1s"),
            Kind::Group(inner) => (step["steps"], step["outputs"]) = (steps(inner), outputs(inner)),
            Kind::Switch(cases) => {
                let case = |(at, (applies, inner)): (usize, &(bool, Vec<Self>))| {
                    let mut case = json!({ "steps": steps(inner), "outputs": outputs(inner) });
                    if at + 1 < cases.len() {
                        case["if"] = json!(format!("${{ {applies} }}"));
                    }
                    case
                };
                step["switch"] = cases.iter().enumerate().map(case).collect();
            }
            Kind::Workflow => step["workflow"] = json!("./child.yaml"),
        }
        let needs: Vec<&str> = self.needs.iter().map(|need| list[*need].id.as_str()).collect();
        if !needs.is_empty() {
            step["needs"] = json!(needs);
            step["when"] = json!(self.when);
        }
        if let Some(condition) = self.condition {
            step["if"] = json!(format!("${{ {condition} }}"));
        }
        if let Some(items) = self.items {
            step["for-each"] = (0..items).collect();
            step["max-parallel"] = json!(if self.is_parallel { 64 } else { 1 });
        }
        if self.retries > 0 {
            step["retry"] = json!({ "max": self.retries, "backoff": "1s" });
        }
        if let Some(turns) = self.turns {
            step["repeat"] = json!({ "max": turns });
        }
        if self.continue_on_error {
            step["continue-on-error"] = json!(true);
        }
        if self.compensate {
            step["compensate"] = json!({ "call": "kv", "with": "${ [.output, .item] }", "retry": { "max": 1 } });
            if self.items.is_none() {
                step["compensate"]["with"] = json!("${ [.output, null] }");
            }
        }
        step
    }
}

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
    // Each call that succeeded, and can be undone by itself, was undone once, or by a step around it.
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
