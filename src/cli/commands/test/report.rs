//! Results of cases, for people.

use super::Arguments;
use crate::cli::report::error::UserError;
use crate::cli::terminal::{Terminal, in_line, printable};
use crate::testing::suite::Suite;
use crate::testing::{CaseResult, SuiteResult};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// How many cases have passed and failed.
pub(super) fn counts(results: &[SuiteResult]) -> (usize, usize) {
    (results.iter().map(SuiteResult::passed).sum(), results.iter().map(SuiteResult::failed).sum())
}

/// The results of a file.
pub(super) fn text(command: &Arguments, suite: &Suite, result: &SuiteResult, terminal: Terminal) -> String {
    let mut out = format!("{}\n", in_line(&result.file));
    for case in &result.cases {
        let word = if case.passed() { terminal.paint_out("32", "ok    ") } else { terminal.paint_out("31", "FAILED") };
        let more = match (case.passed(), case.executions, case.faults.as_str()) {
            (true, 0, "") | (false, _, "") => String::new(),
            (true, 0, faults) => format!(", with {faults}"),
            (true, count, _) => format!(", and {count} times with faults"),
            (false, _, faults) => format!(", with {faults}"),
        };
        let _ = writeln!(out, "  {word} {} ({}{more})", in_line(&case.name), case.takes_in_words());
        for (fault, why) in &case.missed {
            let _ = writeln!(out, "         {} hits nothing: {}", in_line(fault), in_line(why));
        }
        if command.trace {
            for line in &case.trace {
                let _ = writeln!(out, "         {}", in_line(line));
            }
        }
    }
    for case in result.cases.iter().filter(|case| !case.passed()) {
        let _ = write!(out, "\n{}", failure(result, case, terminal));
    }
    if command.coverage {
        out.push_str(&coverage(suite, result));
    }
    out
}

fn failure(result: &SuiteResult, case: &CaseResult, terminal: Terminal) -> String {
    let mut out = format!("{}: {}\n\n", terminal.paint_out("1", "case"), in_line(&case.name));
    out.push_str(&case.failures.render_each(terminal.colour));
    out.push_str(&how_to_repeat(result, case));
    out
}

/// The faults that show a failure, and the command that shows it again.
pub(super) fn how_to_repeat(result: &SuiteResult, case: &CaseResult) -> String {
    let mut out = String::new();
    let file = crate::cli::terminal::quoted(&result.file).into_owned();
    let name = quoted_for_shell(&case.name);
    let faults =
        if case.faults.is_empty() { String::new() } else { format!(" --faults {}", quoted_for_shell(&case.faults)) };
    if case.executions > 0 {
        let text = "it passes without faults; these are the fewest that show it";
        let _ = writeln!(out, "faults: {} ({text})", in_line(&case.faults));
    }
    let _ = writeln!(out, "look closer: wfhost test {} --case {name}{faults} --trace", printable(&file));
    out
}

/// A name as a word of a shell.
pub(super) fn quoted_for_shell(name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./@#".contains(c));
    if is_plain { name.to_owned() } else { format!("'{}'", in_line(name).replace('\'', r"'\''")) }
}

/// The steps that no case has reached.
fn coverage(suite: &Suite, result: &SuiteResult) -> String {
    let all = crate::testing::case_file::paths(suite.workflow().plan());
    let reached: BTreeSet<&String> = result.cases.iter().flat_map(|case| &case.reached).collect();
    let missed: Vec<&str> = all.iter().filter(|path| !reached.contains(path)).map(String::as_str).collect();
    let share = format!("{} of {} steps ran", all.len() - missed.len(), all.len());
    if missed.is_empty() { format!("  {share}\n") } else { format!("  {share}; never ran: {}\n", missed.join(", ")) }
}

/// The last line.
pub(super) fn summary(passed: usize, failed: usize, refused: usize, terminal: Terminal) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut parts = vec![format!("{passed} case{} passed", plural(passed))];
    if failed > 0 {
        parts.push(terminal.paint_out("31", &format!("{failed} failed")));
    }
    if refused > 0 {
        parts.push(terminal.paint_out("31", &format!("{refused} file{} with problems", plural(refused))));
    }
    format!("\n{}\n", parts.join(", "))
}

/// A file that could not be executed, as JSON.
pub(super) fn refused(file: &Path, error: &UserError) -> Value {
    let mut value = error.to_json();
    if let Some(members) = value.as_object_mut() {
        members.insert("file".to_owned(), file.to_string_lossy().into());
        members.shift_remove("status");
    }
    value
}
