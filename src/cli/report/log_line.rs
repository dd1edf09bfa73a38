//! A line of a run's log, as text.

use crate::cli::report::reasons;
use crate::cli::table::clock;
use crate::cli::terminal::printable;
use crate::host::Line;
use crate::process::Level;
use crate::workflow::interpreter::progress::Progress;

/// The line, with its time, level and step. `paint` colours a text.
pub(in crate::cli) fn line_text(line: &Line, paint: &dyn Fn(&str, &str) -> String) -> String {
    let fields = match (&line.line.fields, line.progress()) {
        (Some(fields), None) => format!(" {}", fields.as_str()),
        _ => String::new(),
    };
    let mut text = format!("{}{fields}", line.line.text);
    for detail in details(line) {
        text.push('\n');
        text.push_str(&detail);
    }
    let text = printable(&text).replace('\n', "\n    ");
    let (level, colour) = match line.line.level {
        Level::Trace => ("trace", "2"),
        Level::Debug => ("debug", "2"),
        Level::Info => ("info", "34"),
        Level::Warn => ("warn", "33"),
        Level::Error => ("error", "31"),
    };
    let level = paint(colour, &format!("{level:<5}"));
    let process = if line.process.is_empty() { String::new() } else { format!("{}: ", printable(&line.process)) };
    format!("{} {level} {process}{text}", clock(line.at))
}

/// The detail of a failure that a line reports, beyond its text.
fn details(line: &Line) -> Vec<String> {
    match line.progress() {
        Some(Progress::Node(node)) => reasons::details(&node.error),
        Some(Progress::Item(failure)) => failure.detail.into_iter().collect(),
        _ => Vec::new(),
    }
}
