//! Durations, sizes, fuel and other small values as people write them.

use crate::process::{Micros, NUMBER_MAX};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::Node;
use serde_json::Value;

/// Reads `500ms`, `30s`, `5m`, `24h`, `1h30m` or a duration of ISO 8601.
///
/// # Errors
/// Why it is none.
pub fn parse_duration(text: &str) -> Result<Micros, String> {
    let text = text.trim();
    if text.starts_with(['P', 'p']) {
        return iso_duration(text);
    }
    let mut rest = text;
    let mut total: f64 = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| not_a_duration(text))?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += number
            * match rest[..unit].trim() {
                "us" => 1.0,
                "ms" => 1e3,
                "s" => 1e6,
                "m" | "min" => 6e7,
                "h" => 3.6e9,
                "d" => 8.64e10,
                _ => return Err(not_a_duration(text)),
            };
        rest = &rest[unit..];
    }
    if text.is_empty() {
        return Err(not_a_duration(text));
    }
    in_range(total)
}

fn iso_duration(text: &str) -> Result<Micros, String> {
    let span: jiff::Span = text.parse().map_err(|_| not_a_duration(text))?;
    let duration = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .map_err(|_| format!("`{text}` has months or years, whose length is not fixed"))?;
    if duration.is_negative() {
        return Err(format!("`{text}` is negative"));
    }
    in_range(duration.as_secs_f64() * 1e6)
}

fn in_range(micros: f64) -> Result<Micros, String> {
    if micros < NUMBER_MAX as f64 { Ok(Micros(micros.round() as u64)) } else { Err("longer than 285 years".to_owned()) }
}

fn not_a_duration(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    format!("`{shown}` is not a duration")
}

/// A number with a unit out of a table.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let number = text[..digits].replace('_', "");
    let unit = text[digits..].trim();
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1;
    match number.parse::<u64>() {
        Ok(number) => number.checked_mul(factor),
        Err(_) => number.parse::<f64>().ok().map(|number| (number * factor as f64).round() as u64),
    }
    .filter(|value| *value < NUMBER_MAX)
}

const SIZES: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const AMOUNTS: &[(&str, u64)] =
    &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];

/// What a value of a limit is measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Bytes,
    Amount,
    Time,
}

/// Reads a value of a limit.
pub(crate) fn quantity(node: &Node, unit: Unit, what: &str, problems: &mut Diagnostics) -> Option<u64> {
    let text = node.as_scalar().map_or("", |scalar| scalar.text.as_str());
    let (value, hint) = match unit {
        Unit::Bytes => (with_unit(text, SIZES), "write a size: 512KiB, 64MiB, 1GiB"),
        Unit::Amount => (with_unit(text, AMOUNTS), "write a number: 10000, 500k, 500M, 2G"),
        Unit::Time => (parse_duration(text).ok().map(|micros| micros.0), "write a duration: 500ms, 30s, 5m, 24h"),
    };
    if value.is_none() {
        problems.push(Diagnostic::new("value", format!("`{what}` cannot be {}", shown(node)), node.span).hint(hint));
    }
    value
}

/// Reads a duration.
pub(crate) fn duration(node: &Node, what: &str, problems: &mut Diagnostics) -> Option<Micros> {
    let scalar = node.as_scalar();
    let problem = match scalar.map(|scalar| parse_duration(&scalar.text)) {
        Some(Ok(micros)) => return Some(micros),
        Some(Err(why)) => Diagnostic::new("duration", format!("`{what}`: {why}"), node.span),
        None => Diagnostic::new("duration", format!("`{what}` is {}, not a duration", node.kind()), node.span),
    };
    let hint = match scalar.map(|scalar| scalar.text.as_str()) {
        Some(text) if text.parse::<f64>().is_ok() => format!("say in which unit: {text}s, {text}m"),
        _ => "write 500ms, 30s, 5m, 24h, or ISO 8601: PT5M".to_owned(),
    };
    problems.push(problem.hint(hint));
    None
}

/// Reads a whole number within bounds.
pub(crate) fn whole(node: &Node, what: &str, min: u64, max: u64, problems: &mut Diagnostics) -> Option<u64> {
    let number = node.as_scalar().and_then(|scalar| match scalar.to_json() {
        Ok(Value::Number(number)) => number.as_u64(),
        _ => None,
    });
    match number {
        Some(number) if (min..=max).contains(&number) => Some(number),
        _ => {
            let message = format!("`{what}` is a whole number from {min} to {max}, not {}", shown(node));
            problems.push(Diagnostic::new("value", message, node.span));
            None
        }
    }
}

/// Reads `true` or `false`.
pub(crate) fn boolean(node: &Node, what: &str, problems: &mut Diagnostics) -> Option<bool> {
    if let Some(Ok(Value::Bool(value))) = node.as_scalar().map(super::super::syntax::Scalar::to_json) {
        return Some(value);
    }
    let text = node.as_scalar().map_or("", |scalar| scalar.text.as_str());
    let hint = match text.to_ascii_lowercase().as_str() {
        "yes" | "on" | "y" => Some("write true: in YAML 1.2 `yes` and `on` are strings".to_owned()),
        "no" | "off" | "n" => Some("write false: in YAML 1.2 `no` and `off` are strings".to_owned()),
        "true" | "false" => Some("write it without quotes".to_owned()),
        _ => None,
    };
    let message = format!("`{what}` is true or false, not {}", shown(node));
    problems.push(Diagnostic::new("value", message, node.span).hint_maybe(hint));
    None
}

/// A value in a message: its text where it is short.
pub(crate) fn shown(node: &Node) -> String {
    match node.as_scalar() {
        Some(scalar) if !scalar.is_null() && scalar.text.len() <= 40 && !scalar.text.contains('\n') => {
            format!("`{}`", scalar.text)
        }
        _ => node.kind().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        let micros = |text| parse_duration(text).map(|micros| micros.0);
        assert_eq!(micros("500ms"), Ok(500_000));
        assert_eq!(micros("30s"), Ok(30_000_000));
        assert_eq!(micros("5m"), Ok(300_000_000));
        assert_eq!(micros("24h"), Ok(86_400_000_000));
        assert_eq!(micros("1h30m"), Ok(5_400_000_000));
        assert_eq!(micros("1.5s"), Ok(1_500_000));
        assert_eq!(micros("PT5M"), Ok(300_000_000));
        assert_eq!(micros("P1DT1S"), Ok(86_401_000_000));
        for bad in ["", "5", "s", "5 parsecs", "1..5s", "-1s", "P1M", "-PT5M", "99999999d", "1e3s", "5s5"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_and_amounts() {
        assert_eq!(with_unit("64MiB", SIZES), Some(64 << 20));
        assert_eq!(with_unit("1.5 GiB", SIZES), Some(3 << 29));
        assert_eq!(with_unit("10kb", SIZES), Some(10_000));
        assert_eq!(with_unit("500M", AMOUNTS), Some(500_000_000));
        assert_eq!(with_unit("1_000", AMOUNTS), Some(1000));
        for bad in ["", "MiB", "-1", "10 apples", "99999999GiB", "1e3"] {
            assert_eq!(with_unit(bad, SIZES), None, "{bad}");
        }
    }
}
