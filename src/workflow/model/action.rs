//! Reads what a step does.

use super::block::{BlockPlace, read_block, read_switch};
use super::fields::{Fields, fixed_text, shorten, text};
use super::names::{check_source, check_workflow_file};
use super::step::{ENTRY_DEFAULT, KEYS};
use super::wait::read_wait;
use super::{Action, Spanned, foreign_keys, script};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, closest, one_of, plain};

pub(super) const ACTIONS: &[&str] = &["uses", "script", "call", "wait", "set", "steps", "switch", "workflow"];

pub(super) fn read_action(
    fields: &Fields<'_>,
    id: Option<&Spanned<String>>,
    place: BlockPlace<'_>,
    problems: &mut Diagnostics,
) -> Option<Action> {
    let found = fields.among(ACTIONS);
    let Some(entry) = found.first() else {
        // A key that was reported as misspelled is already the reason.
        let is_misspelled = fields.keys().any(is_action_in_other_words);
        if !is_misspelled {
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
        "workflow" => {
            let file = text(&entry.value, "workflow", problems)?;
            let file = Spanned { value: file.to_owned(), span: entry.value.span };
            check_workflow_file(&file, problems).then_some(Action::Workflow { file })
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
