//! Workflows that are drawn, in any order of answers, beside the [reference](super::reference).

use super::drawn::{Draw, Flow, body_of, seeds, texts};
use super::reference::{Reference, answer, can_undo, failed_after, is_within, outcome, place, undoes};
use super::*;
use crate::process::handler::CACHE;
use crate::workflow::plan::{Environment, Handlers, ResolvedComponent, Unusable};
use std::collections::{BTreeMap, BTreeSet};

/// The file that runs as a step of others.
pub(super) struct Files(pub(super) String);

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

fn plan_of(flow: &Flow) -> Plan {
    let (text, child) = texts(flow);
    match load(&Source::new("drawn.yaml", &text), &jq(), &Files(child)) {
        Ok(plan) => plan,
        Err(problems) => panic!("{problems:?}\n{text}"),
    }
}

/// The servers, and the cache of steps.
#[derive(Default)]
struct Servers {
    /// How often a call of each place was made.
    times: BTreeMap<String, u32>,
    /// The answers of calls that succeeded, by their scopes.
    succeeded: BTreeMap<String, Value>,
    /// All calls under keys that had not succeeded: the scope, how often one of the place was made
    /// before, and what it was given.
    calls: BTreeSet<(String, u32, String)>,
    cache: BTreeMap<String, Value>,
}

impl Servers {
    /// The answer to a call, by its place and by how often it was made.
    fn answer(&mut self, ask: &Ask) -> Answer {
        if ask.what == crate::run::SIGNAL {
            return Ok(Payload::json(&body_of(ask.input["name"].as_str().unwrap())));
        }
        if ask.what == CACHE {
            let found = self.cache.get(ask.input["key"].as_str().unwrap());
            let found = found.map(|output| json!({ "from": { "run": "r0", "at": 1 }, "output": output }));
            return Ok(Payload::json(&found));
        }
        let outcome = match self.succeeded.get(&ask.scope) {
            Some(known) => Ok(known.clone()),
            None => self.first(ask),
        };
        if let (Ok(value), Some(key)) = (&outcome, &ask.cache) {
            self.cache.insert(key.to_string(), value.clone());
        }
        answer(outcome)
    }

    /// The answer to a call under a key that has not succeeded.
    fn first(&mut self, ask: &Ask) -> Result<Value, ProblemClass> {
        let place = place(&ask.scope);
        let time = self.times.entry(place.clone()).or_default();
        let outcome = outcome(&place, *time);
        self.calls.insert((ask.scope.clone(), *time, ask.input.to_string()));
        *time += 1;
        if let Ok(value) = &outcome {
            self.succeeded.insert(ask.scope.clone(), value.clone());
        }
        outcome
    }
}

fn compare(seed: u64, order: impl FnMut(usize) -> usize) {
    let flow = Draw::new(seed).flow();
    let reference = Reference::run(&flow, true);
    let mut servers = Servers::default();
    let world = World::of(plan_of(&flow), json!({}));
    let world = world.run(|ask| Reply::Now(servers.answer(ask)), order);
    let expected: Vec<_> = reference.calls.difference(&servers.calls).cloned().collect();
    let extra: Vec<_> = servers.calls.difference(&reference.calls).cloned().collect();
    assert!(
        expected.is_empty() && extra.is_empty(),
        "seed {seed}: not made {expected:?}, not expected {extra:?}\n{flow:#?}"
    );
    for (step, ended) in flow.steps.iter().zip(&reference.ended) {
        assert_eq!(world.status(&step.id), ended.status, "seed {seed}: {}\n{flow:#?}", step.id);
    }
    if !reference.is_failed && reference.failed_after.is_empty() {
        assert_eq!(world.output(), reference.outputs(&flow), "seed {seed}\n{flow:#?}");
        return;
    }
    let data = world.data();
    assert_eq!(failed_after(&data), reference.failed_after, "seed {seed}\n{flow:#?}");
    if reference.is_failed {
        assert_eq!(data["failed"], json!(reference.failed(&flow)), "seed {seed}\n{flow:#?}");
    }
}

#[test]
fn random_workflows_do_what_the_rules_say_in_any_order_of_answers() {
    for seed in seeds(300) {
        compare(seed, |_| 0);
        let mut draw = Draw::new(seed ^ 0xabcd);
        compare(seed, |open| draw.below(open));
    }
}

/// The scopes below which something was undone in a run that was cancelled after some answers, and
/// the scopes of successes that had to be.
fn cancelled(seed: u64, after: usize) {
    let flow = Draw::new(seed).flow();
    let steps = &flow.steps;
    let mut world = World::of(plan_of(&flow), json!({}));
    let mut servers = Servers::default();
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
        let answer = servers.answer(&ask);
        answers += 1;
        if answer.is_ok() && !ask.scope.contains("compensate") {
            succeeded.insert(ask.scope.clone());
        }
        world.answer(ask.tag, answer);
    }
    let after: Vec<&str> = world.asked.iter().skip(calls_before).map(|ask| &*ask.scope).collect();
    let is_after = |scope: &&str| ["compensate", "on.", "signal "].iter().any(|part| scope.contains(part));
    assert!(after.iter().all(is_after), "seed {seed}: {after:?}\n{steps:#?}");
    if !is_cancelled || !matches!(&world.end, Some(StepStatus::Failed(problem)) if problem.kind == "cancelled") {
        return;
    }
    // Each call that succeeded, and can be undone by itself, was undone, or by a step around it.
    let undone: BTreeSet<&str> = world.asked.iter().filter_map(|ask| undoes(&ask.scope)).collect();
    let data = world.data();
    let listed = data["undone"].as_array().map_or(0, Vec::len) + data["not-undone"].as_array().map_or(0, Vec::len);
    assert_eq!(listed, undone.len(), "seed {seed}: each is listed\n{steps:#?}");
    for scope in &succeeded {
        let is_undone = undone.iter().any(|undone| is_within(scope, undone));
        assert!(!can_undo(steps, scope) || is_undone, "seed {seed}: {scope} was not undone: {undone:?}\n{steps:#?}");
    }
}

#[test]
fn random_workflows_that_are_cancelled_undo_what_they_did() {
    for seed in seeds(300) {
        for after in [0, 1, 3, 6] {
            cancelled(seed, after);
        }
    }
}
