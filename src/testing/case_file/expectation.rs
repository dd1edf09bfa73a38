//! `expect`: what must be so after a case.

use super::read::entries;
use super::templated::Templated;
use super::{ENTRIES_MAX, statuses};
use crate::process::Micros;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest};
use crate::workflow::expression::Jq;
use crate::workflow::interpreter::progress::NodeEnding;
use crate::workflow::model::{Fields, KnownKeys, Spanned, fixed_text, shorten, values};
use crate::workflow::syntax::{Node, Span};

/// What is expected of a case. What is absent is not compared; a case that expects nothing must
/// succeed.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// How the run ends.
    pub status: Option<Spanned<String>>,
    /// Its outputs, exactly.
    pub outputs: Option<Templated>,
    /// A part of its outputs.
    pub outputs_match: Option<Templated>,
    /// Expressions that must be true.
    pub that: Vec<Templated>,
    /// How steps end, by path.
    pub steps: Vec<(Spanned<String>, Spanned<String>)>,
    /// Steps in the order in which they run: each ends before the next one starts.
    pub order: Vec<Spanned<String>>,
    /// Calls that must have been made.
    pub calls: Vec<ExpectedCall>,
    /// Whether there must be no other calls than these.
    pub no_other_calls: Option<Span>,
    /// The problem that the run ends with.
    pub problem: Option<ExpectedProblem>,
    /// How long it takes in its own time.
    pub takes: Option<Takes>,
    /// Texts of lines of its log.
    pub logs: Vec<Spanned<String>>,
}

/// A call that is expected.
#[derive(Clone, Debug)]
pub struct ExpectedCall {
    /// The handler's name.
    pub call: Spanned<String>,
    /// The path of the step that calls, with or without items.
    pub step: Option<Spanned<String>>,
    /// The arguments that it has; it may have more.
    pub with: Option<Templated>,
    /// What must be true of it.
    pub condition: Option<Templated>,
    /// How many there are; `None`: at least one.
    pub times: Option<u64>,
    /// How often they are sent altogether, repeats after a crash included.
    pub sends: Option<u64>,
    /// The whole entry.
    pub span: Span,
}

/// The problem that is expected.
#[derive(Clone, Debug)]
pub struct ExpectedProblem {
    /// A part of the problem as `wfhost run --json` has it; `step`, `cause` and `attempt` may stand
    /// beside `kind`.
    pub members: Templated,
    /// The whole entry.
    pub span: Span,
}

/// How long a run takes.
#[derive(Clone, Copy, Debug)]
pub struct Takes {
    /// At least.
    pub min: Micros,
    /// At most.
    pub max: Micros,
    /// The whole entry.
    pub span: Span,
}

pub(super) const EXPECT: KnownKeys = KnownKeys {
    what: "`expect`",
    known: &[
        "status",
        "outputs",
        "outputs-match",
        "that",
        "steps",
        "order",
        "calls",
        "no-other-calls",
        "problem",
        "takes",
        "logs",
    ],
    later: &[],
    foreign: &[
        (&["output", "result", "returns"], "write `outputs`: outputs: { total: 3 }"),
        (&["error", "fails", "failure"], "write `problem`: problem: { kind: step-failed, step: charge }"),
        (&["duration", "time", "elapsed"], "write `takes`: takes: 2d"),
        (&["ending", "state"], "write `status`: status: succeeded"),
        (&["assert", "asserts", "checks"], "write `that`: that: [ \"${ .outputs.n > 3 }\" ]"),
    ],
};

pub(super) const CALL: KnownKeys = KnownKeys {
    what: "an expected call",
    known: &["call", "step", "with", "where", "times", "sends"],
    later: &[],
    foreign: &[(&["count", "calls"], "write `times`: times: 1"), (&["args"], "write `with`: with: { url: … }")],
};

pub(super) const TAKES: KnownKeys = KnownKeys {
    what: "`takes`",
    known: &["min", "max"],
    later: &[],
    foreign: &[(&["at-least", "from"], "write `min`"), (&["at-most", "to", "within"], "write `max`")],
};

/// The tolerance of `takes` if it is one duration: what the host's own timers may be late.
const TOLERANCE: Micros = Micros(1_000);

/// Reads it.
pub(super) fn read_expectation(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Option<Expectation> {
    let fields = Fields::read(node, &EXPECT, problems)?;
    let mut templated = |key: &str| fields.get(key).and_then(|node| Templated::read(node, jq, problems));
    let (outputs, outputs_match) = (templated("outputs"), templated("outputs-match"));
    let problem = fields.get("problem").and_then(|node| read_problem(node, jq, problems));
    Some(Expectation {
        status: fields
            .get("status")
            .and_then(|node| read_word(node, "status", &statuses().collect::<Vec<_>>(), problems)),
        outputs,
        outputs_match,
        that: fields.get("that").map(|node| read_that(node, jq, problems)).unwrap_or_default(),
        steps: fields.get("steps").map(|node| read_steps(node, problems)).unwrap_or_default(),
        order: fields.get("order").map(|node| read_texts(node, "order", problems)).unwrap_or_default(),
        calls: fields.get("calls").map(|node| read_calls(node, jq, problems)).unwrap_or_default(),
        no_other_calls: fields
            .get("no-other-calls")
            .and_then(|node| values::boolean(node, "no-other-calls", problems).filter(|no| *no).map(|_| node.span)),
        problem,
        takes: fields.get("takes").and_then(|node| read_takes(node, problems)),
        logs: fields.get("logs").map(|node| read_texts(node, "logs", problems)).unwrap_or_default(),
    })
}

fn read_problem(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Option<ExpectedProblem> {
    if node.as_mapping().is_none() {
        let message = format!("`problem` must be a mapping, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint("problem: { kind: step-failed, step: charge }"));
        return None;
    }
    Templated::read(node, jq, problems).map(|members| ExpectedProblem { members, span: node.span })
}

fn read_word(node: &Node, key: &str, words: &[&str], problems: &mut Diagnostics) -> Option<Spanned<String>> {
    let text = fixed_text(node, key, problems)?;
    if words.contains(&text) {
        return Some(Spanned { value: text.to_owned(), span: node.span });
    }
    let hint = match closest(text, words.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("it is one of {}", all_of(words.iter().copied())),
    };
    let message = format!("there is no status `{}`", shorten(text));
    problems.push(Diagnostic::new("value", message, node.span).hint(hint));
    None
}

fn read_that(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Vec<Templated> {
    if node.as_scalar().is_some() {
        return Templated::condition(node, "that", jq, problems).into_iter().collect();
    }
    let items = entries(node, "that", ENTRIES_MAX, problems).unwrap_or_default();
    items.iter().filter_map(|item| Templated::condition(item, "that", jq, problems)).collect()
}

fn read_steps(node: &Node, problems: &mut Diagnostics) -> Vec<(Spanned<String>, Spanned<String>)> {
    let Some(entries) = node.as_mapping() else {
        let message = format!("`steps` must be a mapping of paths and statuses, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint("steps: { review: succeeded, late: skipped }"));
        return Vec::new();
    };
    let words = NodeEnding::ALL.map(NodeEnding::name);
    let read = |entry: &crate::workflow::syntax::Entry| {
        let status = read_word(&entry.value, "steps", &words, problems)?;
        Some((Spanned { value: entry.key.clone(), span: entry.key_span }, status))
    };
    entries.iter().filter_map(read).collect()
}

fn read_texts(node: &Node, key: &str, problems: &mut Diagnostics) -> Vec<Spanned<String>> {
    let items = entries(node, key, ENTRIES_MAX, problems).unwrap_or_default();
    let read = |item: &Node| {
        let text = fixed_text(item, key, problems)?;
        Some(Spanned { value: text.to_owned(), span: item.span })
    };
    items.iter().filter_map(read).collect()
}

fn read_calls(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Vec<ExpectedCall> {
    let mut calls = Vec::new();
    for item in entries(node, "calls", ENTRIES_MAX, problems).unwrap_or_default() {
        let Some(fields) = Fields::read(item, &CALL, problems) else { continue };
        let mut spanned = |key: &'static str| {
            let node = fields.get(key)?;
            fixed_text(node, key, problems).map(|text| Spanned { value: text.to_owned(), span: node.span })
        };
        let (call, step) = (spanned("call"), spanned("step"));
        if call.is_none() && fields.entry("call").is_none() && !fields.has_unknown_keys {
            let span = Span { start: item.span.start, end: item.span.start };
            problems.push(Diagnostic::new("missing-key", "the expected call has no `call`", span).hint("call: http"));
        }
        let with = fields.get("with").and_then(|node| Templated::read(node, jq, problems));
        let condition = fields.get("where").and_then(|node| Templated::condition(node, "where", jq, problems));
        let mut number = |key| fields.get(key).and_then(|node| values::whole(node, key, 0, 1_000_000, problems));
        let (times, sends) = (number("times"), number("sends"));
        if let Some(call) = call {
            calls.push(ExpectedCall { call, step, with, condition, times, sends, span: item.span });
        }
    }
    calls
}

fn read_takes(node: &Node, problems: &mut Diagnostics) -> Option<Takes> {
    if node.as_mapping().is_none() {
        let exact = values::duration(node, "takes", problems)?;
        return Some(Takes { min: exact, max: exact.saturating_add(TOLERANCE), span: node.span });
    }
    let fields = Fields::read(node, &TAKES, problems)?;
    let mut bound = |key, default| fields.get(key).map_or(Some(default), |node| values::duration(node, key, problems));
    Some(Takes { min: bound("min", Micros(0))?, max: bound("max", Micros(u64::MAX))?, span: node.span })
}
