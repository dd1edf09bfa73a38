//! Compares what is expected of a case with what happened.

mod calls;
pub(in crate::testing) mod difference;
pub(in crate::testing) mod fits;

use super::case_file::{Case, Expectation, Templated};
use super::execution::{End, Execution, Stage};
use crate::host::{LoadError, Outcome, Status};
use crate::process::Micros;
use crate::workflow::diagnostics::Diagnostic;
use crate::workflow::expression::Scope;
use crate::workflow::interpreter::kind::BAD_INPUT;
use crate::workflow::model::{Spanned, write_duration};
use crate::workflow::syntax::Span;
use difference::{Difference, differences, shown};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Judges an execution. Without failures the case has passed. Under faults, `takes` is not
/// compared, and repeats of a call count as one.
pub(super) fn judge(stage: &Stage, case: &Case, execution: &Execution, has_faults: bool) -> Vec<Diagnostic> {
    let outcome = match &execution.end {
        End::Ended(outcome) => outcome,
        End::Refused(LoadError::Inputs(inputs)) if case.expects_refusal() => return refused(stage, case, inputs),
        other => return vec![unended(case, execution, other)],
    };
    if has_faults && let Err(why) = stage.replay(execution) {
        let message = format!("the run cannot be replayed from its records: {why}");
        return vec![Diagnostic::new("replay", message, case.name.span)];
    }
    let mut judge = Judge { stage, case, execution, outcome, facts: Value::Null, found: Vec::new() };
    judge.facts = judge.facts();
    let expect = &case.expect;
    judge.status(expect);
    judge.problem(expect);
    judge.outputs(expect);
    judge.steps(expect);
    judge.order(expect);
    calls::judge(&mut judge, expect, has_faults);
    if !has_faults {
        judge.takes(expect);
    }
    judge.logs(expect);
    judge.that(expect);
    judge.faults();
    judge.found
}

/// Judges a case that expects its inputs to be refused, as they were.
fn refused(stage: &Stage, case: &Case, inputs: &[(String, String)]) -> Vec<Diagnostic> {
    let expect = &case.expect;
    let mut found = Vec::new();
    if let Some(Spanned { value, span }) = &expect.status {
        let message = format!("the inputs were refused, so there was no run, and it is not {value}");
        found.push(Diagnostic::new("status", message, *span).hint("leave out `status`"));
    }
    let Some(wanted) = &expect.problem else { return found };
    let given = stage.inputs_of(case);
    let scope = Scope::object([("inputs", Scope::Borrowed(&given))]);
    let expected = match wanted.members.evaluate(stage.jq(), &scope) {
        Ok(expected) => expected,
        Err(bad) => {
            let place = wanted.members.place(&bad.pointer);
            found.push(Diagnostic::new("expression", bad.problem.to_string(), place));
            return found;
        }
    };
    let name = |(pointer, _): &(String, String)| pointer.split('/').nth(1).unwrap_or_default().to_owned();
    let names: BTreeSet<String> = inputs.iter().map(name).collect();
    let why: Vec<String> = inputs.iter().map(|(at, what)| format!("{} {what}", at.trim_start_matches('/'))).collect();
    let title = format!("the inputs do not fit: {}", why.join("; "));
    let actual = json!({ "kind": BAD_INPUT, "title": title, "class": "definite", "inputs": names });
    for difference in differences(&wanted.members.node, &expected, &actual, true) {
        let message = describe("the problem", "problem", &difference);
        found.push(Diagnostic::new("problem", message, difference.span).hint(title.clone()));
    }
    found
}

/// The failure of a case whose run did not come to its end.
fn unended(case: &Case, execution: &Execution, end: &End) -> Diagnostic {
    let name = case.name.span;
    match end {
        End::Stuck => {
            let waits: Vec<String> = execution
                .story
                .open()
                .into_iter()
                .map(|(path, waits)| {
                    let waits = if waits.is_empty() { String::new() } else { format!(", which waits for {waits}") };
                    format!("`{path}`{waits}")
                })
                .collect();
            let message = format!("the run never ends: nothing will happen any more in {}", waits.join(", "));
            Diagnostic::new("stuck", message, name).hint("signals: [ { at: 1h, name: approve, body: { by: Ann } } ]")
        }
        End::Unanswered(call) => calls::unanswered(case, call),
        End::BadExpression(span, why) => Diagnostic::new("expression", why.clone(), *span),
        End::TooLong(what) => {
            let message = format!("the run was given up: it used more {what} than a test may");
            Diagnostic::new("too-long", message, name).hint("docs/limits.md has the limits of tests")
        }
        End::Refused(error) => Diagnostic::new("refused", error.to_string(), name),
        End::Broken(why) => Diagnostic::new("host-fault", why.clone(), name),
        End::Ended(_) => Diagnostic::new("host-fault", "it has ended", name),
    }
}

pub(super) struct Judge<'a> {
    stage: &'a Stage,
    case: &'a Case,
    execution: &'a Execution,
    outcome: &'a Outcome,
    /// What expressions see.
    facts: Value,
    found: Vec<Diagnostic>,
}

impl Judge<'_> {
    fn fail(&mut self, code: &'static str, message: impl Into<String>, span: Span) {
        self.found.push(Diagnostic::new(code, message, span));
    }

    /// What expressions see.
    fn facts(&self) -> Value {
        let (story, outcome) = (&self.execution.story, self.outcome.to_json());
        let steps: Map<String, Value> = story
            .steps
            .iter()
            .map(|(path, step)| {
                let attempts = step.attempts.saturating_sub(self.injected(path));
                let facts = json!({ "status": step.status, "attempts": attempts, "error": step.error });
                (path.clone(), facts)
            })
            .collect();
        let calls: Vec<Value> =
            self.execution.calls.iter().filter(|call| !call.is_injected).map(calls::facts).collect();
        let logs: Vec<&str> = story.logs.iter().map(|line| line.text.as_str()).collect();
        json!({
            "inputs": self.stage.inputs_of(self.case),
            "outputs": outcome["outputs"],
            "status": outcome["status"],
            "problem": outcome["problem"],
            "steps": steps,
            "calls": calls,
            "logs": logs,
            "takes": crate::workflow::model::millis(story.ended.since(story.started)),
        })
    }

    /// The most attempts of one item of a step that faults let fail.
    fn injected(&self, path: &str) -> u32 {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        let injected = self.execution.calls.iter().filter(|call| call.is_injected);
        for call in injected.filter(|call| call.step == path || call.step.starts_with(&format!("{path}["))) {
            *counts.entry(&call.step).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// The value of an expectation, with its expressions filled in.
    fn value(&mut self, templated: &Templated) -> Option<Value> {
        let evaluated = templated.evaluate(self.stage.jq(), &Scope::Borrowed(&self.facts));
        evaluated.map_err(|bad| self.fail("expression", bad.problem.to_string(), templated.place(&bad.pointer))).ok()
    }

    fn status(&mut self, expect: &Expectation) {
        let actual = json!(self.outcome.status);
        let actual = actual.as_str().unwrap_or_default();
        let (wanted, span) = match &expect.status {
            Some(Spanned { value, span }) => (value.as_str(), *span),
            // Who expects a problem expects no success.
            None if expect.problem.is_some() => return,
            None if expect.outputs.is_none() && self.outcome.status == Status::Succeeded => return,
            None => ("succeeded", self.case.name.span),
        };
        if wanted == actual {
            return;
        }
        let message = format!("the run {}, and not {wanted}", how(actual));
        let problem = self.outcome.result.as_ref().err().map(ToString::to_string);
        self.found.push(
            Diagnostic::new("status", message, span).hint_maybe(problem.map(|why| format!("its problem: {why}"))),
        );
    }

    fn problem(&mut self, expect: &Expectation) {
        let Some(wanted) = &expect.problem else { return };
        let actual = self.facts["problem"].clone();
        if actual.is_null() {
            let message =
                format!("the run {}, without a problem", how(json!(self.outcome.status).as_str().unwrap_or_default()));
            return self.fail("problem", message, wanted.span);
        }
        let Some(expected) = self.value(&wanted.members) else { return };
        let mut actual = with_data_beside(actual);
        if expected["cause"].is_string() && actual["cause"]["kind"].is_string() {
            actual["cause"] = actual["cause"]["kind"].clone();
        }
        for difference in differences(&wanted.members.node, &expected, &actual, true) {
            let message = describe("the problem", "problem", &difference);
            let whole = format!("the problem is {}", without_nulls(&actual));
            self.found.push(Diagnostic::new("problem", message, difference.span).hint(whole));
        }
    }

    fn outputs(&mut self, expect: &Expectation) {
        for (templated, is_part) in [(&expect.outputs, false), (&expect.outputs_match, true)] {
            let Some(templated) = templated else { continue };
            // That there are none has been said.
            let Some(actual) = self.outcome.outputs() else { continue };
            let Some(expected) = self.value(templated) else { continue };
            for difference in differences(&templated.node, &expected, &actual, is_part) {
                let message = describe("the outputs", "outputs", &difference);
                self.fail("outputs", message, difference.span);
            }
        }
    }

    fn steps(&mut self, expect: &Expectation) {
        for (path, wanted) in &expect.steps {
            let story = &self.execution.story;
            let Some(status) = story.status(&path.value) else {
                let message = format!("nothing is known of `{}`: it was not reached", path.value);
                let known = self.execution.story.steps.keys().filter(|known| known.contains(path.value.as_str()));
                let known: Vec<String> = known.take(5).map(|known| format!("`{known}`")).collect();
                let hint = (!known.is_empty()).then(|| format!("there are {}", known.join(", ")));
                self.found.push(Diagnostic::new("steps", message, path.span).hint_maybe(hint));
                continue;
            };
            if status != wanted.value {
                let error = story.steps.get(&path.value).map_or(&Value::Null, |step| &step.error);
                let why = error["title"].as_str().map(|title| format!("its error: {title}"));
                let message = format!("`{}` is {status}, and not {}", path.value, wanted.value);
                self.found.push(Diagnostic::new("steps", message, wanted.span).hint_maybe(why));
            }
        }
    }

    fn order(&mut self, expect: &Expectation) {
        for pair in expect.order.windows(2) {
            let [first, second] = pair else { continue };
            let steps = &self.execution.story.steps;
            let ended = steps.get(&first.value).and_then(|step| step.begun.and(step.ended));
            let begun = steps.get(&second.value).and_then(|step| step.begun);
            let message = match (ended, begun) {
                (Some(ended), Some(begun)) if ended <= begun => continue,
                (Some(_), Some(_)) => format!("`{}` started before `{}` had ended", second.value, first.value),
                (None, _) => format!("`{}` did not run", first.value),
                (_, None) => format!("`{}` did not run", second.value),
            };
            let span = if ended.is_none() { first.span } else { second.span };
            self.fail("order", message, span);
        }
    }

    fn takes(&mut self, expect: &Expectation) {
        let Some(wanted) = &expect.takes else { return };
        let story = &self.execution.story;
        let actual = story.ended.since(story.started);
        let message = match actual {
            less if less < wanted.min => {
                format!("it takes {}, less than {}", rounded(less), write_duration(wanted.min))
            }
            more if more > wanted.max => format!("it takes {}, more than {}", rounded(more), rounded(wanted.max)),
            _ => return,
        };
        self.fail("takes", message, wanted.span);
    }

    fn logs(&mut self, expect: &Expectation) {
        for wanted in &expect.logs {
            let lines = &self.execution.story.logs;
            if lines.iter().any(|line| line.text.contains(wanted.value.as_str())) {
                continue;
            }
            let some: Vec<String> = lines.iter().take(5).map(|line| format!("{:?}", line.text)).collect();
            let hint =
                if some.is_empty() { "it has no lines".to_owned() } else { format!("it has {}", some.join(", ")) };
            let message = "no line of the log has this text";
            self.found.push(Diagnostic::new("logs", message, wanted.span).hint(hint));
        }
    }

    /// A fault of the case that hits nothing tests nothing.
    fn faults(&mut self) {
        for (fault, why) in self.execution.missed.iter().filter(|(fault, _)| self.case.faults.0.contains(fault)) {
            let message = format!("the fault `{fault}` hits nothing: {why}");
            let span = self.case.faults_span.unwrap_or(self.case.name.span);
            let hint = "`--trace` shows the numbers of records and calls";
            self.found.push(Diagnostic::new("faults", message, span).hint(hint));
        }
    }

    fn that(&mut self, expect: &Expectation) {
        for condition in &expect.that {
            let Some(value) = self.value(condition) else { continue };
            if matches!(value, Value::Null | Value::Bool(false)) {
                let message = format!("this is {value}");
                let hint = format!("the outputs are {}", shown(&self.facts["outputs"]));
                self.found.push(Diagnostic::new("that", message, condition.node.span).hint(hint));
            }
        }
    }
}

/// A duration without what the host's timers are late.
pub(super) fn rounded(duration: Micros) -> String {
    let whole = if duration.0 >= 1_000 { Micros(duration.0 / 1_000 * 1_000) } else { duration };
    write_duration(whole)
}

fn how(status: &str) -> String {
    match status {
        "cancelled" => "was cancelled".to_owned(),
        "timed-out" => "has timed out".to_owned(),
        other => other.to_owned(),
    }
}

/// The members of a problem in a line, without its data's data.
fn without_nulls(problem: &Value) -> String {
    let members = problem.as_object().into_iter().flatten();
    let plain = members.filter(|(_, value)| !value.is_null() && !value.is_object());
    plain.map(|(name, value)| format!("{name}: {}", shown(value))).collect::<Vec<_>>().join(", ")
}

/// The problem with the members of its data beside its own.
fn with_data_beside(mut problem: Value) -> Value {
    let data = problem["data"].as_object().cloned().unwrap_or_default();
    if let Some(members) = problem.as_object_mut() {
        for (name, value) in data {
            members.entry(name).or_insert(value);
        }
    }
    problem
}

/// A difference in a sentence.
fn describe(what: &str, root: &str, difference: &Difference) -> String {
    let Difference { path, expected, actual, .. } = difference;
    let place = if path.is_empty() { what.to_owned() } else { format!("`{root}{path}`") };
    match (expected, actual) {
        (Some(expected), Some(actual)) => format!("{place}: expected {}, got {}", shown(expected), shown(actual)),
        (Some(expected), None) => format!("{place}: expected {}, and there is none", shown(expected)),
        (None, Some(actual)) => format!("{place}: not expected, got {}", shown(actual)),
        (None, None) => place,
    }
}
