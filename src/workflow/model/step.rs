//! Reads an item of `steps:`.

use super::action::read_action;
use super::after::read_compensation;
use super::block::BlockPlace;
use super::cache::{check_cache, read_cache};
use super::fields::{Fields, KnownKeys, fixed_text, shorten, text, texts};
use super::foreign_keys;
use super::lines;
use super::names::check_name;
use super::repeat::read_repeat;
use super::retry::read_retry;
use super::values::{boolean, duration, shown, whole};
use super::wait::timeout_of_signal;
use super::when::read_when;
use super::{Action, Allowed, LimitsPatch, PARALLEL_MAX, Spanned, Step};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, one_of};
use crate::workflow::syntax::{Entry, Node, Span};
use std::collections::BTreeSet;

pub(super) const KEYS: KnownKeys = KnownKeys {
    what: "a step",
    known: &[
        "id",
        "name",
        "uses",
        "script",
        "call",
        "wait",
        "set",
        "steps",
        "switch",
        "workflow",
        "outputs",
        "entry",
        "needs",
        "if",
        "when",
        "for-each",
        "max-parallel",
        "with",
        "retry",
        "repeat",
        "cache",
        "timeout",
        "continue-on-error",
        "limits",
        "allow",
        "secrets",
        "compensate",
    ],
    later: &[],
    foreign: foreign_keys::STEP,
};
/// The entry point of a guest if the step names none.
pub(crate) const ENTRY_DEFAULT: &str = "run";

/// Keys that are valid with certain actions only.
pub(super) const ONLY_WITH: &[(&str, &[&str])] = &[
    ("entry", &["uses"]),
    ("limits", &["uses", "script"]),
    ("with", &["uses", "script", "call", "workflow"]),
    ("retry", &["uses", "script", "call", "steps", "switch", "workflow"]),
    ("timeout", &["uses", "script", "call", "steps", "switch", "workflow"]),
    ("allow", &["uses", "script", "call"]),
    ("cache", &["uses", "script", "call"]),
    ("secrets", &["uses", "script", "call"]),
    ("outputs", &["steps"]),
    ("compensate", &["uses", "script", "call", "steps", "switch", "workflow"]),
];

/// The keys of what undoes a step.
pub(super) const COMPENSATION: KnownKeys = KnownKeys {
    what: "`compensate`",
    known: &[
        "name",
        "if",
        "uses",
        "call",
        "workflow",
        "entry",
        "for-each",
        "max-parallel",
        "repeat",
        "with",
        "script",
        "limits",
        "timeout",
        "retry",
        "allow",
        "secrets",
        "switch",
        "steps",
        "outputs",
    ],
    later: &[],
    foreign: foreign_keys::COMPENSATION,
};

/// As [`ONLY_WITH`], for what undoes a step.
pub(super) const COMPENSATION_ONLY_WITH: &[(&str, &[&str])] =
    &[("entry", &["uses"]), ("limits", &["uses", "script"]), ("outputs", &["steps"])];

pub(super) fn read_step(index: usize, node: &Node, within: BlockPlace<'_>, problems: &mut Diagnostics) -> Option<Step> {
    let is_lines = node.get("for-each").is_some_and(|list| list.as_mapping().is_some());
    let rewritten = lines::rewritten(node, problems);
    if is_lines && rewritten.is_none() {
        // What is wrong with it is reported.
        return None;
    }
    let node = rewritten.as_ref().unwrap_or(node);
    let pointer = format!("{}/{index}", within.pointer);
    let mut step = read_step_of(&KEYS, node, None, BlockPlace { pointer: &pointer, ..within }, problems)?;
    if is_lines {
        lines::widen(&mut step);
    }
    Some(step)
}

/// Reads a step with certain keys at a place, and with an id that is not in the file if there is
/// one.
pub(super) fn read_step_of(
    keys: &KnownKeys,
    node: &Node,
    named: Option<(&str, Span)>,
    within: BlockPlace<'_>,
    problems: &mut Diagnostics,
) -> Option<Step> {
    let fields = Fields::read(node, keys, problems)?;
    let named = named.map(|(id, span)| Spanned { value: id.to_owned(), span });
    let id = named.or_else(|| read_id(&fields, problems));
    let path = format!("{}{}", within.path, id.as_ref().map_or("", |id| id.value.as_str()));
    let pointer = within.pointer.to_owned();
    if let Some(node) = fields.get("name") {
        fixed_text(node, "name", problems);
    }
    let place = BlockPlace { pointer: &pointer, path: &format!("{path}."), depth: within.depth + 1 };
    let action = read_action(&fields, id.as_ref(), place, problems);
    // The other keys are checked even if the action is wrong.
    if let Some(action) = &action {
        check_belonging(&fields, action, problems);
    }
    let for_each = fields.get("for-each").cloned();
    if let Some(node) = &for_each {
        check_list(node, problems);
    }
    let max_parallel = fields.get("max-parallel");
    let max_parallel = max_parallel.and_then(|node| read_max_parallel(node, for_each.is_some(), problems));
    let needs = fields.get("needs").map(|node| read_needs(node, problems));
    let when = fields.get("when").and_then(|node| read_when(node, problems)).unwrap_or_default();
    let retry = fields.get("retry").and_then(|node| read_retry(node, problems));
    let repeat = fields.get("repeat").and_then(|node| read_repeat(node, problems));
    let cache = fields.get("cache").and_then(|node| read_cache(node, problems));
    let timeout = fields.get("timeout").and_then(|node| duration(node, "timeout", problems));
    let continue_on_error = fields.get("continue-on-error");
    let continue_on_error = continue_on_error.and_then(|node| boolean(node, "continue-on-error", problems));
    let limits = fields.get("limits").map(|node| LimitsPatch::read(node, problems)).unwrap_or_default();
    let undo = fields.entry("compensate").filter(|entry| !entry.value.is_null());
    let compensate = undo.and_then(|entry| read_compensation(entry, place, problems));
    if let Some(cache) = &cache {
        check_cache(cache, action.as_ref(), undo.is_some(), problems);
    }
    let allow = fields.get("allow").map_or(Some(Vec::new()), |node| read_allow(node, problems));
    let secrets = fields.get("secrets").map(|node| super::secrets::read_used(node, problems)).unwrap_or_default();
    Some(Step {
        path,
        pointer,
        span: node.span,
        id: id?,
        action: action?,
        needs,
        condition: fields.get("if").cloned(),
        when,
        for_each,
        max_parallel,
        with: fields.get("with").cloned(),
        retry,
        repeat,
        cache: cache.map(|cache| cache.value),
        timeout,
        continue_on_error: continue_on_error.unwrap_or(false),
        limits,
        allow,
        compensate,
        secrets,
    })
}

fn read_max_parallel(node: &Node, has_list: bool, problems: &mut Diagnostics) -> Option<u32> {
    if !has_list {
        let message = "`max-parallel` has no effect without `for-each`";
        problems.push(Diagnostic::new("key-not-here", message, node.span));
    }
    whole(node, "max-parallel", 1, u64::from(PARALLEL_MAX), problems).map(|number| number as u32)
}

fn read_id(fields: &Fields<'_>, problems: &mut Diagnostics) -> Option<Spanned<String>> {
    let Some(node) = fields.get("id") else {
        let problem = Diagnostic::new("missing-key", "the step has no `id`", fields.span);
        problems.push(problem.hint("other steps refer to it by its id: id: download"));
        return None;
    };
    let id = text(node, "id", problems)?;
    check_name(id, node.span, "a step", problems);
    Some(Spanned { value: id.to_owned(), span: node.span })
}

/// Reports keys that are valid with another action only.
fn check_belonging(fields: &Fields<'_>, action: &Action, problems: &mut Diagnostics) {
    for (key, actions) in ONLY_WITH {
        if let Some(entry) = fields.entry(key)
            && !actions.contains(&action.key())
        {
            let message = format!("`{key}` has no effect with `{}`", action.key());
            let hint = timeout_of_signal(entry, action)
                .or_else(|| within_file(key, action))
                .unwrap_or_else(|| format!("it is valid with {}", one_of(actions.iter().copied())));
            problems.push(Diagnostic::new("key-not-here", message, entry.key_span).hint(hint));
        }
    }
}

/// The hint for a key that is written in the file of the workflow that a step runs.
fn within_file(key: &str, action: &Action) -> Option<String> {
    let is_within = matches!(action, Action::Workflow { .. }) && ["allow", "limits", "outputs"].contains(&key);
    is_within.then(|| match key {
        "outputs" => "write `outputs` in the file that it runs: they are the output of this step".to_owned(),
        _ => format!("write `{key}` in the file that it runs: each of its steps has its own"),
    })
}

fn check_list(node: &Node, problems: &mut Diagnostics) {
    // A string without an expression is reported by the plan.
    if node.as_text().is_none() && node.as_sequence().is_none() {
        let message = format!("`for-each` must be a list, or an expression that gives one, not {}", shown(node));
        problems.push(Diagnostic::new("type", message, node.span).hint("for-each: ${ .inputs.urls }"));
    }
}

fn read_needs(node: &Node, problems: &mut Diagnostics) -> Vec<Spanned<String>> {
    let mut needs: Vec<Spanned<String>> = Vec::new();
    let mut seen = BTreeSet::new();
    for (id, span) in texts(node, "needs", problems) {
        if seen.insert(id) {
            needs.push(Spanned { value: id.to_owned(), span });
        } else {
            problems.push(Diagnostic::new("duplicate-need", format!("`{}` is needed twice", shorten(id)), span));
        }
    }
    needs
}

fn read_allow(node: &Node, problems: &mut Diagnostics) -> Option<Vec<Allowed>> {
    let Some(entries) = node.as_mapping() else {
        let message = format!("`allow` must be a mapping from capabilities to lists, not {}", node.kind());
        problems
            .push(Diagnostic::new("type", message, node.span).hint("allow: { http: [ \"GET https://example.com\" ] }"));
        return None;
    };
    let read = |entry: &Entry| {
        let before = problems.count();
        let patterns = if entry.value.is_null() { Vec::new() } else { texts(&entry.value, &entry.key, problems) };
        for (pattern, span) in &patterns {
            if pattern.contains("${") {
                let message = "a grant cannot hold an expression: it must be known before anything runs";
                let hint = "write `*` for the part that is not known yet: GET https://example.com/items/*";
                problems.push(Diagnostic::new("grant", message, *span).hint(hint));
            }
        }
        let spanned = |(pattern, span): (&str, Span)| Spanned { value: pattern.to_owned(), span };
        Allowed {
            capability: Spanned { value: entry.key.clone(), span: entry.key_span },
            is_whole: problems.count() == before,
            patterns: patterns.into_iter().map(spanned).collect(),
        }
    };
    Some(entries.iter().map(read).collect())
}
