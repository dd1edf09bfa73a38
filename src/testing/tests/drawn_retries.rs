//! Drawn workflows that fail, undo what they did, and are retried until they succeed, with hosts
//! that die: what was done and not undone is then what a run has done that never failed, each thing
//! once.

use super::drawn_workflows::{Drawn, data_of, host};
use crate::host::{Host, RerunError, RetryOptions};
use crate::process::{Answer, Payload};
use crate::run::Record;
use crate::sim::Dice;
use crate::testing::execution::oracle::{Former, Oracle, scope_of};
use crate::testing::execution::{Execution, REAL_TIME_MAX, SeenCall, Stage};
use crate::testing::faults::Faults;
use crate::workflow::interpreter::tests::drawn::{Draw, Flow, seeds};
use crate::workflow::interpreter::tests::reference::{Reference, answer, can_undo, is_within, outcome, place, undoes};
use crate::workflow::interpreter::{RepeatError, Undone};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The most runs after the first: the last one succeeds.
const RETRIES_MAX: u64 = 2;

/// An answer says nothing of when the call is made: one that is made again has the same arguments.
fn fails(place: &str, time: u32) -> Answer {
    answer(outcome(place, time).map(|_| result(place)))
}

fn result(place: &str) -> Value {
    json!(blake3::hash(place.as_bytes()).as_bytes()[0])
}

/// What was done and not undone: keys by their places.
fn effects(calls: &[SeenCall], told: &dyn Fn() -> String) -> BTreeMap<String, BTreeSet<String>> {
    let mut done: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut undone: BTreeSet<&str> = BTreeSet::new();
    for seen in calls.iter().filter(|seen| matches!(seen.answer, Some(Ok(_)))) {
        let scope = scope_of(&seen.key);
        match undoes(scope) {
            Some(within) => {
                undone.insert(within);
                for keys in done.values_mut() {
                    keys.retain(|key| !is_within(scope_of(key), within));
                }
            }
            None if scope.starts_with("on.") => {}
            None => {
                let again = undone.iter().find(|within| is_within(scope, within));
                assert_eq!(again, None, "{scope} was undone, and is sent again under its key\n{}", told());
                done.entry(place(scope)).or_default().insert(seen.key.to_string());
            }
        }
    }
    done.retain(|_, keys| !keys.is_empty());
    done
}

/// What can be undone, and is not, is what a failed run could not undo.
fn is_attempted(flow: &Flow, done: &BTreeMap<String, BTreeSet<String>>, calls: &[SeenCall], told: &dyn Fn() -> String) {
    let undone: BTreeSet<&str> = calls.iter().filter_map(|seen| undoes(scope_of(&seen.key))).collect();
    for scope in done.values().flatten().map(|key| scope_of(key)).filter(|scope| can_undo(&flow.steps, scope)) {
        let is_attempted = undone.iter().any(|within| is_within(scope, within));
        assert!(is_attempted, "{scope} was not undone: {undone:?}\n{}", told());
    }
}

/// What an operator finds out who asks the servers. `None` if the paths of the steps do not say it:
/// they do not name the turn.
fn look(steps: &[String], calls: &[SeenCall]) -> Option<Undone> {
    let mut undone = Undone::default();
    for step in steps {
        let of = calls.iter().filter(|seen| seen.step.strip_suffix(".compensate") == Some(step));
        let mut ends: BTreeMap<&str, bool> = BTreeMap::new();
        for seen in of {
            let within = undoes(scope_of(&seen.key))?;
            *ends.entry(within).or_default() |= matches!(seen.answer, Some(Ok(_)));
        }
        let all: BTreeSet<bool> = ends.into_values().collect();
        match (all.len(), all.first()?) {
            (1, true) => undone.are.push(step.clone()),
            (1, false) => undone.are_not.push(step.clone()),
            _ => return None,
        }
    }
    Some(undone)
}

/// The retry of a run. `None` if no step would run again, or if the servers cannot tell what was
/// undone.
fn retried(host: &Host, drawn: &Drawn, execution: &Execution, number: u64) -> Option<Former> {
    let workflow = drawn.stage.workflow();
    let records = Record::decode_run(execution.records.clone()).unwrap();
    let mut options = RetryOptions::default();
    let mut prepared = match host.prepare_retry(workflow, &records, workflow, options.clone()) {
        Err(RerunError::Repeat(RepeatError::Unsure { steps })) => {
            options.undone = look(&steps, &execution.calls)?;
            host.prepare_retry(workflow, &records, workflow, options).unwrap()
        }
        Err(RerunError::Repeat(RepeatError::NothingFailed)) => return None,
        other => other.unwrap_or_else(|error| panic!("{error:?}")),
    };
    let origin = prepared.take_origin(&format!("again-{number}").into());
    Some(Former { input: Payload::json(&prepared.repetition.input), origin, calls: execution.calls.clone() })
}

/// Runs a workflow with a seed, and retries it. Returns whether the last retry was begun.
fn run(host: &Host, drawn: &mut Drawn, dice: &mut Dice) -> bool {
    let mut former = None;
    let retries = 1 + dice.below(RETRIES_MAX);
    for number in 0..=retries {
        let is_last = number == retries;
        let answers = if is_last { |place: &str, _| answer(Ok(result(place))) } else { fails };
        let before = former.as_ref().map_or(0, |former: &Former| former.calls.len());
        let stage = Stage::new(host, drawn.stage.workflow(), 1, &[], REAL_TIME_MAX);
        drawn.stage = stage.with_oracle(Oracle { answer: answers, former: former.take() });
        let mut faults = Faults::default();
        let mut execution = drawn.execute(&faults);
        if dice.chance(70) {
            faults = drawn.faults(dice, &execution);
            execution = drawn.execute(&faults);
        }
        let told = || format!("run {number}, {}", drawn.told(&faults));
        let done = effects(&execution.calls, &told);
        for (place, keys) in &done {
            assert!(keys.len() == 1, "{place} was done {} times: {keys:?}\n{}", keys.len(), told());
        }
        let result = data_of(&execution);
        // If it failed after the steps, nothing is undone.
        if result.as_ref().is_err_and(|data| data["step"].as_str().is_some_and(|step| !step.starts_with("on."))) {
            is_attempted(&drawn.flow, &done, &execution.calls[before..], &told);
        }
        if is_last {
            assert!(result.is_ok(), "{result:?}\n{}", told());
            let calls = Reference::without_failures(&drawn.flow).calls;
            let wanted = calls.iter().map(|(scope, ..)| place(scope)).filter(|place| !place.starts_with("on."));
            let missing: Vec<String> = wanted.filter(|place| !done.contains_key(place)).collect();
            assert!(missing.is_empty(), "not done: {missing:?}\n{}", told());
            return true;
        }
        if result.is_ok() {
            return false;
        }
        former = retried(host, drawn, &execution, number + 1);
        if former.is_none() {
            return false;
        }
    }
    true
}

#[test]
fn drawn_workflows_that_are_retried_have_done_each_thing_once() {
    let (host, folder) = (host(), tempfile::tempdir().unwrap());
    let (mut whole, mut all) = (0, 0);
    for seed in seeds(300) {
        let flow = Draw::of_fixed_calls(seed).flow();
        let mut drawn = Drawn::of(&host, folder.path(), seed, flow, None);
        whole += u32::from(run(&host, &mut drawn, &mut Dice::new(seed)));
        all += 1;
    }
    assert!(all == 1 || whole * 5 > all, "of {all} workflows {whole} were retried to the end");
}
