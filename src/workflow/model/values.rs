//! Reads sizes, amounts and other small values.

use super::durations::{self, DurationError, NO_EXPRESSION};
use crate::process::{Micros, NUMBER_MAX};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::Node;
use serde_json::Value;

/// Reads a number with a unit from a table.
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

/// The unit in which a limit is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Bytes,
    Amount,
    Time,
}

impl Unit {
    /// Writes a value as in a file, in the largest unit that divides it.
    pub(crate) fn write(self, value: u64) -> String {
        let units: &[(&str, u64)] = match self {
            Self::Time => return durations::write_duration(Micros(value)),
            Self::Bytes => &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)],
            Self::Amount => &[("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)],
        };
        match units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor)) {
            Some((name, factor)) => format!("{}{name}", value / factor),
            None => value.to_string(),
        }
    }
}

/// Rewrites a size or an amount from the units of other tools into ours.
fn in_our_units(text: &str, unit: Unit) -> Option<String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, name) = text.split_at(digits);
    let name = match (unit, name.trim().to_ascii_lowercase().as_str()) {
        (Unit::Bytes, "k" | "ki" | "kbytes") => "KiB",
        (Unit::Bytes, "m" | "mi" | "mbytes" | "megabytes") => "MiB",
        (Unit::Bytes, "g" | "gi" | "gbytes" | "gigabytes") => "GiB",
        (Unit::Amount, "thousand") => "k",
        (Unit::Amount, "million" | "mio") => "M",
        (Unit::Amount, "b" | "billion" | "bn") => "G",
        _ => return None,
    };
    (!number.is_empty()).then(|| format!("{number}{name}"))
}

/// Reads a size as in a file: `64MiB`.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    with_unit(text, SIZES)
}

/// Reads the value of a limit.
pub(crate) fn quantity(node: &Node, unit: Unit, what: &str, problems: &mut Diagnostics) -> Option<u64> {
    let text = node.as_scalar().map_or("", |scalar| scalar.text.as_str());
    let (value, hint) = match unit {
        Unit::Bytes => (with_unit(text, SIZES), "write a size: 512KiB, 64MiB, 1GiB"),
        Unit::Amount => (with_unit(text, AMOUNTS), "write a number: 10000, 500k, 500M, 2G"),
        Unit::Time => return duration(node, what, problems).map(|micros| micros.0),
    };
    if value.is_none() {
        let hint = match in_our_units(text, unit) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if text.contains("${") => NO_EXPRESSION.to_owned(),
            None => hint.to_owned(),
        };
        problems.push(Diagnostic::new("value", format!("`{what}` cannot be {}", shown(node)), node.span).hint(hint));
    }
    value
}

/// Reads a duration.
pub(crate) fn duration(node: &Node, what: &str, problems: &mut Diagnostics) -> Option<Micros> {
    let problem = match node.as_scalar().map(|scalar| durations::read(&scalar.text)) {
        Some(Ok(micros)) => return Some(micros),
        Some(Err(DurationError { why, hint })) => {
            Diagnostic::new("duration", format!("`{what}`: {why}"), node.span).hint(hint)
        }
        None => Diagnostic::new("duration", format!("`{what}` must be a duration, not {}", node.kind()), node.span)
            .hint(durations::FORMS),
    };
    problems.push(problem);
    None
}

/// Reads a whole number within bounds.
pub(crate) fn whole(node: &Node, what: &str, min: u64, max: u64, problems: &mut Diagnostics) -> Option<u64> {
    let scalar = node.as_scalar();
    let number = scalar.and_then(|scalar| match scalar.to_json() {
        Ok(Value::Number(number)) => number.as_u64(),
        _ => None,
    });
    match number {
        Some(number) if (min..=max).contains(&number) => Some(number),
        _ => {
            let message = format!("`{what}` must be a whole number from {min} to {max}, not {}", shown(node));
            let hint = match scalar {
                Some(scalar) if scalar.text.contains("${") => Some(NO_EXPRESSION.to_owned()),
                Some(scalar) if scalar.is_string() && scalar.text.parse::<u64>().is_ok() => {
                    Some(format!("write it without quotes: {}", scalar.text))
                }
                _ => None,
            };
            problems.push(Diagnostic::new("value", message, node.span).hint_maybe(hint));
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
        _ if text.contains("${") => Some(NO_EXPRESSION.to_owned()),
        _ => None,
    };
    let message = format!("`{what}` must be true or false, not {}", shown(node));
    problems.push(Diagnostic::new("value", message, node.span).hint_maybe(hint));
    None
}

/// A value for a message: its text if it is short, else its kind.
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

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_again(number in 0..1_u64 << 50, shift in 0..4_u32) {
            for (unit, units, thousand) in [(Unit::Bytes, SIZES, 1024_u64), (Unit::Amount, AMOUNTS, 1000)] {
                let value = (number % (1 << 12)) * thousand.pow(shift);
                for value in [value, number] {
                    proptest::prop_assert_eq!(with_unit(&unit.write(value), units), Some(value));
                }
            }
            let text = Unit::Time.write(number);
            proptest::prop_assert_eq!(durations::parse_duration(&text), Ok(Micros(number)), "{}", text);
        }
    }

    #[test]
    fn units_of_other_tools_are_rewritten_in_ours() {
        assert_eq!(in_our_units("64Mi", Unit::Bytes).as_deref(), Some("64MiB"));
        assert_eq!(in_our_units("1.5 G", Unit::Bytes).as_deref(), Some("1.5GiB"));
        assert_eq!(in_our_units("2 billion", Unit::Amount).as_deref(), Some("2G"));
        assert_eq!(in_our_units("much", Unit::Bytes), None);
        assert_eq!(in_our_units("M", Unit::Bytes), None);
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
