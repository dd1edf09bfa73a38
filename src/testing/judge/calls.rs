//! The calls that were made, and those that should have been.

use super::Judge;
use super::difference::shown;
use super::fits::{Fitting, fits};
use crate::process::handler;
use crate::testing::case_file::{Case, Expectation, ExpectedCall};
use crate::testing::execution::SeenCall;
use crate::workflow::diagnostics::Diagnostic;
use crate::workflow::expression::Scope;
use crate::workflow::syntax::Span;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What expressions see of a call.
pub(super) fn facts(call: &SeenCall) -> Value {
    json!({ "call": &*call.handler, "step": call.step, "args": call.args, "sends": call.sends })
}

/// Judges the calls.
pub(super) fn judge(judge: &mut Judge<'_>, expect: &Expectation, has_faults: bool) {
    let made: Vec<&SeenCall> = judge.execution.calls.iter().filter(|call| !call.is_injected).collect();
    let mut expected = BTreeSet::new();
    for wanted in &expect.calls {
        let Some(found) = found(judge, wanted, &made) else { return };
        let count = found.len() as u64;
        let is_wrong = wanted.times.map_or(count == 0 && wanted.sends.is_none(), |times| times != count);
        if is_wrong {
            let times = wanted.times.map_or_else(|| "at least one".to_owned(), |times| times.to_string());
            let message = format!("{count} such call{} made, and {times} expected", were(count));
            judge.found.push(Diagnostic::new("calls", message, wanted.span).hint(made_text(&made, &wanted.call.value)));
        }
        let sends: u64 = found.iter().map(|index| made[*index].sends).sum();
        if let Some(wanted_sends) = wanted.sends.filter(|wanted| *wanted != sends) {
            let message = format!("such calls were sent {sends} time{}, and {wanted_sends} expected", plural(sends));
            let hint = has_faults.then(|| "a call that is repeatable is sent again after a crash".to_owned());
            judge.found.push(Diagnostic::new("calls", message, wanted.span).hint_maybe(hint));
        }
        expected.extend(found);
    }
    let Some(span) = expect.no_other_calls else { return };
    for call in made.iter().enumerate().filter(|(index, _)| !expected.contains(index)).map(|(_, call)| call) {
        let message = format!("there is another call of `{}`, by `{}`: {}", call.handler, call.step, shown(&call.args));
        judge.found.push(Diagnostic::new("calls", message, span));
    }
}

/// The calls that an expected one means; `None` if that cannot be told.
fn found(judge: &mut Judge<'_>, wanted: &ExpectedCall, made: &[&SeenCall]) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for (index, call) in made.iter().enumerate().filter(|(_, call)| *call.handler == *wanted.call.value) {
        let scope = Scope::object([
            ("args", Scope::Borrowed(&call.args)),
            ("step", Scope::Owned(json!(call.step))),
            ("inputs", Scope::Borrowed(&judge.facts["inputs"])),
        ]);
        let fitting = Fitting { jq: judge.stage.jq(), scope: &scope };
        let pattern = (wanted.step.as_ref(), wanted.with.as_ref(), wanted.condition.as_ref());
        match fits(&fitting, pattern, &call.step, &call.args) {
            Ok(None) => found.push(index),
            Ok(Some(_)) => {}
            Err((span, why)) => {
                judge.found.push(Diagnostic::new("expression", why, span));
                return None;
            }
        }
    }
    Some(found)
}

fn were(count: u64) -> &'static str {
    if count == 1 { " was" } else { "s were" }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn made_text(made: &[&SeenCall], handler: &str) -> String {
    let calls: Vec<String> = made
        .iter()
        .filter(|call| *call.handler == *handler)
        .take(5)
        .map(|call| format!("by `{}` with {}", call.step, shown(&call.args)))
        .collect();
    if calls.is_empty() {
        format!("no call of `{handler}` was made")
    } else {
        format!("made were: {}", calls.join("; "))
    }
}

/// The failure of a call that no answer matches, with what to paste.
pub(super) fn unanswered(case: &Case, call: &crate::testing::execution::UnansweredCall) -> Diagnostic {
    let message = format!("no answer for the call of `{}` by `{}`: {}", call.handler, call.step, shown(&call.args));
    let with = call.args.get("url").map_or_else(
        || if call.args.is_null() { String::new() } else { format!("    with: {}\n", shown(&call.args)) },
        |url| format!("    with: {{ url: {url} }}\n"),
    );
    let answer = if call.handler == handler::HTTP { "{ status: 200, body: {} }" } else { "null" };
    let name = &call.handler;
    let paste = format!("answers:\n  - call: {name}\n{with}    answer: {answer}");
    let place = Span { start: case.name.span.start, end: case.name.span.end };
    let mut failure = Diagnostic::new("unanswered", message, place).hint(format!("add an answer\n{paste}"));
    for (span, why) in call.others.iter().take(5) {
        failure = failure.related(*span, why.clone());
    }
    failure
}
