//! `concurrency:`: how many runs of a group are stepped at one time.

use super::fields::{Fields, KnownKeys, fixed_text, shorten};
use super::foreign_keys;
use super::values::whole;
use crate::run::{OnLimit, PLACES_MAX, QUEUE_MAX};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of};
use crate::workflow::syntax::{Node, Span};

pub(super) const KEYS: KnownKeys = KnownKeys {
    what: "`concurrency`",
    known: &["group", "limit", "on-limit", "queue-max"],
    later: &[],
    foreign: foreign_keys::CONCURRENCY,
};

/// Runs that wait in a group if the file does not say how many may. Arbitrary.
const QUEUE_DEFAULT: u32 = 100;

/// `concurrency:`.
#[derive(Clone, PartialEq, Debug)]
pub struct Concurrency {
    /// The name of the group, which may have expressions of the inputs.
    pub group: Node,
    /// How many of its runs have a place at one time.
    pub limit: u32,
    /// What a run does that finds no place.
    pub on_limit: OnLimit,
    /// How many runs may wait.
    pub queue_max: u32,
    /// The whole of it.
    pub span: Span,
}

/// Reads `concurrency:`: a mapping, or only the group.
pub(super) fn read_concurrency(node: &Node, problems: &mut Diagnostics) -> Option<Concurrency> {
    let (limit, on_limit, queue_max, span) = (1, OnLimit::default(), QUEUE_DEFAULT, node.span);
    if node.as_text().is_some() {
        return Some(Concurrency { group: node.clone(), limit, on_limit, queue_max, span });
    }
    let fields = Fields::read(node, &KEYS, problems)?;
    let mut number = |key: &'static str, min: u64, max: u32, default: u32| {
        let number = fields.get(key).and_then(|node| whole(node, key, min, max.into(), problems));
        number.map_or(default, |number| number as u32)
    };
    let limit = number("limit", 1, PLACES_MAX, limit);
    let queue_max = number("queue-max", 1, QUEUE_MAX, queue_max);
    let on_limit = fields.get("on-limit").map_or(on_limit, |node| read_on_limit(node, problems));
    if let Some(entry) = fields.entry("queue-max").filter(|_| on_limit != OnLimit::Queue) {
        let message = "`queue-max` has a meaning with `on-limit: queue` alone";
        problems.push(Diagnostic::new("value", message, entry.key_span).hint("leave it out"));
    }
    let Some(group) = fields.get("group") else {
        if !fields.has_unknown_keys {
            let message = "`concurrency` has no `group`: the runs that share its places";
            let hint = "group: \"deploy ${ .inputs.stage }\"";
            problems.push(Diagnostic::new("missing-key", message, node.span).hint(hint));
        }
        return None;
    };
    Some(Concurrency { group: group.clone(), limit, on_limit, queue_max, span })
}

fn read_on_limit(node: &Node, problems: &mut Diagnostics) -> OnLimit {
    let words = [OnLimit::Queue, OnLimit::Skip, OnLimit::CancelPrevious, OnLimit::ReplaceQueued];
    let Some(text) = fixed_text(node, "on-limit", problems) else { return OnLimit::default() };
    words.into_iter().find(|word| word.name() == text).unwrap_or_else(|| {
        let message = format!("there is no `on-limit: {}`", shorten(text));
        let hint = format!("it is one of {}", all_of(words.map(OnLimit::name)));
        problems.push(Diagnostic::new("value", message, node.span).hint(hint));
        OnLimit::default()
    })
}
