//! Reads a case file.

use super::answers::read_answers;
use super::expectation::{Expectation, read_expectation};
use super::templated::json_of;
use super::{CASES_MAX, CLOCK_DEFAULT, Case, CaseFile, ENTRIES_MAX, SentSignal};
use crate::process::{Micros, Timestamp};
use crate::testing::faults::{self, Faults};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::expression::Jq;
use crate::workflow::model::{Fields, KnownKeys, Spanned, fixed_text, parse_time, shorten, values};
use crate::workflow::syntax::{Node, Source, Span, parse};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const FILE: KnownKeys = KnownKeys {
    what: "a file of cases",
    known: &["workflow", "answers", "cases"],
    later: &[],
    foreign: &[
        (&["tests", "scenarios", "test-cases", "suite", "specs"], "write `cases`: cases: [ { name: …, expect: … } ]"),
        (&["steps"], "this is the file of a workflow's tests; its steps are in the workflow"),
        (&["mocks", "stubs", "handlers"], "write `answers`: answers: [ { call: http, answer: { status: 200 } } ]"),
    ],
};

pub(super) const CASE: KnownKeys = KnownKeys {
    what: "a case",
    known: &["name", "inputs", "clock", "answers", "signals", "cancel", "faults", "expect"],
    later: &[],
    foreign: &[
        (
            &["mocks", "stubs", "handlers", "responses"],
            "write `answers`: answers: [ { call: http, answer: { status: 200 } } ]",
        ),
        (&["input", "with", "given", "args"], "write `inputs`: inputs: { order: 17 }"),
        (&["events", "messages"], "write `signals`: signals: [ { at: 2d, name: approve } ]"),
        (&["now", "time", "start", "date"], "write `clock`: clock: 2027-01-31T09:00:00Z"),
        (&["assert", "asserts", "then", "expected"], "write `expect`: expect: { status: succeeded }"),
    ],
};

pub(super) const SIGNAL: KnownKeys = KnownKeys {
    what: "a signal",
    known: &["at", "name", "body"],
    later: &[],
    foreign: &[(&["payload", "data", "value"], "write `body`"), (&["after", "when", "time"], "write `at`: at: 2d")],
};

pub(super) const CANCEL: KnownKeys =
    KnownKeys { what: "`cancel`", known: &["at"], later: &[], foreign: &[(&["after"], "write `at`: at: 2d")] };

impl CaseFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails if it has problems: all of them are reported.
    pub fn read(source: &Source, jq: &Jq) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::new(source.clone());
        let mut file = Self { source: source.clone(), workflow: None, cases: Vec::new() };
        if let Some(root) = parse(source, &mut problems) {
            file.read_root(&root, jq, &mut problems);
        }
        problems.into_result().map(|()| file)
    }

    fn read_root(&mut self, root: &Node, jq: &Jq, problems: &mut Diagnostics) {
        let example = "cases: [ { name: it works, expect: { status: succeeded } } ]";
        if root.is_null() {
            return problems.push(Diagnostic::new("empty", "the file has no cases", root.span).hint(example));
        }
        let Some(fields) = Fields::read(root, &FILE, problems) else { return };
        self.workflow = fields.get("workflow").and_then(|node| {
            let text = fixed_text(node, "workflow", problems)?;
            Some(Spanned { value: text.to_owned(), span: node.span })
        });
        let shared = fields.get("answers").map(|node| read_answers(node, jq, problems)).unwrap_or_default();
        let Some(cases) = fields.get("cases") else {
            let span = fields.entry("cases").map_or(Span::new(0..0), |entry| entry.key_span);
            return problems.push(Diagnostic::new("missing-key", "the file has no `cases`", span).hint(example));
        };
        let Some(items) = entries(cases, "cases", CASES_MAX, problems) else { return };
        if items.is_empty() {
            problems.push(Diagnostic::new("empty", "the file has no cases", cases.span).hint(example));
        }
        let mut names: BTreeMap<String, Span> = BTreeMap::new();
        for item in items {
            let Some(mut case) = read_case(item, jq, problems) else { continue };
            if let Some(first) = names.insert(case.name.value.clone(), case.name.span) {
                let message = format!("two cases have the name `{}`", shorten(&case.name.value));
                let problem = Diagnostic::new("duplicate", message, case.name.span);
                problems.push(problem.related(first, "the other one"));
            }
            case.answers.extend(shared.iter().cloned());
            self.cases.push(case);
        }
    }
}

/// The items of a list that has at most `max`.
pub(super) fn entries<'n>(node: &'n Node, what: &str, max: usize, problems: &mut Diagnostics) -> Option<&'n [Node]> {
    let Some(items) = node.as_sequence() else {
        let message = format!("`{what}` must be a list, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span));
        return None;
    };
    if items.len() > max {
        let message = format!("`{what}` has {} items, and may have {max}", items.len());
        problems.push(Diagnostic::new("too-many", message, node.span));
        return None;
    }
    Some(items)
}

fn read_case(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Option<Case> {
    let fields = Fields::read(node, &CASE, problems)?;
    let name = match fields.get("name") {
        Some(name) => {
            fixed_text(name, "name", problems).map(|text| Spanned { value: text.to_owned(), span: name.span })
        }
        None => {
            let span = Span { start: node.span.start, end: node.span.start };
            problems
                .push(Diagnostic::new("missing-key", "the case has no `name`", span).hint("name: approved in time"));
            None
        }
    };
    if let Some(bad) = name.as_ref().filter(|name| name.value.trim().is_empty() || name.value.contains(['\n', '\r'])) {
        problems.push(Diagnostic::new("value", "a case's name is one line of text", bad.span));
    }
    let inputs = fields.get("inputs").filter(|node| {
        if node.as_mapping().is_none() {
            let message = format!("`inputs` must be a mapping, not {}", node.kind());
            problems.push(Diagnostic::new("type", message, node.span).hint("inputs: { order: 17 }"));
        }
        node.as_mapping().is_some()
    });
    let clock = fields.get("clock").and_then(|node| read_clock(node, problems)).unwrap_or(CLOCK_DEFAULT);
    let answers = fields.get("answers").map(|node| read_answers(node, jq, problems)).unwrap_or_default();
    let signals = fields.get("signals").map(|node| read_signals(node, problems)).unwrap_or_default();
    let cancel = fields.get("cancel").and_then(|node| read_cancel(node, problems));
    let faults = fields.get("faults").and_then(|node| Some((fixed_text(node, "faults", problems)?, node.span)));
    let faults_span = faults.map(|(_, span)| span);
    let is_drawn_for = faults.is_none_or(|(text, _)| text != "none");
    let faults = faults.filter(|_| is_drawn_for).map_or(Ok(Faults::default()), |(text, span)| {
        text.parse().map_err(|why: String| Diagnostic::new("faults", why, span).hint(faults::FORMS))
    });
    let faults = faults.map_err(|problem| problems.push(problem)).ok();
    let expect = match fields.get("expect") {
        Some(node) => read_expectation(node, jq, problems),
        None => Some(Expectation::default()),
    };
    Some(Case {
        name: name?,
        inputs: inputs.cloned(),
        clock,
        answers,
        signals,
        cancel,
        faults: faults?,
        faults_span,
        is_drawn_for,
        expect: expect?,
        span: node.span,
    })
}

fn read_clock(node: &Node, problems: &mut Diagnostics) -> Option<Timestamp> {
    let text = fixed_text(node, "clock", problems)?;
    parse_time(text)
        .map_err(|why| {
            let problem = Diagnostic::new("time", format!("`clock`: {why}"), node.span);
            problems.push(problem.hint("write the date, the time and the zone's offset: 2027-01-31T09:00:00+01:00"));
        })
        .ok()
}

fn read_cancel(node: &Node, problems: &mut Diagnostics) -> Option<Spanned<Micros>> {
    let at = match node.as_mapping() {
        Some(_) => Fields::read(node, &CANCEL, problems)?.get("at").unwrap_or(node),
        None => node,
    };
    values::duration(at, "cancel", problems).map(|value| Spanned { value, span: node.span })
}

fn read_signals(node: &Node, problems: &mut Diagnostics) -> Vec<SentSignal> {
    let mut signals = Vec::new();
    for item in entries(node, "signals", ENTRIES_MAX, problems).unwrap_or_default() {
        let Some(fields) = Fields::read(item, &SIGNAL, problems) else { continue };
        let at = fields.get("at").map_or(Some(Micros(0)), |node| values::duration(node, "at", problems));
        let Some(name) = fields.get("name") else {
            problems.push(Diagnostic::new("missing-key", "the signal has no `name`", item.span).hint("name: approve"));
            continue;
        };
        let text = fixed_text(name, "name", problems);
        let body = match fields.get("body").map_or(Ok(Value::Null), json_of) {
            Ok(body) => body,
            Err((span, why)) => {
                problems.push(Diagnostic::new("type", why, span));
                continue;
            }
        };
        if let (Some(at), Some(text)) = (at, text) {
            signals.push(SentSignal { at, name: Spanned { value: text.to_owned(), span: name.span }, body });
        }
    }
    signals
}
