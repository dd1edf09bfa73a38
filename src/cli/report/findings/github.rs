//! Workflow commands: lines that GitHub shows as annotations beside the lines of a change.

use super::{Finding, Findings, Place};
use std::fmt::Write as _;

/// A line for each finding.
pub(super) fn commands(all: &[Findings]) -> String {
    let mut text = String::new();
    for findings in all {
        for finding in &findings.found {
            text.push_str(&command(finding));
        }
        if let Some(more) = findings.more() {
            let _ = writeln!(text, "::error file={}::{}", property(&findings.file), data(&more));
        }
    }
    text
}

fn command(finding: &Finding) -> String {
    let mut text = format!("::{} file={}", finding.level.name(), property(&finding.place.file));
    if let Some(range) = &finding.place.range {
        // Columns are dropped if the lines differ: what is marked is the first line, as on a
        // terminal.
        let (line, column) = (range.start.line, range.start.column);
        let _ = write!(text, ",line={line},col={column},endLine={line},endColumn={}", range.first_line_end.max(column));
    }
    let mut message = finding.text();
    for (label, Place { file, range }) in &finding.related {
        let at = range.as_ref().map_or(String::new(), |range| format!(":{}:{}", range.start.line, range.start.column));
        let _ = write!(message, "\n{file}{at}: {label}");
    }
    let _ = writeln!(text, ",title={}::{}", property(finding.code), data(&message));
    text
}

/// The text of a command, in which a line end would end the command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, which a comma or a colon would end, too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::{data, property};

    #[test]
    fn nothing_in_a_text_ends_its_command() {
        assert_eq!(data("50 %\r\n::error::x"), "50 %25%0D%0A::error::x");
        assert_eq!(property("C:\\a,b%\n"), "C%3A\\a%2Cb%25%0A");
    }
}
