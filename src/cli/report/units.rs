//! Numbers as flags and workflow files have them.

use crate::process::Micros;
use std::time::Duration;

/// A number of bytes as workflow files have it.
pub(in crate::cli) fn size(bytes: u64) -> String {
    with_unit(bytes, &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")])
}

/// About how many bytes: `640 B`, `1.5 KiB`.
pub(in crate::cli) fn rough_size(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A number as workflow files have it.
pub(in crate::cli) fn amount(number: u64) -> String {
    with_unit(number, &[(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")])
}

/// The largest unit that divides it.
fn with_unit(number: u64, units: &[(u64, &str)]) -> String {
    match units.iter().find(|(unit, _)| number > 0 && number.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", number / unit),
        None => number.to_string(),
    }
}

/// A duration as `--timeout` and workflow files have it.
pub(in crate::cli) fn exact_duration(duration: Duration) -> String {
    let micros = Micros::from(duration).0;
    let units =
        [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms"), (1, "us")];
    with_unit(micros, &units)
}
