//! Reads `repeat:`, by which a step runs again until something is so.

use super::fields::{Fields, KnownKeys};
use super::foreign_keys;
use super::values::{duration, shown, whole};
use crate::process::Micros;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::Node;

const EXAMPLE: &str = "repeat: { until: \"${ .last.body.done }\", max: 100, delay: 10s }";

pub(super) const KEYS: KnownKeys = KnownKeys {
    what: "`repeat`",
    known: &["until", "while", "max", "delay"],
    later: &[],
    foreign: foreign_keys::REPEAT,
};

/// Most turns of a `repeat`. Arbitrary.
pub const TURNS_MAX: u32 = 1_000_000;

/// `repeat:`.
#[derive(Clone, PartialEq, Debug)]
pub struct Repeat {
    /// `until`: the step ends after a turn where this is true.
    pub until: Option<Node>,
    /// `while`: the step ends after a turn where this is not true.
    pub while_true: Option<Node>,
    /// `max`: the most turns.
    pub max: u32,
    /// `delay`: the time between two turns.
    pub delay: Micros,
}

/// Reads `repeat:`. `None` if it has a problem, which is reported.
pub(super) fn read_repeat(node: &Node, problems: &mut Diagnostics) -> Option<Repeat> {
    if node.as_scalar().is_some_and(|scalar| scalar.text.parse::<u32>().is_ok()) {
        let message = "`repeat` must be a mapping, not a number";
        let hint = format!("repeat: {{ max: {} }}", shown(node).trim_matches('`'));
        problems.push(Diagnostic::new("type", message, node.span).hint(hint));
        return None;
    }
    let fields = Fields::read(node, &KEYS, problems)?;
    let (until, while_true) = (fields.get("until"), fields.get("while"));
    if let (Some(until), Some(other)) = (fields.entry("until"), fields.entry("while")) {
        problems.push(
            Diagnostic::new("repeat", "`repeat` has either `until` or `while`, not both", other.key_span)
                .related(until.key_span, "first one here")
                .hint("one expression can combine them with `and` and `or`"),
        );
        return None;
    }
    let delay = match fields.get("delay") {
        Some(node) => duration(node, "delay", problems)?,
        None => Micros(0),
    };
    let Some(max) = fields.get("max") else {
        // A key that was reported as misspelled is already the reason.
        if !fields.has_unknown_keys {
            let problem = Diagnostic::new("missing-key", "`repeat` needs `max`, the most turns", node.span);
            problems.push(problem.hint(EXAMPLE));
        }
        return None;
    };
    let max = whole(max, "max", 1, u64::from(TURNS_MAX), problems)? as u32;
    Some(Repeat { until: until.cloned(), while_true: while_true.cloned(), max, delay })
}
