//! Reads the `when` of a step.

use super::When;
use super::fields::{shorten, text};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, closest, one_of, plain};
use crate::workflow::syntax::{Content, Node};

/// What other tools call the values of `when`.
const WHEN_ELSEWHERE: &[(&[&str], &str)] = &[
    (&["success", "successful", "on-success", "all-success", "ok", "all"], "succeeded"),
    (&["failure", "error", "on-failure", "on-error", "one-failed"], "failed"),
    (&["not-reached", "upstream-failed", "blocked"], "unreached"),
    (&["always", "finally", "completed", "finished", "ended", "all-done"], "done"),
    (&["one", "one-success", "some"], "any"),
];

pub(super) fn read_when(node: &Node, problems: &mut Diagnostics) -> Option<When> {
    if let Content::Sequence(items) = &node.content {
        let before = problems.count();
        let all: Vec<When> = items.iter().filter_map(|item| read_one_when(item, problems)).collect();
        return match all[..] {
            [one] if items.len() == 1 => Some(one),
            [When::Failed, When::Unreached] | [When::Unreached, When::Failed] if items.len() == 2 => {
                Some(When::FailedOrUnreached)
            }
            _ if problems.count() > before => None,
            _ => {
                let message = "`when` must be one outcome, or `[failed, unreached]`";
                problems.push(
                    Diagnostic::new("value", message, node.span).hint("to start after any outcome, write when: done"),
                );
                None
            }
        };
    }
    read_one_when(node, problems)
}

/// The endings that `when` names.
pub(super) const NAMES: &[&str] = &["succeeded", "failed", "unreached", "done", "any"];

fn read_one_when(node: &Node, problems: &mut Diagnostics) -> Option<When> {
    match text(node, "when", problems)? {
        "succeeded" => Some(When::Succeeded),
        "failed" => Some(When::Failed),
        "unreached" => Some(When::Unreached),
        "done" => Some(When::Done),
        "any" => Some(When::Any),
        other => {
            let message = format!("`when` cannot be `{}`", shorten(other));
            let word = plain(other);
            let meant = WHEN_ELSEWHERE.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, when)| *when);
            let hint = match meant.or_else(|| closest(other, NAMES.iter().copied())) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if other.contains("${") => "a condition goes under `if`".to_owned(),
                None => format!("write {}", one_of(NAMES.iter().copied())),
            };
            problems.push(Diagnostic::new("value", message, node.span).hint(hint));
            None
        }
    }
}
