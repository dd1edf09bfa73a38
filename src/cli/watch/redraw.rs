//! Lines at the bottom of a terminal that are redrawn, below permanent lines.
//!
//! Every frame is one write: it moves up to the lines of the last frame and overwrites them, so
//! nothing flickers, and stray output (such as an echoed `^C`) disappears with the next frame. The
//! cursor stays visible at the start of the line below, so the terminal is in order however the
//! process ends.

use crate::cli::terminal::fit;
use std::fmt::Write as _;

/// The assumed size of a terminal that does not report one.
const COLUMNS_DEFAULT: usize = 80;
const ROWS_DEFAULT: usize = 24;

/// The size of the terminal of standard error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Size {
    pub(in crate::cli) columns: usize,
    pub(in crate::cli) rows: usize,
}

impl Size {
    pub(in crate::cli) fn now() -> Self {
        let known = |number: u16, default| if number == 0 { default } else { usize::from(number) };
        match terminal_size::terminal_size_of(std::io::stderr()) {
            Some((columns, rows)) => {
                Self { columns: known(columns.0, COLUMNS_DEFAULT), rows: known(rows.0, ROWS_DEFAULT) }
            }
            None => Self { columns: COLUMNS_DEFAULT, rows: ROWS_DEFAULT },
        }
    }
}

/// The lines that are drawn now.
#[derive(Default)]
pub(in crate::cli) struct Redraw {
    /// The characters of each line.
    drawn: Vec<usize>,
}

impl Redraw {
    /// The text that replaces the drawn lines by these, below permanent lines. Each permanent line
    /// ends with a line end. Empty if nothing changes.
    ///
    /// A character counts as one column: only our own lines are redrawn.
    pub(in crate::cli) fn frame(&mut self, lasting: &str, lines: &[String], size: Size) -> String {
        let mut out = String::new();
        if lasting.is_empty() && lines.is_empty() && self.drawn.is_empty() {
            return out;
        }
        // The terminal may have become narrower: then the drawn lines take more rows.
        let rows: usize = self.drawn.iter().map(|&length| length.div_ceil(size.columns).max(1)).sum();
        if rows > 0 {
            let _ = write!(out, "\x1b[{rows}A\r");
        }
        for line in lasting.lines() {
            let _ = write!(out, "{line}\x1b[K\r\n");
        }
        self.drawn.clear();
        for line in lines {
            // The last column stays free: some terminals go to the next line when it is filled.
            let line = fit(line, size.columns.saturating_sub(1));
            self.drawn.push(line.chars().count());
            let _ = write!(out, "{line}\x1b[K\r\n");
        }
        if rows > 0 {
            out.push_str("\x1b[J");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Size = Size { columns: 20, rows: 10 };

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    /// The content of a terminal with this many columns after these frames.
    fn screen(frames: &[String], columns: usize) -> Vec<String> {
        let mut rows: Vec<Vec<char>> = vec![Vec::new()];
        let (mut row, mut column) = (0usize, 0usize);
        for frame in frames {
            let mut rest = frame.chars().peekable();
            while let Some(next) = rest.next() {
                match next {
                    '\r' => column = 0,
                    '\n' => row += 1,
                    '\x1b' => {
                        assert_eq!(rest.next(), Some('['));
                        let mut number = 0;
                        let command = loop {
                            match rest.next().unwrap() {
                                digit @ '0'..='9' => number = number * 10 + digit as usize - '0' as usize,
                                command => break command,
                            }
                        };
                        match command {
                            'A' => row = row.checked_sub(number).expect("it does not leave the screen"),
                            'K' => rows[row].truncate(column),
                            'J' => {
                                rows[row].truncate(column);
                                rows.truncate(row + 1);
                            }
                            other => panic!("{other}"),
                        }
                    }
                    character => {
                        if column == columns {
                            (row, column) = (row + 1, 0);
                            rows.resize_with(rows.len().max(row + 1), Vec::new);
                        }
                        let line = &mut rows[row];
                        line.resize(line.len().max(column + 1), ' ');
                        line[column] = character;
                        column += 1;
                    }
                }
                rows.resize_with(rows.len().max(row + 1), Vec::new);
            }
        }
        let rows = rows.into_iter().map(|row| row.into_iter().collect::<String>());
        let mut rows: Vec<String> = rows.collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    #[test]
    fn what_stays_is_above_what_is_redrawn() {
        let mut redraw = Redraw::default();
        let frames = [
            redraw.frame("", &lines(&["a 1", "b 1"]), WIDE),
            redraw.frame("a is done\n", &lines(&["b 2"]), WIDE),
            redraw.frame("a line that is longer than the terminal is\nx\n", &lines(&["b 3", "c 1"]), WIDE),
            redraw.frame("b is done\n", &[], WIDE),
        ];
        let expected = ["a is done", "a line that is longe", "r than the terminal ", "is", "x", "b is done"];
        assert_eq!(screen(&frames[..2], 20), ["a is done", "b 2"]);
        assert_eq!(screen(&frames, 20), expected);
    }

    #[test]
    fn lines_are_cut_at_the_edge_and_leave_nothing_behind() {
        let narrow = Size { columns: 6, rows: 5 };
        let mut redraw = Redraw::default();
        let frames = [
            redraw.frame("", &lines(&["0123456789", "xyz"]), narrow),
            redraw.frame("", &lines(&["01"]), narrow),
            redraw.frame("", &[], narrow),
        ];
        assert_eq!(screen(&frames[..1], 6), ["0123…", "xyz"]);
        assert_eq!(screen(&frames[..2], 6), ["01"]);
        assert!(screen(&frames, 6).is_empty());
        assert_eq!(redraw.frame("", &[], narrow), "");
    }

    #[test]
    fn a_terminal_that_became_narrower_is_cleared_as_a_whole() {
        let mut redraw = Redraw::default();
        let first = redraw.frame("", &lines(&["0123456789", "xyz"]), WIDE);
        assert!(first.starts_with("0123456789"));
        // One row has become two.
        assert!(redraw.frame("", &[], Size { columns: 5, rows: 5 }).starts_with("\x1b[3A\r"));
    }
}
