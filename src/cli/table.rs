//! Tables, durations and moments as people read them.

use super::terminal::printable;
use crate::process::Micros;
use std::time::Duration;

/// Columns of a cell. Arbitrary: a name that is longer is cut.
const CELL_COLUMNS_MAX: usize = 48;

/// Rows of texts, each column as wide as its widest cell.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(
            cells.iter().map(|cell| super::live::fit(&printable(&cell.replace('\n', " ")), CELL_COLUMNS_MAX)).collect(),
        );
    }

    /// All of it; what is empty at the end of a line is left out.
    pub(super) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// A moment in RFC 3339, in UTC.
pub(super) fn rfc3339(at: Micros) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0.cast_signed()).unwrap_or_default();
    format!("{at:.3}")
}

/// A moment to the second, in UTC.
pub(super) fn moment(at: Micros) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0.cast_signed()).unwrap_or_default();
    format!("{at:.0}").replace('T', " ")
}

/// The time of a day to the millisecond, in UTC.
pub(super) fn clock(at: Micros) -> String {
    rfc3339(at).split('T').nth(1).unwrap_or_default().trim_end_matches('Z').to_owned()
}

/// How long something took.
pub(super) fn took(from: Micros, to: Micros) -> String {
    super::progress::duration(Duration::from(Micros(to.0.saturating_sub(from.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&["A", "LONG", "C"]);
        table.row(vec!["xyz".into(), "1".into(), String::new()]);
        table.row(vec!["\x1b[2J".into(), "two\nlines".into(), "c".into()]);
        assert_eq!(table.text(), "A          LONG       C\nxyz        1\n\\u{1b}[2J  two lines  c\n");
    }

    #[test]
    fn moments_are_in_utc() {
        let at = Micros(1_700_000_000_123_456);
        assert_eq!(rfc3339(at), "2023-11-14T22:13:20.123Z");
        assert_eq!(moment(at), "2023-11-14 22:13:20Z");
        assert_eq!(clock(at), "22:13:20.123");
        assert_eq!(took(Micros(0), Micros(1_500_000)), "1.5 s");
    }
}
