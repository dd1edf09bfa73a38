//! What is wrong with workflow files, in the forms that other programs read: annotations of GitHub
//! and SARIF. The text for people and the JSON of `validate` are made of the same problems.

mod github;
mod rules;
mod sarif;

use crate::cli::report::source_map::SourceMap;
use crate::cli::terminal::{print, print_json};
use crate::host::{LoadError, Workflow};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, Excerpt};
use crate::workflow::syntax::{Position, Source, Span};
use clap::ValueEnum;
use serde_json::{Value, json};

/// How problems of files are reported.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Format {
    /// For people.
    Text,
    /// The JSON of wfhost.
    Json,
    /// Workflow commands, which GitHub shows beside the lines of a change.
    Github,
    /// SARIF 2.1.0, for code scanning and editors.
    Sarif,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A part of a file. Lines and columns count from 1, columns in characters; the end is behind the
/// last character.
struct Place {
    file: String,
    range: Option<Range>,
}

struct Range {
    start: Position,
    end: Position,
    /// The column behind the last character of the first line.
    first_line_end: usize,
}

impl Place {
    fn file(file: &str) -> Self {
        Self { file: file.to_owned(), range: None }
    }

    fn of(source: &Source, span: Span) -> Self {
        let start = source.position(span.start);
        let visible = source.slice(span).lines().next().unwrap_or_default().trim_end();
        let first_line_end = start.column + visible.chars().count();
        let range = Range { start, end: source.position(span.end), first_line_end };
        Self { file: source.name().to_owned(), range: Some(range) }
    }

    /// As in the JSON of problems.
    fn json(&self) -> Value {
        match &self.range {
            None => json!({ "file": self.file, "line": null, "column": null, "end-line": null, "end-column": null }),
            Some(Range { start, end, .. }) => json!({
                "file": self.file, "line": start.line, "column": start.column,
                "end-line": end.line, "end-column": end.column,
            }),
        }
    }
}

/// A problem or a warning.
struct Finding {
    level: Level,
    code: &'static str,
    message: String,
    hint: Option<String>,
    place: Place,
    /// Other places, each with what is there.
    related: Vec<(String, Place)>,
    /// What the place should hold instead.
    replacement: Option<String>,
}

impl Finding {
    /// The message, and the hint below it.
    fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\nhint: {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

/// What was found in a file.
pub(in crate::cli) struct Findings {
    file: String,
    found: Vec<Finding>,
    /// Problems that are only counted.
    dropped: usize,
}

impl Findings {
    /// The warnings of a workflow that is valid.
    pub(in crate::cli) fn of_workflow(workflow: &Workflow) -> Self {
        let file = workflow.source().name();
        let doubts = workflow.plan().warnings();
        let map = (!doubts.is_empty()).then(|| SourceMap::of(workflow)).flatten();
        let undescribed = workflow.undescribed().map(|(component, problem)| Finding {
            level: Level::Warning,
            code: "undescribed",
            message: format!("the component `{component}` fails to describe its entries: {problem}"),
            hint: None,
            place: Place::file(file),
            related: Vec::new(),
            replacement: None,
        });
        let mut found: Vec<Finding> = undescribed.collect();
        found.extend(doubts.into_iter().map(|doubt| Finding {
            level: Level::Warning,
            code: doubt.code,
            message: doubt.message,
            hint: Some(doubt.hint),
            place: map.as_ref().map_or_else(
                || Place::file(file),
                |map| {
                    let (source, span) = map.part(map.find(&doubt.pointer, None));
                    Place::of(source, span)
                },
            ),
            related: Vec::new(),
            replacement: None,
        }));
        Self { file: file.to_owned(), found, dropped: 0 }
    }

    /// The problems of a file that cannot be used.
    pub(in crate::cli) fn of_error(file: &str, error: &LoadError) -> Self {
        match error {
            LoadError::Definition(problems) => Self::of_problems(problems),
            other => {
                let unreadable = Finding {
                    level: Level::Error,
                    code: "unreadable",
                    message: other.to_string(),
                    hint: None,
                    place: Place::file(file),
                    related: Vec::new(),
                    replacement: None,
                };
                Self { file: file.to_owned(), found: vec![unreadable], dropped: 0 }
            }
        }
    }

    fn of_problems(problems: &Diagnostics) -> Self {
        let found: Vec<Finding> = problems.iter().map(|problem| finding(problems.source(), problem)).collect();
        let dropped = problems.count() - found.len();
        Self { file: problems.source().name().to_owned(), found, dropped }
    }

    /// The warnings as objects, as problems are in the JSON of `validate`.
    pub(in crate::cli) fn to_json(&self) -> Value {
        let one = |finding: &Finding| {
            json!({
                "code": finding.code, "message": finding.message, "hint": finding.hint, "at": finding.place.json(),
            })
        };
        self.found.iter().map(one).collect()
    }

    /// What is said of the problems that are only counted.
    fn more(&self) -> Option<String> {
        (self.dropped > 0).then(|| format!("{} has {} more problems", self.file, self.dropped))
    }
}

fn finding(source: &Source, problem: &Diagnostic) -> Finding {
    let mut related: Vec<(String, Place)> =
        problem.related.iter().map(|(span, label)| (label.clone(), Place::of(source, *span))).collect();
    if let Some(Excerpt { file, text, span, related: others }) = &problem.excerpt {
        let other = Source::new(file, text);
        related.push(("the cause".to_owned(), Place::of(&other, *span)));
        related.extend(others.iter().map(|(span, label)| (label.clone(), Place::of(&other, *span))));
    }
    Finding {
        level: Level::Error,
        code: problem.code,
        message: problem.message.clone(),
        hint: problem.hint.clone(),
        place: Place::of(source, problem.span),
        related,
        replacement: problem.replacement(source).map(str::to_owned),
    }
}

/// Prints what was found in files. Nothing but [`Format::Github`] and [`Format::Sarif`] is printed
/// here: text and JSON have more than problems.
///
/// # Errors
/// Fails if standard output cannot be written.
pub(in crate::cli) fn print_findings(format: Format, all: &[Findings]) -> std::io::Result<()> {
    match format {
        Format::Github => {
            let text = github::commands(all);
            if text.is_empty() { Ok(()) } else { print(&text) }
        }
        _ => print_json(&sarif::log(all)),
    }
}
