//! Reads a `wait` for several things: `any` of them, or `all`.

use super::fields::Fields;
use super::names::check_name;
use super::wait::{is_expression, read_wait};
use super::{Action, Part, Spanned};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Entry, Node};
use std::collections::BTreeMap;

/// Most things that one `wait` waits for. Arbitrary: what a person chooses from.
pub const PARTS_MAX: usize = 100;

const EXAMPLE: &str = "wait: { any: { yes: { signal: approve }, no: { signal: reject }, late: 24h } }";

/// Reads the parts of a `wait` with `any` or `all`. `None` if it has a problem, which is reported.
pub(super) fn read_several(entry: &Entry, fields: &Fields<'_>, problems: &mut Diagnostics) -> Option<Action> {
    let (mode, node) = (entry.key.as_str(), &entry.value);
    let others = ["any", "all", "until", "signal", "title", "text", "schema"];
    for other in fields.among(&others).into_iter().filter(|other| other.key != mode) {
        let message = format!("a `wait` for several things has no `{}` beside `{mode}`", other.key);
        let hint = match other.key.as_str() {
            "any" | "all" => "make two steps of it",
            "title" | "text" | "schema" => "each signal has its own: yes: { signal: approve, title: \"Publish it?\" }",
            _ => "put it among the others, under a name of its own",
        };
        problems.push(Diagnostic::new("key-not-here", message, other.key_span).hint(hint));
    }
    let timeout = fields.get("timeout");
    if let Some(timeout) = timeout
        && !is_expression(timeout)
    {
        super::values::duration(timeout, "timeout", problems)?;
    }
    let Some(entries) = node.as_mapping() else {
        let message = format!("`{mode}` must be a mapping from names to waits, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint(EXAMPLE));
        return None;
    };
    if entries.is_empty() || entries.len() > PARTS_MAX {
        let message = format!("`{mode}` waits for {} things; it can be 1 to {PARTS_MAX}", entries.len());
        problems.push(Diagnostic::new("value", message, node.span).hint(EXAMPLE));
        return None;
    }
    let parts: Vec<_> = entries.iter().map(|entry| read_part(entry, problems)).collect();
    let parts: Vec<Part> = parts.into_iter().collect::<Option<_>>()?;
    if mode == "any" {
        check_names(&parts, problems)?;
        return Some(Action::Any { parts, timeout: timeout.cloned() });
    }
    Some(Action::All { parts, timeout: timeout.cloned() })
}

/// Reads one of several waits.
fn read_part(entry: &Entry, problems: &mut Diagnostics) -> Option<Part> {
    let named = check_name(&entry.key, entry.key_span, "a part of a `wait`", problems);
    for nested in entry.value.as_mapping().unwrap_or(&[]) {
        let (key, hint) = match nested.key.as_str() {
            "any" | "all" => {
                (&nested.key, "a `wait` is for any of several things, or for all of them: make two steps of it")
            }
            "timeout" => {
                (&nested.key, "the time for all of them stands beside them: wait: { any: { … }, timeout: 24h }")
            }
            _ => continue,
        };
        let message = format!("one of several waits has no `{key}`");
        problems.push(Diagnostic::new("key-not-here", message, nested.key_span).hint(hint));
        return None;
    }
    let action = read_wait(entry, problems)?;
    named.then(|| Part { name: Spanned { value: entry.key.clone(), span: entry.key_span }, action })
}

/// Reports two parts that wait for one signal: nothing would say which of them it is for.
fn check_names(parts: &[Part], problems: &mut Diagnostics) -> Option<()> {
    let mut seen: BTreeMap<&str, &Node> = BTreeMap::new();
    let mut is_good = true;
    for part in parts {
        let Action::Signal { name, .. } = &part.action else { continue };
        let Some(text) = name.as_text() else { continue };
        if let Some(before) = seen.insert(text, name) {
            let message = format!("two parts of `any` wait for the signal `{}`", super::shorten(text));
            problems.push(
                Diagnostic::new("duplicate-signal", message, name.span)
                    .related(before.span, "first one here")
                    .hint("a signal is taken once: give them different signals, or read its body"),
            );
            is_good = false;
        }
    }
    is_good.then_some(())
}
