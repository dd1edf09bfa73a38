//! Reads the `wait` of a step.

use super::durations::{self, TIME_FORM, parse_time};
use super::fields::{Fields, KnownKeys, text};
use super::foreign_keys;
use super::several::read_several;
use super::values::duration;
use super::{Action, Prompt};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Entry, Node, Span};

pub(super) const KEYS: KnownKeys = KnownKeys {
    what: "`wait`",
    known: &["until", "signal", "any", "all", "timeout", "title", "text", "schema"],
    later: &[],
    foreign: foreign_keys::WAIT,
};

/// The longest name of a signal. Arbitrary.
const SIGNAL_BYTES_MAX: usize = 1_024;

/// The longest schema of a signal's body. Arbitrary: it stands in the records of each wait.
const SCHEMA_BYTES_MAX: usize = 16 * 1024;

/// Longest name of a signal that a hint quotes. Arbitrary.
const SIGNAL_QUOTED_MAX: usize = 60;

pub(super) fn read_wait(entry: &Entry, problems: &mut Diagnostics) -> Option<Action> {
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

pub(super) fn is_expression(node: &Node) -> bool {
    node.as_text().is_some_and(|text| text.contains("${"))
}

fn read_signal(node: &Node, key_span: Span, problems: &mut Diagnostics) -> Option<Action> {
    let fields = Fields::read(node, &KEYS, problems)?;
    if let [several, ..] = fields.among(&["any", "all"])[..] {
        return read_several(several, &fields, problems);
    }
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

/// The hint for a `timeout` beside `wait: { signal: … }` instead of within it.
pub(super) fn timeout_of_signal(entry: &Entry, action: &Action) -> Option<String> {
    let Action::Signal { name, timeout: None, .. } = action else { return None };
    let short = |node: &Node| {
        let text = node.as_scalar().map(|scalar| scalar.text.as_str())?;
        (text.len() <= SIGNAL_QUOTED_MAX && !text.contains(['$', '\n'])).then(|| text.to_owned())
    };
    let (name, timeout) = (short(name)?, short(&entry.value)?);
    (entry.key == "timeout").then(|| format!("put it into the wait: wait: {{ signal: {name}, timeout: {timeout} }}"))
}
