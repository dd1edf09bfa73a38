//! Tables, durations and times as users read them.

use crate::cli::terminal::{fit, printable};
use crate::process::Timestamp;
use std::time::Duration;

/// Columns of a cell. Arbitrary: a longer name is cut.
const CELL_COLUMNS_MAX: usize = 48;

/// Rows of texts, each column as wide as its widest cell.
pub(in crate::cli) struct Table {
    rows: Vec<Vec<String>>,
    /// The last column, if its width is unlimited.
    open: Option<usize>,
}

impl Table {
    pub(in crate::cli) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()], open: None }
    }

    /// The same, with a last column of unlimited width.
    pub(in crate::cli) fn open(mut self) -> Self {
        self.open = self.rows[0].len().checked_sub(1);
        self
    }

    pub(in crate::cli) fn row(&mut self, cells: Vec<String>) {
        let cell = |(column, cell): (usize, &String)| {
            let cell = cell.replace('\n', " ");
            let most = if self.open == Some(column) { usize::MAX } else { CELL_COLUMNS_MAX };
            fit(&printable(&cell), most)
        };
        let row = cells.iter().enumerate().map(cell).collect();
        self.rows.push(row);
    }

    /// Removes the columns that have only a head.
    pub(in crate::cli) fn without_empty_columns(mut self) -> Self {
        let columns = self.rows[0].len();
        for column in (0..columns).rev() {
            if self.rows[1..].iter().all(|row| row.get(column).is_none_or(String::is_empty)) {
                self.rows.iter_mut().filter(|row| column < row.len()).for_each(|row| drop(row.remove(column)));
            }
        }
        self
    }

    /// The whole table, without trailing blanks.
    pub(in crate::cli) fn text(&self) -> String {
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

/// `1 step`, `2 steps`.
pub(in crate::cli) fn counted(count: impl Into<u64>, one: &str, many: &str) -> String {
    let count = count.into();
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A moment in RFC 3339, in UTC.
pub(in crate::cli) fn rfc3339(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0.cast_signed()).unwrap_or_default();
    format!("{at:.3}")
}

/// A moment to the second, in UTC.
pub(in crate::cli) fn moment(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0.cast_signed()).unwrap_or_default();
    format!("{at:.0}").replace('T', " ")
}

/// The time of a day to the millisecond, in UTC.
pub(in crate::cli) fn clock(at: Timestamp) -> String {
    rfc3339(at).split('T').nth(1).unwrap_or_default().trim_end_matches('Z').to_owned()
}

/// How long something took.
pub(in crate::cli) fn took(from: Timestamp, to: Timestamp) -> String {
    duration(Duration::from(to.since(from)))
}

pub(in crate::cli) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds, duration.as_millis()) {
        (0, 0) => "under 1 ms".to_owned(),
        (0, millis) => format!("{millis} ms"),
        (1..60, _) => tenths(duration),
        (60..3_600, _) => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
    }
}

pub(in crate::cli) fn tenths(duration: Duration) -> String {
    format!("{}.{} s", duration.as_secs(), duration.subsec_millis() / 100)
}

/// A duration that is redrawn: its digits change with each tick, its width rarely.
pub(super) fn seconds(elapsed: Duration) -> String {
    if elapsed.as_secs() < 60 { tenths(elapsed) } else { duration(elapsed) }
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
    fn a_column_without_anything_in_it_is_left_out_and_the_last_one_may_have_no_edge() {
        let mut table = Table::new(&["A", "B", "C"]).open();
        table.row(vec!["x".repeat(60), String::new(), "y".repeat(60)]);
        let cut = format!("{}…", "x".repeat(47));
        let expected = format!("A{}  C\n{cut}  {}\n", " ".repeat(47), "y".repeat(60));
        assert_eq!(table.without_empty_columns().text(), expected);
    }

    #[test]
    fn moments_are_in_utc() {
        let at = Timestamp(1_700_000_000_123_456);
        assert_eq!(rfc3339(at), "2023-11-14T22:13:20.123Z");
        assert_eq!(moment(at), "2023-11-14 22:13:20Z");
        assert_eq!(clock(at), "22:13:20.123");
        assert_eq!(took(Timestamp(0), Timestamp(1_500_000)), "1.5 s");
    }
}
