//! Results of cases as XML in the form of JUnit: a `testsuite` a file, a `testcase` a case. A file
//! with problems has one `testcase`, with an `error`.

use crate::cli::report::error::UserError;
use crate::testing::{CaseResult, SuiteResult};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// All results as one document.
pub(super) fn xml(results: &[SuiteResult], refused: &[(PathBuf, UserError)]) -> String {
    let (passed, failed) = super::report::counts(results);
    let time: Duration = results.iter().flat_map(|result| &result.cases).map(|case| case.took).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites name=\"wfhost\" tests=\"{}\" failures=\"{failed}\" errors=\"{}\" time=\"{}\">",
        passed + failed + refused.len(),
        refused.len(),
        seconds(time)
    );
    for result in results {
        suite(&mut out, result);
    }
    for (file, error) in refused {
        unread(&mut out, file, error);
    }
    out.push_str("</testsuites>\n");
    out
}

fn suite(out: &mut String, result: &SuiteResult) {
    let time: Duration = result.cases.iter().map(|case| case.took).sum();
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\" time=\"{}\" file=\"{}\">",
        escaped(&result.file),
        result.cases.len(),
        result.failed(),
        seconds(time),
        escaped(&result.file)
    );
    let workflow = result.workflow.to_string_lossy();
    let _ = writeln!(
        out,
        "    <properties>\n      <property name=\"workflow\" value=\"{}\"/>\n    </properties>",
        escaped(&workflow)
    );
    result.cases.iter().for_each(|case| testcase(out, result, case));
    out.push_str("  </testsuite>\n");
}

/// A file that could not be executed.
fn unread(out: &mut String, file: &Path, error: &UserError) {
    let name = escaped(&file.to_string_lossy());
    let _ = writeln!(
        out,
        "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" time=\"0\" file=\"{name}\">\n    \
         <testcase name=\"{name}\" classname=\"{name}\" time=\"0\" file=\"{name}\">\n      \
         <error message=\"{}\" type=\"{}\">{}</error>\n    </testcase>\n  </testsuite>",
        escaped(&error.title),
        error.kind(),
        escaped(&error.text())
    );
}

fn testcase(out: &mut String, result: &SuiteResult, case: &CaseResult) {
    let _ = writeln!(
        out,
        "    <testcase name=\"{}\" classname=\"{}\" time=\"{}\" file=\"{}\" line=\"{}\">",
        escaped(&case.name),
        escaped(&result.file),
        seconds(case.took),
        escaped(&result.file),
        case.at.0
    );
    if let Some(first) = case.failures.iter().next() {
        let faults = if case.faults.is_empty() { String::new() } else { format!(" (with {})", case.faults) };
        let all = case.failures.render_each(false) + &super::report::how_to_repeat(result, case);
        let _ = writeln!(
            out,
            "      <failure message=\"{}{}\" type=\"{}\">{}</failure>",
            escaped(&first.message),
            escaped(&faults),
            first.code,
            escaped(all.trim_end())
        );
    }
    let (takes, records) = (escaped(&case.takes_in_words()), case.records);
    let _ = writeln!(out, "      <system-out>virtual time: {takes}, records: {records}</system-out>\n    </testcase>");
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// A text in XML. What XML cannot have at all is replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_xml_cannot_have_is_replaced() {
        assert_eq!(escaped("a<b>&\"c\"\u{1b}[31m\u{0}"), "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}[31m\u{fffd}");
        assert_eq!(escaped("one\ntwo"), "one&#10;two");
    }
}
