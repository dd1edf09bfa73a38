//! Reads the `retry` of a step and of `defaults`.

use super::fields::{Fields, KnownKeys};
use super::values::{shown, whole};
use super::{RETRIES_MAX, Retry, durations, foreign_keys};
use crate::process::Micros;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::Node;

pub(super) const KEYS: KnownKeys =
    KnownKeys { what: "`retry`", known: &["max", "backoff"], later: &[], foreign: foreign_keys::RETRY };

/// Reads `retry:`.
pub(super) fn read_retry(node: &Node, problems: &mut Diagnostics) -> Option<Retry> {
    if node.as_scalar().is_some_and(|scalar| scalar.text.parse::<u32>().is_ok()) {
        let message = "`retry` must be a mapping, not a number";
        let hint = format!("retry: {{ max: {} }}  # retries, not attempts", shown(node).trim_matches('`'));
        problems.push(Diagnostic::new("type", message, node.span).hint(hint));
        return None;
    }
    let fields = Fields::read(node, &KEYS, problems)?;
    let Some(max) = fields.get("max") else {
        // A key that was reported as misspelled is already the reason.
        if fields.has_unknown_keys {
            return None;
        }
        let problem =
            Diagnostic::new("missing-key", "`retry` needs `max`, the number of retries, not attempts", node.span);
        problems.push(problem.hint("retry: { max: 3, backoff: 1s..30s }"));
        return None;
    };
    let max = whole(max, "max", 0, u64::from(RETRIES_MAX), problems)? as u32;
    let backoff = match fields.get("backoff") {
        Some(node) => read_backoff(node, problems)?,
        None => Retry::BACKOFF_DEFAULT,
    };
    Some(Retry { max, backoff_min: backoff.0, backoff_max: backoff.1 })
}

/// Reads `1s..30s`, or one duration for every retry.
fn read_backoff(node: &Node, problems: &mut Diagnostics) -> Option<(Micros, Micros)> {
    let text = node.as_scalar().map_or("", |scalar| scalar.text.as_str());
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let problem = match (durations::read(from), durations::read(to)) {
        (Ok(from), Ok(to)) if from <= to => return Some((from, to)),
        (Ok(_), Ok(_)) => {
            Diagnostic::new("value", "`backoff` must go from the shorter wait to the longer one", node.span)
                .hint(format!("backoff: {}..{}", to.trim(), from.trim()))
        }
        (Err(no), _) | (_, Err(no)) => {
            Diagnostic::new("duration", format!("`backoff`: {}", no.why), node.span).hint("backoff: 1s..30s")
        }
    };
    problems.push(problem);
    None
}
