//! `schedule:`: when the workflow is started.

use super::fields::{Fields, KnownKeys, fixed_text, shorten};
use super::foreign_keys;
use super::values::duration;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of};
use crate::workflow::schedule::{CatchUp, Dst, FoldRule, GapRule, Overlap, ScheduleFault, ScheduleSpec};
use crate::workflow::syntax::{Node, Span};
use serde_json::Value;

pub(super) const CATCH_UP: &[(&str, CatchUp)] =
    &[("none", CatchUp::None), ("last", CatchUp::Last), ("all", CatchUp::All)];
pub(super) const OVERLAP: &[(&str, Overlap)] = &[
    ("skip", Overlap::Skip),
    ("queue", Overlap::Queue),
    ("queue-all", Overlap::QueueAll),
    ("cancel-previous", Overlap::CancelPrevious),
    ("allow", Overlap::Allow),
];
pub(super) const GAP: &[(&str, GapRule)] = &[("shift", GapRule::Shift), ("skip", GapRule::Skip)];
pub(super) const FOLD: &[(&str, FoldRule)] =
    &[("first", FoldRule::First), ("last", FoldRule::Last), ("both", FoldRule::Both)];

pub(super) const DST: KnownKeys =
    KnownKeys { what: "`dst`", known: &["gap", "fold"], later: &[], foreign: foreign_keys::NOTHING };

pub(super) const KEYS: KnownKeys = KnownKeys {
    what: "a schedule",
    known: &["cron", "every", "anchor", "zone", "dst", "start", "end", "jitter", "catch-up", "overlap", "inputs"],
    later: &[],
    foreign: foreign_keys::SCHEDULE,
};

/// `schedule:`, with the spans that problems of it name.
#[derive(Clone, PartialEq, Debug)]
pub struct Scheduled {
    /// What it says.
    pub spec: ScheduleSpec,
    /// The whole of it.
    pub span: Span,
    /// `inputs:` in it.
    pub inputs: Option<Span>,
}

/// Reads `schedule:`: a mapping, or only the cron expression.
pub(super) fn read_schedule(node: &Node, problems: &mut Diagnostics) -> Option<Scheduled> {
    if node.as_text().is_some() {
        let cron = fixed_text(node, "schedule", problems)?.to_owned();
        let mut spec = ScheduleSpec { cron: Some(cron), ..ScheduleSpec::default() };
        for fault in spec.check().err().into_iter().flatten() {
            report(fault, |_| Some(node), node.span, problems);
        }
        return Some(Scheduled { spec, span: node.span, inputs: None });
    }
    let fields = Fields::read(node, &KEYS, problems)?;
    let mut text = |key: &'static str| {
        let value = fields.get(key)?;
        // A number is no string, and would be no duration in quotes either.
        let is_number = value.as_text().is_none() && matches!(value.to_json(), Ok(Value::Number(_)));
        if is_number && matches!(key, "every" | "jitter") && duration(value, key, problems).is_none() {
            return None;
        }
        fixed_text(value, key, problems).map(str::to_owned)
    };
    let mut spec = ScheduleSpec {
        cron: text("cron"),
        every: text("every"),
        anchor: text("anchor"),
        zone: text("zone"),
        start: text("start"),
        end: text("end"),
        jitter: text("jitter"),
        ..ScheduleSpec::default()
    };
    spec.catch_up = word(fields.get("catch-up"), "catch-up", CATCH_UP, problems);
    spec.overlap = word(fields.get("overlap"), "overlap", OVERLAP, problems);
    if let Some(dst) = fields.get("dst") {
        spec.dst = read_dst(dst, problems);
    }
    if let Some(inputs) = fields.get("inputs") {
        match inputs.to_json() {
            Ok(Value::Object(inputs)) => spec.inputs = inputs,
            Ok(_) => {
                let message = format!("`inputs` of a schedule must be a mapping, not {}", inputs.kind());
                let problem = Diagnostic::new("type", message, inputs.span);
                problems.push(problem.hint("inputs: { day: \"${ .local[:10] }\" }"));
            }
            Err((span, why)) => problems.push(Diagnostic::new("type", why, span)),
        }
    }
    // A time that could not be read was reported, and is not missing too.
    let has_time = spec.cron.is_some() || spec.every.is_some();
    if has_time || (fields.get("cron").is_none() && fields.get("every").is_none()) {
        for fault in spec.check().err().into_iter().flatten() {
            report(fault, |key| fields.get(key), node.span, problems);
        }
    }
    Some(Scheduled { spec, span: node.span, inputs: fields.get("inputs").map(|node| node.span) })
}

fn read_dst(node: &Node, problems: &mut Diagnostics) -> Dst {
    let Some(fields) = Fields::read(node, &DST, problems) else { return Dst::default() };
    Dst { gap: word(fields.get("gap"), "gap", GAP, problems), fold: word(fields.get("fold"), "fold", FOLD, problems) }
}

/// Reads one of some words.
fn word<T: Copy + Default>(node: Option<&Node>, key: &str, words: &[(&str, T)], problems: &mut Diagnostics) -> T {
    let Some(node) = node else { return T::default() };
    let Some(text) = fixed_text(node, key, problems) else { return T::default() };
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return *value;
    }
    let message = format!("there is no `{key}: {}`", shorten(text));
    let hint = format!("it is one of {}", all_of(words.iter().map(|(word, _)| *word)));
    problems.push(Diagnostic::new("value", message, node.span).hint(hint));
    T::default()
}

/// Reports a fault where it is.
fn report<'a>(
    fault: ScheduleFault,
    of: impl Fn(&'static str) -> Option<&'a Node>,
    whole: Span,
    problems: &mut Diagnostics,
) {
    let span = of(fault.key).map_or(whole, |node| part(node, fault.part.as_deref()));
    problems.push(Diagnostic::new("schedule", fault.message, span).hint_maybe(fault.hint));
}

/// The span of a part of a text, if it is written once and without escapes.
fn part(node: &Node, part: Option<&str>) -> Span {
    let (Some(part), Some(text)) = (part, node.as_text()) else { return node.span };
    let (start, end) = (node.span.start as usize, node.span.end as usize);
    let quotes = (end - start).saturating_sub(text.len());
    let is_plain = quotes == 0 || quotes == 2;
    let mut words = text.match_indices(part).filter(|(at, _)| {
        let before = text[..*at].chars().next_back().is_none_or(char::is_whitespace);
        before && text[at + part.len()..].chars().next().is_none_or(char::is_whitespace)
    });
    match (words.next(), words.next()) {
        (Some((at, _)), None) if is_plain => {
            let from = start + quotes / 2 + at;
            Span::new(from..from + part.len())
        }
        _ => node.span,
    }
}
