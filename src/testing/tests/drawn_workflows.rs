//! Drawn workflows with hosts that die, answers that are lost or late, and clocks that jump, beside
//! the plain executor of [`reference`](crate::workflow::interpreter::tests::reference): each has
//! the calls, with their keys, the statuses and the outcome of a run that nothing disturbs.

use crate::dispatch::{CallContext, Declaration, from_inline_fn};
use crate::host::{Host, Workflow};
use crate::process::{Answer, Micros, Payload};
use crate::sim::Dice;
use crate::testing::case_file::Case;
use crate::testing::execution::oracle::{self, Oracle, scope_of};
use crate::testing::execution::{End, Execution, REAL_TIME_MAX, SeenCall, Stage};
use crate::testing::faults::{Fault, Faults, draw};
use crate::testing::suite::Suite;
use crate::workflow::interpreter::tests::drawn::{CAREFUL, Draw, Flow, HANDLER, body_of, seeds, signals_of, texts};
use crate::workflow::interpreter::tests::reference::{
    Reference, answer, can_undo, failed_after, is_within, outcome, place, undoes,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(super) fn host() -> Host {
    let never = |_: Payload, _: CallContext| -> Answer { panic!("a call of a test leaves the host") };
    let shop = Declaration::new("May be called again").repeatable();
    let bank = Declaration::new("May not be called again");
    let host = Host::builder().workers(1).handler(HANDLER, from_inline_fn(shop, never));
    host.handler(CAREFUL, from_inline_fn(bank, never)).build().unwrap()
}

/// How often each signal is sent: more often than any step waits for it, with all attempts.
const SIGNALS: usize = 40;

/// A drawn workflow, ready to be executed.
pub(super) struct Drawn {
    pub(super) seed: u64,
    pub(super) flow: Flow,
    suite: Suite,
    pub(super) stage: Stage,
}

impl Drawn {
    /// Draws a workflow and the times at which its signals are sent, and when it is cancelled.
    fn new(host: &Host, folder: &Path, seed: u64, cancel: Option<u64>) -> Self {
        Self::of(host, folder, seed, Draw::new(seed).flow(), cancel)
    }

    pub(super) fn of(host: &Host, folder: &Path, seed: u64, flow: Flow, cancel: Option<u64>) -> Self {
        let (text, child) = texts(&flow);
        std::fs::write(folder.join("child.yaml"), child).unwrap();
        let workflow = host.parse("drawn.yaml", &text, folder).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut dice = Dice::new(seed);
        let names = signals_of(&flow).into_iter().flat_map(|name| vec![name; SIGNALS]);
        let signals = names.map(|name| {
            let body = body_of(&name);
            json!({ "at": format!("{}ms", dice.below(5_000)), "name": name, "body": body })
        });
        let mut case = json!({ "name": "drawn", "signals": signals.collect::<Value>(), "expect": {} });
        if let Some(cancel) = cancel {
            case["cancel"] = json!({ "at": format!("{cancel}ms") });
        }
        let case = json!({ "cases": [case] }).to_string();
        let suite = Suite::parse(host, "drawn.test.yaml", &case, &workflow).unwrap_or_else(|error| panic!("{error}"));
        let stage = Self::stage(host, &workflow);
        Self { seed, flow, suite, stage }
    }

    fn stage(host: &Host, workflow: &Workflow) -> Stage {
        let answer = |place: &str, time| answer(outcome(place, time));
        Stage::new(host, workflow, 1, &[], REAL_TIME_MAX).with_oracle(Oracle { answer, former: None })
    }

    pub(super) fn case(&self) -> &Case {
        &self.suite.cases()[0]
    }

    pub(super) fn told(&self, faults: &Faults) -> String {
        format!("seed {}, faults {faults}\n{:#?}", self.seed, self.flow)
    }

    pub(super) fn execute(&self, faults: &Faults) -> Execution {
        let execution = self.stage.execute(self.case(), faults);
        assert!(matches!(execution.end, End::Ended(_)), "{:?}: {}", execution.end, self.told(faults));
        self.stage.replay(&execution).unwrap_or_else(|error| panic!("{error}: {}", self.told(faults)));
        execution
    }

    /// Faults that no workflow may notice: a failed attempt is one that the reference has not.
    pub(super) fn faults(&self, dice: &mut Dice, calm: &Execution) -> Faults {
        let mut faults = draw(dice, self.stage.workflow().plan(), self.case(), calm);
        faults.0.retain(|fault| !matches!(fault, Fault::Fail { .. }));
        faults
    }
}

/// The calls under keys that had not succeeded: the scope, how often one of the place was made
/// before, and what it was given.
fn calls(execution: &Execution) -> BTreeSet<(String, u32, String)> {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let call = |seen: &SeenCall| {
        let scope = scope_of(&seen.key);
        let time = times.entry(place(scope)).or_default();
        *time += 1;
        (scope.to_owned(), *time - 1, seen.args.to_string())
    };
    execution.calls.iter().map(call).collect()
}

/// The same without the numbers in the scopes: a call that was perhaps sent twice, and failed, may
/// have happened, so that the next attempt has its key.
fn places(calls: &BTreeSet<(String, u32, String)>) -> BTreeSet<(String, u32, String)> {
    calls.iter().map(|(scope, time, args)| (place(scope), *time, args.clone())).collect()
}

pub(super) fn data_of(execution: &Execution) -> Result<Value, Value> {
    let End::Ended(outcome) = &execution.end else { panic!("it has ended") };
    match &outcome.result {
        Ok(Payload::Json(json)) => Ok(json.to_value()),
        Ok(other) => panic!("{other:?}"),
        Err(problem) => Err(problem.data.as_ref().map(crate::process::Json::to_value).unwrap_or_default()),
    }
}

fn compare(drawn: &Drawn, faults: &Faults, execution: &Execution) {
    let (flow, told) = (&drawn.flow, || drawn.told(faults));
    let reference = Reference::run(flow, !oracle::may_die(faults));
    let mut both = [calls(execution), reference.calls.clone()];
    if oracle::may_die(faults) {
        both = both.map(|calls| places(&calls));
    }
    let [made, wanted] = both;
    let (expected, extra): (Vec<_>, Vec<_>) = (wanted.difference(&made).collect(), made.difference(&wanted).collect());
    assert!(
        expected.is_empty() && extra.is_empty(),
        "not made {expected:#?}, not expected {extra:#?}\n{}\n{:#?}",
        told(),
        execution.incidents
    );
    for (step, ended) in flow.steps.iter().zip(&reference.ended) {
        assert_eq!(execution.story.status(&step.id), Some(ended.status), "{}\n{}", step.id, told());
    }
    match data_of(execution) {
        Ok(output) => {
            assert!(!reference.is_failed && reference.failed_after.is_empty(), "it succeeded\n{}", told());
            assert_eq!(output, reference.outputs(flow), "{}", told());
        }
        Err(data) => {
            assert_eq!(failed_after(&data), reference.failed_after, "{}", told());
            if reference.is_failed {
                assert_eq!(data["failed"], json!(reference.failed(flow)), "{}", told());
            }
        }
    }
}

#[test]
fn drawn_workflows_end_alike_whatever_befalls_their_host() {
    let (host, folder) = (host(), tempfile::tempdir().unwrap());
    for seed in seeds(150) {
        let drawn = Drawn::new(&host, folder.path(), seed, None);
        let calm = drawn.execute(&Faults::default());
        compare(&drawn, &Faults::default(), &calm);
        let mut dice = Dice::new(seed);
        for _ in 0..4 {
            let faults = drawn.faults(&mut dice, &calm);
            compare(&drawn, &faults, &drawn.execute(&faults));
        }
        if seed % 10 == 0 {
            for record in 1..=calm.story.records {
                let faults = Faults(vec![Fault::Crash { record, down: Micros(0) }]);
                compare(&drawn, &faults, &drawn.execute(&faults));
            }
        }
    }
}

#[test]
fn drawn_workflows_that_are_cancelled_undo_what_they_did_whatever_befalls_their_host() {
    let (host, folder) = (host(), tempfile::tempdir().unwrap());
    for seed in seeds(150) {
        let mut dice = Dice::new(seed ^ 0x77);
        let drawn = Drawn::new(&host, folder.path(), seed, Some(dice.below(3_000)));
        let calm = drawn.execute(&Faults::default());
        is_undone(&drawn, &Faults::default(), &calm);
        for _ in 0..4 {
            let faults = drawn.faults(&mut dice, &calm);
            is_undone(&drawn, &faults, &drawn.execute(&faults));
        }
    }
}

/// Each call of a cancelled run that succeeded, and can be undone by itself, was undone, or a step
/// around it was; each that was undone is listed.
fn is_undone(drawn: &Drawn, faults: &Faults, execution: &Execution) {
    let End::Ended(outcome) = &execution.end else { panic!("it has ended") };
    let Err(problem) = &outcome.result else { return };
    if problem.kind != crate::process::problem::kind::CANCELLED {
        return;
    }
    let Err(data) = data_of(execution) else { return };
    let undone: BTreeSet<&str> = execution.calls.iter().filter_map(|seen| undoes(scope_of(&seen.key))).collect();
    let listed = |key: &str| data[key].as_array().cloned().unwrap_or_default();
    let not_undone = listed("not-undone");
    let is_short_of_time = not_undone.iter().any(|one| one["kind"] == "no-time");
    let known = not_undone.iter().filter(|one| one["may-be-done"] != true);
    let count = listed("undone").len() + known.count();
    assert!(count == undone.len() || is_short_of_time, "{data:#}: {undone:?}\n{}", drawn.told(faults));
    for seen in execution.calls.iter().filter(|seen| matches!(seen.answer, Some(Ok(_)))) {
        let scope = scope_of(&seen.key);
        let is_undone = undone.iter().any(|undone| is_within(scope, undone));
        // The cancel cut off the call, or a step around it.
        let is_around = |one: &Value| one["step"].as_str().is_some_and(|step| seen.step.starts_with(step));
        let is_known = is_undone || is_short_of_time || not_undone.iter().any(is_around);
        assert!(!can_undo(&drawn.flow.steps, scope) || is_known, "{scope}: {undone:?}\n{}", drawn.told(faults));
    }
}
