//! Reads `handlers:`, which bounds the calls of a workflow.

use super::fields::{Fields, KnownKeys, fixed_text, shorten};
use super::foreign_keys;
use super::names::check_count;
use super::values::{shown, whole};
use super::{NAMES_MAX, Spanned, parse_duration, write_duration};
use crate::process::Micros;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Entry, Node};

const EXAMPLE: &str = "handlers: { http: { concurrency: 4, rate: 10/s, burst: 20, per: host } }";

pub(super) const KEYS: KnownKeys = KnownKeys {
    what: "a bound on calls",
    known: &["concurrency", "rate", "burst", "per"],
    later: &[],
    foreign: foreign_keys::HANDLERS,
};

/// Most calls that run at one time, of those in a burst, and of those in a period. Arbitrary.
pub(super) const CALLS_MAX: u64 = 1_000_000;

/// Bounds on the calls of a handler.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HandlerBounds {
    /// Calls that run at one time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub concurrency: Option<u32>,
    /// The time between two calls, in the long run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval: Option<Micros>,
    /// Calls that may begin together after a pause.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub burst: Option<u32>,
    /// Whether each host that calls go to is bounded by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub per_host: bool,
}

impl std::fmt::Display for HandlerBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let concurrency = self.concurrency.map(|calls| format!("at most {calls} at once"));
        let interval = self.interval.map(|interval| format!("one every {}", write_duration(interval)));
        let burst = self.burst.map(|calls| format!("{calls} together after a pause"));
        let per_host = self.per_host.then(|| "for each host".to_owned());
        let all: Vec<String> = [concurrency, interval, burst, per_host].into_iter().flatten().collect();
        f.write_str(&all.join(", "))
    }
}

/// Reads `handlers:`.
pub(crate) fn read_handlers(node: &Node, problems: &mut Diagnostics) -> Vec<(Spanned<String>, HandlerBounds)> {
    let Some(entries) = node.as_mapping() else {
        let message = format!("`handlers` must be a mapping from handlers to their bounds, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint(EXAMPLE));
        return Vec::new();
    };
    check_count(node, entries.len(), "handlers", problems);
    let read = |entry: &Entry| {
        let bounds = read_bounds(&entry.value, problems)?;
        if bounds.per_host && entry.key != crate::process::handler::HTTP {
            let message = format!("calls of `{}` go to no host", shorten(&entry.key));
            problems.push(Diagnostic::new("value", message, entry.key_span).hint("`per: host` is for `http`"));
        }
        Some((Spanned { value: entry.key.clone(), span: entry.key_span }, bounds))
    };
    entries.iter().take(NAMES_MAX).filter_map(read).collect()
}

/// Reads the bounds of a handler.
fn read_bounds(node: &Node, problems: &mut Diagnostics) -> Option<HandlerBounds> {
    let fields = Fields::read(node, &KEYS, problems)?;
    let mut number = |key: &'static str| {
        fields.get(key).and_then(|node| whole(node, key, 1, CALLS_MAX, problems)).map(|number| number as u32)
    };
    let (concurrency, burst) = (number("concurrency"), number("burst"));
    let interval = fields.get("rate").map(|node| read_rate(node, problems));
    if let Some(entry) = fields.entry("burst").filter(|_| interval.is_none()) {
        let message = "`burst` has no effect without `rate`";
        problems.push(Diagnostic::new("key-not-here", message, entry.key_span).hint("rate: 10/s"));
    }
    if concurrency.is_none() && fields.get("concurrency").is_none() && interval.is_none() && !fields.has_unknown_keys {
        let message = "a handler without `concurrency` and `rate` is not bounded";
        problems.push(Diagnostic::new("missing-key", message, node.span).hint(EXAMPLE));
        return None;
    }
    let per_host = match fields.get("per").map(|node| (node, fixed_text(node, "per", problems))) {
        None | Some((_, None)) => false,
        Some((_, Some("host"))) => true,
        Some((node, Some(other))) => {
            let message = format!("there is no `per: {}`", shorten(other));
            problems.push(Diagnostic::new("value", message, node.span).hint("it is `host`, or left out"));
            false
        }
    };
    Some(HandlerBounds { concurrency, interval: interval.flatten(), burst, per_host })
}

/// Reads a rate: `10/s`, `100/min`, `5/10s`.
fn read_rate(node: &Node, problems: &mut Diagnostics) -> Option<Micros> {
    let text = node.as_scalar().map_or("", |scalar| scalar.text.as_str());
    let interval = parse_rate(text);
    if interval.is_none() {
        let hint = match text.trim().parse::<u64>() {
            Ok(number) if number > 0 => format!("in which time? rate: {number}/s"),
            _ => "write how many calls begin in which time: 10/s, 100/m, 1000/h, 5/10s".to_owned(),
        };
        problems.push(Diagnostic::new("value", format!("{} is not a rate", shown(node)), node.span).hint(hint));
    }
    interval
}

/// The time between two calls of a rate.
fn parse_rate(text: &str) -> Option<Micros> {
    let (count, period) = text.split_once('/')?;
    let count = count.trim().replace('_', "").parse::<u64>().ok().filter(|count| (1..=CALLS_MAX).contains(count))?;
    let period = period.trim();
    let period = match period {
        "s" | "sec" | "second" => Micros(1_000_000),
        "m" | "min" | "minute" => Micros(60_000_000),
        "h" | "hour" => Micros(3_600_000_000),
        "d" | "day" => Micros(86_400_000_000),
        other => parse_duration(other).ok()?,
    };
    let interval = Micros(period.0 / count);
    (interval.0 > 0).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let cases = [("10/s", 100_000), ("1/m", 60_000_000), ("100 / min", 600_000), ("5/10s", 2_000_000)];
        for (text, micros) in cases {
            assert_eq!(parse_rate(text), Some(Micros(micros)), "{text}");
        }
        for text in ["", "10", "0/s", "-1/s", "1/0s", "1/", "/s", "10/parsec", "1000000/1us", "1.5/s"] {
            assert_eq!(parse_rate(text), None, "{text}");
        }
    }
}
