//! What a step waits for, and how long it may still take, as text.

use crate::cli::table::{duration, moment};
use crate::cli::terminal::in_line;
use crate::process::Timestamp;
use crate::workflow::interpreter::progress::{Cause, NodeProgress, Wait};
use std::time::Duration;

/// What a step waits for, as progress shows it: `waits for signal approve, 23 h 58 min left`.
/// `None` if it waits for nothing and has no deadline.
pub(in crate::cli) fn describe_briefly(node: &NodeProgress, now: Timestamp) -> Option<String> {
    describe(node, now, false)
}

/// The same with the times since when and until when.
pub(in crate::cli) fn describe_in_full(node: &NodeProgress, now: Timestamp) -> Option<String> {
    describe(node, now, true)
}

/// The first signal that a step waits for.
pub(in crate::cli) fn signal(node: &NodeProgress) -> Option<&str> {
    node.waits.iter().find_map(|wait| wait.cause.signals().first()).map(String::as_str)
}

fn describe(node: &NodeProgress, now: Timestamp, in_full: bool) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(first) = node.waits.first() {
        let item = first.item.map_or_else(String::new, |item| format!("item {item} "));
        parts.push(format!("{item}{}", wait(first, now, in_full)));
        // Guests that wait count as running.
        let more = node.waiting.max(node.waits.len()) - 1;
        if more > 0 {
            parts.push(format!("{more} more {}", if more == 1 { "item waits" } else { "items wait" }));
        }
    }
    if node.queued > 0 && node.total > 1 {
        let verb = if node.queued == 1 { "waits for its turn" } else { "wait for their turn" };
        parts.push(format!("{} {verb}", node.queued));
    }
    if let Some(deadline) = node.deadline.filter(|_| node.in_flight > 0) {
        let at = if in_full { format!("times out at {}", moment(deadline)) } else { "times out".to_owned() };
        let rest = rest(deadline, now);
        parts.push(rest.map_or_else(
            || at.clone(),
            |rest| if in_full { format!("{at}, {rest} left") } else { format!("{at} in {rest}") },
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn wait(Wait { cause, since, until, .. }: &Wait, now: Timestamp, in_full: bool) -> String {
    let rest = until.and_then(|until| rest(until, now));
    let mut text = match cause {
        Cause::Signal { name } => format!("waits for signal {}", in_line(name)),
        Cause::Any { names } => {
            let names: Vec<_> = names.iter().map(|name| in_line(name).to_string()).collect();
            format!("waits for signal {}", names.join(" or "))
        }
        Cause::Time => "waits".to_owned(),
        Cause::Turn { turn } => format!("waits for turn {}", turn + 1),
        Cause::Attempt { attempt, attempts_max, title, .. } => {
            let rest = rest.map_or_else(String::new, |rest| format!("{rest} "));
            return format!("waits {rest}for attempt {attempt} of {attempts_max}, after: {}", in_line(title));
        }
    };
    if in_full {
        text.push_str(&format!(" since {}", moment(*since)));
    }
    if let Some(until) = until
        && (in_full || matches!(cause, Cause::Time | Cause::Turn { .. }))
    {
        let comma = if in_full { "," } else { "" };
        text.push_str(&format!("{comma} until {}", moment(*until)));
    }
    match rest {
        Some(rest) => format!("{text}, {rest} left"),
        None => text,
    }
}

/// The time until then; `None` if it has passed.
fn rest(until: Timestamp, now: Timestamp) -> Option<String> {
    let rest = until.0.checked_sub(now.0).filter(|rest| *rest > 0)?;
    Some(duration(Duration::from_micros(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: u64 = 1_700_000_000_000_000;

    fn node(more: Value) -> NodeProgress {
        let mut node =
            json!({ "node": "n", "status": "running", "total": 1, "done": 0, "failed": 0, "flying": 0, "attempts": 0 });
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn a_wait_is_told_with_what_is_left_of_it() {
        let hour = 3_600_000_000u64;
        let signal =
            json!({ "for": { "signal": { "name": "approve" } }, "since": NOW - hour, "until": NOW + 2 * hour });
        let signal = node(json!({ "waiting": 1, "waits": [signal] }));
        assert_eq!(describe_briefly(&signal, Timestamp(NOW)).unwrap(), "waits for signal approve, 2 h 00 min left");
        assert_eq!(
            describe_in_full(&signal, Timestamp(NOW)).unwrap(),
            "waits for signal approve since 2023-11-14 21:13:20Z, until 2023-11-15 00:13:20Z, 2 h 00 min left"
        );
        assert_eq!(describe_briefly(&signal, Timestamp(NOW + 3 * hour)).unwrap(), "waits for signal approve");
        let time = node(json!({ "waiting": 1, "waits": [{ "for": "time", "since": NOW, "until": NOW + hour }] }));
        assert_eq!(
            describe_briefly(&time, Timestamp(NOW)).unwrap(),
            "waits until 2023-11-14 23:13:20Z, 1 h 00 min left"
        );
        let again = json!({
            "for": { "attempt": { "attempt": 2, "attempts-max": 4, "kind": "k", "title": "it broke" } },
            "since": NOW, "until": NOW + 3_000_000,
        });
        let again = node(json!({ "waiting": 1, "waits": [again] }));
        assert_eq!(
            describe_briefly(&again, Timestamp(NOW)).unwrap(),
            "waits 3.0 s for attempt 2 of 4, after: it broke"
        );
    }

    #[test]
    fn a_step_with_items_tells_of_the_first_that_waits_and_counts_the_others() {
        let waits = json!([{ "for": { "signal": { "name": "a" } }, "item": 2, "since": NOW }]);
        let list = node(
            json!({ "total": 9, "waiting": 3, "queued": 4, "waits": waits, "flying": 1, "deadline": NOW + 5_000_000 }),
        );
        assert_eq!(
            describe_briefly(&list, Timestamp(NOW)).unwrap(),
            "item 2 waits for signal a; 2 more items wait; 4 wait for their turn; times out in 5.0 s"
        );
        assert_eq!(describe_briefly(&node(json!({ "flying": 1 })), Timestamp(NOW)), None);
    }
}
