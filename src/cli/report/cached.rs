//! What a step had of the cache.

use crate::cli::table::took;
use crate::process::Timestamp;
use crate::workflow::interpreter::progress::NodeProgress;

/// For the end of a line: `, cached`, `, 4 cached`.
pub(in crate::cli) fn in_short(node: &NodeProgress, is_list: bool) -> String {
    match node.cached {
        0 => String::new(),
        1 if !is_list && node.turns == 0 => ", cached".to_owned(),
        cached => format!(", {cached} cached"),
    }
}

/// Where a step's outcomes came from, or why they were not kept: `cached, from run r-1, 2 h 03 min
/// old`.
pub(in crate::cli) fn describe(node: &NodeProgress, now: Timestamp) -> Option<String> {
    let Some(from) = node.cached_from.as_ref().filter(|_| node.cached > 0) else {
        return node.uncached.as_ref().map(|why| format!("not kept in the cache: the guest {why}"));
    };
    let age = took(from.at, now.max(from.at));
    let (run, is_one) = (&from.run, node.cached == 1 && node.total <= 1 && node.turns == 0);
    Some(if is_one {
        format!("cached, from run {run}, {age} old")
    } else {
        format!("{} cached, the first from run {run}, {age} old", node.cached)
    })
}
