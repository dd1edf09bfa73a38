//! Durations: `500ms`, `30s`, `1h30m`, ISO 8601; and points in time, RFC 3339.

use crate::process::{Micros, NUMBER_MAX, Timestamp};
use serde_json::{Value, json};

/// Why a text is not a duration, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DurationError {
    /// What is wrong.
    pub(crate) why: String,
    /// What to write instead.
    pub(crate) hint: String,
}

/// Reads `500ms`, `30s`, `5m`, `24h`, `1h30m` or an ISO 8601 duration.
///
/// # Errors
/// Says why the text is not a duration.
pub fn parse_duration(text: &str) -> Result<Micros, String> {
    read(text).map_err(|no| no.why)
}

/// How a point in time is written.
pub(crate) const TIME_FORM: &str = "write the date, the time and the zone's offset: 2027-01-31T09:00:00+01:00";

/// Reads a point in time, as RFC 3339 writes it.
///
/// # Errors
/// Says why the text is not one.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let no_time = || format!("`{}` is not a time with an offset", short(text));
    let time: jiff::Timestamp = text.trim().parse().map_err(|_| no_time())?;
    // Runs have no times before 1970.
    Ok(Timestamp(u64::try_from(time.as_microsecond()).unwrap_or(0)))
}

/// Like [`parse_duration`], with the hint apart from the reason.
pub(crate) fn read(text: &str) -> Result<Micros, DurationError> {
    let text = text.trim();
    let read = if text.trim_start_matches('-').starts_with(['P', 'p']) { iso(text) } else { units(text) };
    let micros = read.ok_or_else(|| no_duration(text))?;
    let refuse = |why: &str| DurationError { why: format!("`{}` {why}", short(text)), hint: FORMS.to_owned() };
    match micros {
        Length::Micros(micros) if micros < NUMBER_MAX as f64 => Ok(Micros(micros.round() as u64)),
        Length::Micros(_) => Err(refuse("is longer than 285 years")),
        Length::NotFixed => Err(refuse("has months or years, whose length is not fixed")),
        Length::Negative => Err(refuse("is negative")),
    }
}

/// The hint that lists the forms of a duration.
pub(crate) const FORMS: &str = "write 500ms, 30s, 5m, 24h, or ISO 8601: PT5M";

/// What a text in the form of a duration means.
enum Length {
    Micros(f64),
    NotFixed,
    Negative,
}

/// Reads numbers that each have a unit.
fn units(text: &str) -> Option<Length> {
    let mut rest = text;
    let mut total: f64 = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
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
                _ => return None,
            };
        rest = &rest[unit..];
    }
    (!text.is_empty()).then_some(Length::Micros(total))
}

fn iso(text: &str) -> Option<Length> {
    let span: jiff::Span = text.parse().ok()?;
    Some(match span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()) {
        Err(_) => Length::NotFixed,
        Ok(duration) if duration.is_negative() => Length::Negative,
        Ok(duration) => Length::Micros(duration.as_secs_f64() * 1e6),
    })
}

fn short(text: &str) -> String {
    super::shorten(text)
}

fn no_duration(text: &str) -> DurationError {
    if text.parse::<f64>().is_ok_and(|number| number >= 0.0) && text.len() <= 20 {
        let hint = format!("give the unit: {text}s, {text}m");
        return DurationError { why: format!("`{text}` is not a duration"), hint };
    }
    let hint = match in_our_units(text) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if text.contains("${") => NO_EXPRESSION.to_owned(),
        None => FORMS.to_owned(),
    };
    DurationError { why: format!("`{}` is not a duration", short(text)), hint }
}

/// Writes a duration as in a workflow file: `1h30m`, `500ms`.
#[must_use]
pub fn write_duration(duration: Micros) -> String {
    let mut rest = duration.0;
    let mut text = String::new();
    for (name, micros) in
        [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)]
    {
        if rest >= micros {
            text.push_str(&format!("{}{name}", rest / micros));
            rest %= micros;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Milliseconds as JSON: an integer if the duration is a whole number of them.
#[must_use]
pub fn millis(duration: Micros) -> Value {
    if duration.0.is_multiple_of(1_000) { json!(duration.0 / 1_000) } else { json!(duration.0 as f64 / 1e3) }
}

/// The hint for an expression in a field that is taken literally.
pub(crate) const NO_EXPRESSION: &str =
    "expressions are evaluated only in `with`, `set`, `wait`, `if`, `for-each` and `outputs`";

/// Rewrites `5 minutes` and `1 hour, 30 sec` with this room's units.
fn in_our_units(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    let mut meant = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty() && *word != "and");
    for word in words.take(8) {
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        meant.push_str(&word[..digits]);
        meant.push_str(match &word[digits..] {
            "" => "",
            "us" | "micros" | "microsecond" | "microseconds" => "us",
            "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => "ms",
            "s" | "sec" | "secs" | "second" | "seconds" => "s",
            "m" | "min" | "mins" | "minute" | "minutes" => "m",
            "h" | "hr" | "hrs" | "hour" | "hours" => "h",
            "d" | "day" | "days" => "d",
            _ => return None,
        });
    }
    units(&meant).map(|_| meant)
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
        for bad in ["", "5", "s", "5 parsecs", "1..5s", "-1s", "P1M", "-PT5M", "99999999d", "1e3s", "5s5", "-5"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_as_we_write_them() {
        let text = |micros| write_duration(Micros(micros));
        assert_eq!([text(0), text(5_400_000_000), text(1_500_000), text(1)], ["0s", "1h30m", "1s500ms", "1us"]);
        assert_eq!([millis(Micros(1_500_000)), millis(Micros(500))], [json!(1500), json!(0.5)]);
    }

    #[test]
    fn a_hint_says_what_was_meant() {
        let hint = |text| read(text).unwrap_err().hint;
        assert_eq!(hint("5"), "give the unit: 5s, 5m");
        assert_eq!(hint("5 minutes"), "did you mean `5m`?");
        assert_eq!(hint("1 Hour, 30 sec"), "did you mean `1h30s`?");
        assert_eq!(hint("10secs"), "did you mean `10s`?");
        assert_eq!(hint("soon"), FORMS);
        assert_eq!(hint("${ .inputs.t }"), NO_EXPRESSION);
        assert_eq!(parse_duration("-PT5M").unwrap_err(), "`-PT5M` is negative");
    }
}
