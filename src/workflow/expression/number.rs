//! Numbers in the notation in which jq writes those that it did not compute: all digits, in
//! decNumber's scientific notation (General Decimal Arithmetic Specification 1.70,
//! *to-scientific-string*), but with a lower-case `e`, as in all numbers that this host reads.

use serde_json::Number;

/// Larger exponents are left to jq, which replaces numbers out of its range. Well within
/// decNumber's 999,999,999.
const EXPONENT_MAX: i64 = 100_000_000;

/// A number in jq's notation, for a text that is a number in JSON or jq. `None` if only jq knows
/// it.
pub(super) fn canonical(text: &str) -> Option<Number> {
    if text.len() < 18 && is_plain_integer(text) {
        return text.parse().ok();
    }
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || digits.len() > 1_000_000 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent.checked_sub_unsigned(fraction.len() as u64).filter(|e| e.abs() <= EXPONENT_MAX)?;
    let digits = match digits.trim_start_matches('0') {
        "" => "0",
        significant => significant,
    };
    format!("{sign}{}", notation(digits, exponent)).parse().ok()
}

fn is_plain_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.is_empty() && !digits.starts_with('0'))
}

/// The coefficient `digits` times ten to the `exponent`.
fn notation(digits: &str, exponent: i64) -> String {
    let adjusted = exponent.saturating_add_unsigned(digits.len() as u64) - 1;
    if exponent > 0 || adjusted < -6 {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if adjusted < 0 { '-' } else { '+' };
        return format!("{first}{point}{rest}e{sign}{}", adjusted.abs());
    }
    if exponent == 0 {
        return digits.to_owned();
    }
    let fraction = exponent.unsigned_abs() as usize;
    match digits.len().checked_sub(fraction) {
        Some(whole) if whole > 0 => format!("{}.{}", &digits[..whole], &digits[whole..]),
        _ => format!("0.{}{digits}", "0".repeat(fraction - digits.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn jq_writes_numbers_like_decnumber() {
        let cases = [
            ("0", "0"),
            ("-0", "-0"),
            ("1.000", "1.000"),
            ("1e2", "1e+2"),
            ("1E+2", "1e+2"),
            ("0e10", "0e+10"),
            ("0.00", "0.00"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("1.5e300", "1.5e+300"),
            ("12345678901234567890.10", "12345678901234567890.10"),
            ("1e-5", "0.00001"),
            ("0e-7", "0e-7"),
            ("100000000000000000000000000", "100000000000000000000000000"),
            (".5", "0.5"),
            ("5.", "5"),
            ("007", "7"),
            ("1e1000", "1e+1000"),
            ("-12.50e1", "-125.0"),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).map(|n| n.to_string()).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(canonical("1e999999999"), None);
        assert_eq!(canonical("1e99999999999999999999"), None);
    }
}
