//! Reads an item of `steps:`.

use super::block::{BlockPlace, read_block, read_switch};
use super::durations::{self, TIME_FORM, parse_time};
use super::fields::{Fields, KnownKeys, fixed_text, shorten, text, texts};
use super::foreign_keys;
use super::names::{check_name, check_source};
use super::repeat::read_repeat;
use super::script;
use super::values::{boolean, duration, shown, whole};
use super::{Action, Allowed, LimitsPatch, PARALLEL_MAX, Prompt, RETRIES_MAX, Retry, Spanned, Step, When};
use crate::process::Micros;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, closest, one_of, plain};
use crate::workflow::syntax::{Content, Entry, Node, Span};
use std::collections::BTreeSet;

const KEYS: KnownKeys = KnownKeys {
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
        "timeout",
        "continue-on-error",
        "limits",
        "allow",
    ],
    later: &[
        ("workflow", "until then, write its steps here, or let a guest spawn others: docs/guests.md"),
        ("compensate", "until then, write a step that undoes it: needs: [ this-step ], when: failed"),
        ("cache", "until then, `retry` and `fork` reuse the results of a run"),
        (
            "secrets",
            "until then, pass a secret as an input, `--input token=@file`; the run's records contain it, so keep the data folder private",
        ),
    ],
    foreign: foreign_keys::STEP,
};
/// The entry point of a guest if the step names none.
pub(crate) const ENTRY_DEFAULT: &str = "run";

/// The longest name of a signal. Arbitrary.
const SIGNAL_BYTES_MAX: usize = 1_024;

/// The longest schema of a signal's body. Arbitrary: it stands in the records of each wait.
const SCHEMA_BYTES_MAX: usize = 16 * 1024;

/// Longest name of a signal that a hint quotes. Arbitrary.
const SIGNAL_QUOTED_MAX: usize = 60;

const ACTIONS: &[&str] = &["uses", "script", "call", "wait", "set", "steps", "switch"];
const ACTIONS_LATER: &[&str] = &["workflow"];

/// Keys that are valid with certain actions only.
const ONLY_WITH: &[(&str, &[&str])] = &[
    ("entry", &["uses"]),
    ("limits", &["uses", "script"]),
    ("with", &["uses", "script", "call"]),
    ("retry", &["uses", "script", "call", "steps", "switch"]),
    ("timeout", &["uses", "script", "call", "steps", "switch"]),
    ("allow", &["uses", "script", "call"]),
    ("outputs", &["steps"]),
];

pub(super) fn read_step(index: usize, node: &Node, within: BlockPlace<'_>, problems: &mut Diagnostics) -> Option<Step> {
    let fields = Fields::read(node, &KEYS, problems)?;
    let id = read_id(&fields, problems);
    let path = format!("{}{}", within.path, id.as_ref().map_or("", |id| id.value.as_str()));
    let pointer = format!("{}/{index}", within.pointer);
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
    let max_parallel = fields.get("max-parallel").and_then(|node| {
        if for_each.is_none() {
            let message = "`max-parallel` has no effect without `for-each`";
            problems.push(Diagnostic::new("key-not-here", message, node.span));
        }
        whole(node, "max-parallel", 1, u64::from(PARALLEL_MAX), problems).map(|number| number as u32)
    });
    let needs = fields.get("needs").map(|node| read_needs(node, problems));
    let when = fields.get("when").and_then(|node| read_when(node, problems)).unwrap_or_default();
    let retry = fields.get("retry").and_then(|node| read_retry(node, problems));
    let repeat = fields.get("repeat").and_then(|node| read_repeat(node, problems));
    let timeout = fields.get("timeout").and_then(|node| duration(node, "timeout", problems));
    let continue_on_error = fields.get("continue-on-error");
    let continue_on_error = continue_on_error.and_then(|node| boolean(node, "continue-on-error", problems));
    let limits = fields.get("limits").map(|node| LimitsPatch::read(node, problems)).unwrap_or_default();
    let allow = fields.get("allow").map_or(Some(Vec::new()), |node| read_allow(node, problems));
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
        timeout,
        continue_on_error: continue_on_error.unwrap_or(false),
        limits,
        allow,
    })
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

fn read_action(
    fields: &Fields<'_>,
    id: Option<&Spanned<String>>,
    place: BlockPlace<'_>,
    problems: &mut Diagnostics,
) -> Option<Action> {
    let found = fields.among(ACTIONS);
    let Some(entry) = found.first() else {
        // A key that was reported as misspelled is already the reason.
        let is_misspelled = fields.keys().any(is_action_in_other_words);
        if fields.among(ACTIONS_LATER).is_empty() && !is_misspelled {
            let problem = Diagnostic::new("no-action", "the step does nothing", id.map_or(fields.span, |id| id.span));
            problems.push(problem.hint(format!("give it one of {}", one_of(ACTIONS.iter().copied()))));
        }
        return None;
    };
    for second in &found[1..] {
        let message = format!("a step can have only one of {}", one_of(ACTIONS.iter().copied()));
        problems.push(
            Diagnostic::new("two-actions", message, second.key_span)
                .related(entry.key_span, "first one here")
                .hint("make two steps of it"),
        );
    }
    match entry.key.as_str() {
        "uses" => {
            if entry.value.as_sequence().is_some() {
                let problem = Diagnostic::new("type", "`uses` must name one component, not a list", entry.value.span);
                problems.push(problem.hint("write one step for each"));
                return None;
            }
            let component = text(&entry.value, "uses", problems)?;
            if !check_source(component, entry.value.span, problems) {
                return None;
            }
            let component = Spanned { value: component.to_owned(), span: entry.value.span };
            let named = fields.get("entry").and_then(|node| Some((fixed_text(node, "entry", problems)?, node.span)));
            let (value, span) = named.unwrap_or((ENTRY_DEFAULT, component.span));
            Some(Action::Uses { component, entry: Spanned { value: value.to_owned(), span } })
        }
        "script" => script::read_script(entry, problems).map(Action::Script),
        "call" => {
            if let Some([only]) = entry.value.as_mapping() {
                let message = "`call` must be the name of a handler; its arguments go beside it, under `with`";
                let hint = format!("call: {}, and on the next line with: {{ … }}", shorten(&only.key));
                problems.push(Diagnostic::new("type", message, entry.value.span).hint(hint));
                return None;
            }
            let handler = text(&entry.value, "call", problems)?;
            Some(Action::Call { handler: Spanned { value: handler.to_owned(), span: entry.value.span } })
        }
        "wait" => read_wait(entry, problems),
        "steps" => {
            let pointer = format!("{}/steps", place.pointer);
            let place = BlockPlace { pointer: &pointer, ..place };
            read_block(&entry.value, fields.get("outputs"), place, problems).map(Action::Steps)
        }
        "switch" => {
            let pointer = format!("{}/switch", place.pointer);
            read_switch(entry, BlockPlace { pointer: &pointer, ..place }, problems).map(Action::Switch)
        }
        _ => Some(Action::Set(entry.value.clone())),
    }
}

fn is_action_in_other_words(key: &str) -> bool {
    if KEYS.known.contains(&key) {
        return false;
    }
    let says = |hint: &str| ACTIONS.iter().any(|action| hint.contains(&format!("`{action}")));
    foreign_keys::of(&plain(key), KEYS.foreign).is_some_and(says) || closest(key, ACTIONS.iter().copied()).is_some()
}

fn read_wait(entry: &Entry, problems: &mut Diagnostics) -> Option<Action> {
    let node = &entry.value;
    if node.as_mapping().is_some() {
        return read_signal(node, entry.key_span, problems);
    }
    if let Some(problem) = signal_as_duration(node) {
        problems.push(problem);
        return None;
    }
    (is_expression(node) || duration(node, "wait", problems).is_some()).then(|| Action::Wait(node.clone()))
}

/// Reports the name of a signal in the place of a duration: `wait: approve`.
fn signal_as_duration(node: &Node) -> Option<Diagnostic> {
    let name = node.as_text().filter(|text| text.len() <= SIGNAL_QUOTED_MAX)?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
    let error = durations::read(name)
        .err()
        .filter(|error| is_name && error.why.ends_with("is not a duration") && error.hint == durations::FORMS)?;
    let hint = format!("for a signal, write wait: {{ signal: {name} }}; for a duration, wait: 30s");
    Some(Diagnostic::new("duration", format!("`wait`: {}", error.why), node.span).hint(hint))
}

fn is_expression(node: &Node) -> bool {
    node.as_text().is_some_and(|text| text.contains("${"))
}

fn read_signal(node: &Node, key_span: Span, problems: &mut Diagnostics) -> Option<Action> {
    let keys = KnownKeys {
        what: "`wait`",
        known: &["until", "signal", "timeout", "title", "text", "schema"],
        later: &[],
        foreign: foreign_keys::WAIT,
    };
    let fields = Fields::read(node, &keys, problems)?;
    if let Some(until) = fields.get("until") {
        return read_until(until, &fields, problems);
    }
    let timeout = fields.get("timeout");
    let timeout_reads = timeout.is_none_or(|node| is_expression(node) || duration(node, "timeout", problems).is_some());
    let Some(name) = fields.get("signal") else {
        if !fields.has_unknown_keys {
            let problem = Diagnostic::new("missing-key", "the `wait` does not say what it waits for", key_span);
            problems.push(problem.hint("wait: { signal: approve, timeout: 24h }, or a duration: wait: 30s"));
        }
        return None;
    };
    let text = text(name, "signal", problems)?;
    if text.is_empty() || text.len() > SIGNAL_BYTES_MAX {
        let message = format!("the name of a signal must have 1 to {SIGNAL_BYTES_MAX} bytes");
        problems.push(Diagnostic::new("name", message, name.span).hint("signal: approve"));
        return None;
    }
    let prompt = read_prompt(&fields, problems)?;
    timeout_reads.then(|| Action::Signal { name: name.clone(), timeout: timeout.cloned(), prompt })
}

/// Reads a wait for a time.
fn read_until(node: &Node, fields: &Fields<'_>, problems: &mut Diagnostics) -> Option<Action> {
    for entry in fields.among(&["signal", "timeout", "title", "text", "schema"]) {
        let message = format!("a `wait` until a time has no `{}`", entry.key);
        problems.push(Diagnostic::new("key-not-here", message, entry.key_span).hint("make two steps of it"));
    }
    let text = text(node, "until", problems)?;
    if !is_expression(node)
        && let Err(why) = parse_time(text)
    {
        problems.push(Diagnostic::new("time", format!("`until`: {why}"), node.span).hint(TIME_FORM));
        return None;
    }
    Some(Action::Until(node.clone()))
}

/// Reads what a person is shown who sends the signal.
fn read_prompt(fields: &Fields<'_>, problems: &mut Diagnostics) -> Option<Prompt> {
    let mut texts = [None, None];
    for (key, place) in ["title", "text"].into_iter().zip(&mut texts) {
        if let Some(node) = fields.get(key) {
            text(node, key, problems)?;
            *place = Some(node.clone());
        }
    }
    let [title, text] = texts;
    let Some(node) = fields.get("schema") else { return Some(Prompt { title, text, schema: None }) };
    let mut refuse = |message: String, span: Span| {
        problems.push(
            Diagnostic::new("schema", message, span)
                .hint("schema: { type: object, properties: { by: { type: string } } }"),
        );
    };
    if node.as_mapping().is_none() {
        refuse(format!("`schema` is a JSON Schema, an object, not {}", node.kind()), node.span);
        return None;
    }
    match node.to_json() {
        Ok(schema) if schema.to_string().len() > SCHEMA_BYTES_MAX => {
            refuse(format!("the schema of a signal has at most {SCHEMA_BYTES_MAX} bytes of JSON"), node.span);
            None
        }
        Ok(schema) => Some(Prompt { title, text, schema: Some(schema) }),
        Err((span, why)) => {
            refuse(format!("`schema` is not JSON: {why}"), span);
            None
        }
    }
}

/// Reports keys that are valid with another action only.
fn check_belonging(fields: &Fields<'_>, action: &Action, problems: &mut Diagnostics) {
    for (key, actions) in ONLY_WITH {
        if let Some(entry) = fields.entry(key)
            && !actions.contains(&action.key())
        {
            let message = format!("`{key}` has no effect with `{}`", action.key());
            let hint = timeout_of_signal(entry, action)
                .unwrap_or_else(|| format!("it is valid with {}", one_of(actions.iter().copied())));
            problems.push(Diagnostic::new("key-not-here", message, entry.key_span).hint(hint));
        }
    }
}

/// The hint for a `timeout` beside `wait: { signal: … }` instead of within it.
fn timeout_of_signal(entry: &Entry, action: &Action) -> Option<String> {
    let Action::Signal { name, timeout: None, .. } = action else { return None };
    let short = |node: &Node| {
        let text = node.as_scalar().map(|scalar| scalar.text.as_str())?;
        (text.len() <= SIGNAL_QUOTED_MAX && !text.contains(['$', '\n'])).then(|| text.to_owned())
    };
    let (name, timeout) = (short(name)?, short(&entry.value)?);
    (entry.key == "timeout").then(|| format!("put it into the wait: wait: {{ signal: {name}, timeout: {timeout} }}"))
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

/// What other tools call the values of `when`.
const WHEN_ELSEWHERE: &[(&[&str], &str)] = &[
    (&["success", "successful", "on-success", "all-success", "ok", "all"], "succeeded"),
    (&["failure", "error", "on-failure", "on-error", "one-failed"], "failed"),
    (&["not-reached", "upstream-failed", "blocked"], "unreached"),
    (&["always", "finally", "completed", "finished", "ended", "all-done"], "done"),
    (&["one", "one-success", "some"], "any"),
];

fn read_when(node: &Node, problems: &mut Diagnostics) -> Option<When> {
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

fn read_one_when(node: &Node, problems: &mut Diagnostics) -> Option<When> {
    let names = ["succeeded", "failed", "unreached", "done", "any"];
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
            let hint = match meant.or_else(|| closest(other, names)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if other.contains("${") => "a condition goes under `if`".to_owned(),
                None => format!("write {}", one_of(names)),
            };
            problems.push(Diagnostic::new("value", message, node.span).hint(hint));
            None
        }
    }
}

/// Reads `retry:`.
pub(super) fn read_retry(node: &Node, problems: &mut Diagnostics) -> Option<Retry> {
    let keys = KnownKeys { what: "`retry`", known: &["max", "backoff"], later: &[], foreign: foreign_keys::RETRY };
    if node.as_scalar().is_some_and(|scalar| scalar.text.parse::<u32>().is_ok()) {
        let message = "`retry` must be a mapping, not a number";
        let hint = format!("retry: {{ max: {} }}  # retries, not attempts", shown(node).trim_matches('`'));
        problems.push(Diagnostic::new("type", message, node.span).hint(hint));
        return None;
    }
    let fields = Fields::read(node, &keys, problems)?;
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
