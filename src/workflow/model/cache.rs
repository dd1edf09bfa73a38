//! Reads `cache:`, by which a step uses the outcome of an earlier run.

use super::fields::{Fields, KnownKeys};
use super::foreign_keys;
use super::values::{duration, shown};
use super::{Action, Spanned};
use crate::process::Micros;
use crate::process::handler::{KV, SIGNAL};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::Node;

const EXAMPLE: &str = "cache: auto, or cache: { ttl: 1h, key: \"${ .inputs.day }\" }";

pub(super) const KEYS: KnownKeys =
    KnownKeys { what: "`cache`", known: &["ttl", "key"], later: &[], foreign: foreign_keys::CACHE };

/// `cache:`.
#[derive(Clone, PartialEq, Debug)]
pub enum Cache {
    /// `auto`: the outcome of a guest that depends on nothing but its input.
    Auto,
    /// Any outcome, by the author's word.
    Kept {
        /// `ttl`: how long it may be used.
        ttl: Option<Micros>,
        /// `key`: what it is found by, in place of the input.
        key: Option<Node>,
    },
}

/// Reads `cache:`. `None` if it has a problem, which is reported.
pub(super) fn read_cache(node: &Node, problems: &mut Diagnostics) -> Option<Spanned<Cache>> {
    let spanned = |value| Some(Spanned { value, span: node.span });
    if node.as_mapping().is_none() {
        if node.as_text() == Some("auto") {
            return spanned(Cache::Auto);
        }
        let message = format!("`cache` must be `auto`, or a mapping with `ttl` or `key`, not {}", shown(node));
        let meant = match node.as_scalar().map(|scalar| scalar.text.as_str()) {
            Some("true" | "yes" | "on") => {
                "`auto` keeps what a guest makes of its input alone: cache: auto; for a call: cache: { ttl: 1h }"
            }
            Some("false" | "no" | "off" | "none") => "a step without `cache` keeps nothing: leave it out",
            _ => EXAMPLE,
        };
        problems.push(Diagnostic::new("type", message, node.span).hint(meant));
        return None;
    }
    let fields = Fields::read(node, &KEYS, problems)?;
    let before = problems.count();
    let ttl = fields.get("ttl").and_then(|node| {
        let ttl = duration(node, "ttl", problems)?;
        if ttl.0 == 0 {
            let problem = Diagnostic::new("value", "with a `ttl` of 0 nothing would ever be found", node.span);
            problems.push(problem.hint("a step without `cache` keeps nothing"));
        }
        Some(ttl)
    });
    let key = fields.get("key").cloned();
    if let Some(key) = key.as_ref().filter(|key| key.as_text().is_none_or(str::is_empty)) {
        let message = format!("`key` must be a text, or an expression, not {}", shown(key));
        problems.push(Diagnostic::new("type", message, key.span).hint("key: \"${ .inputs.day }\""));
    }
    if problems.count() > before || fields.has_unknown_keys {
        return None;
    }
    if ttl.is_none() && key.is_none() {
        let problem = Diagnostic::new("missing-key", "`cache` needs `ttl`, `key` or both", node.span);
        problems.push(problem.hint(EXAMPLE));
        return None;
    }
    spanned(Cache::Kept { ttl, key })
}

/// Reports a cache that could never keep an outcome of this action.
pub(super) fn check_cache(
    cache: &Spanned<Cache>,
    action: Option<&Action>,
    is_undone: bool,
    problems: &mut Diagnostics,
) {
    if is_undone {
        let message = "`cache` does not go with `compensate`: an outcome in the cache may have been undone";
        let hint = "a step that does something runs each time; cache what only reads or computes";
        problems.push(Diagnostic::new("key-not-here", message, cache.span).hint(hint));
        return;
    }
    let Some(Action::Call { handler }) = action else { return };
    let name = handler.value.as_str();
    if [KV, SIGNAL].contains(&name) {
        let message = format!("`cache` has no effect with `call: {name}`, which belongs to the run");
        problems.push(Diagnostic::new("key-not-here", message, cache.span));
    } else if cache.value == Cache::Auto {
        let message = "`cache: auto` is for guests: what a call answers depends on more than its arguments";
        let hint = "state how long an answer may be used: cache: { ttl: 1h }";
        problems.push(Diagnostic::new("key-not-here", message, cache.span).hint(hint));
    }
}
