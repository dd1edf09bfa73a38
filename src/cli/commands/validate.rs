//! `wfhost validate`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::{NO_SLOTS, load_file};
use crate::cli::commands::lock::LockArguments;
use crate::cli::exit::Exit;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::UserError;
use crate::cli::report::findings::{Findings, Format, print_findings};
use crate::cli::report::warnings::plan_warnings;
use crate::cli::terminal::{Terminal, in_line, print_json, say};
use crate::host::{Host, LoadError, Workflow};
use crate::process::Problem;
use crate::testing::suite::{Suite, SuiteError, is_case_file};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::path::Path;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost validate workflows/*.yaml
  wfhost validate flow.yaml --json | jq -c '.[].problems[] | [.at.line, .message]'
  wfhost validate workflows/*.yaml --format github
  wfhost validate workflows/*.yaml --format sarif > workflows.sarif

--format says how problems and warnings are reported:
  text       for people, on standard error
  json       as --json, but warnings are objects as problems are
  github     workflow commands: GitHub shows them beside the lines of a change
  sarif      SARIF 2.1.0: code scanning and editors show it

--json prints a list with one object per file:
  file, valid
  steps      how many; null if the file is not valid
  count      how many problems there are; the first 100 are listed
  warnings   sentences, if there are any
  problems   code (a stable word), message, hint (or null), at (file, line,
             column, end-line, end-column, from 1; null if the file cannot be
             read), related (other positions of the same problem, if any: label,
             at)

Exit codes: 0 all files are valid, 2 they are not.")]
pub(in crate::cli) struct Arguments {
    /// Workflow files; `-` is standard input.
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// How problems are reported.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text, conflicts_with = "json")]
    pub(in crate::cli) format: Format,
    #[command(flatten)]
    lock: LockArguments,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn validate(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    let format = if command.json { Format::Json } else { command.format };
    let quiet = format != Format::Text;
    let builder = command.cache.builder(NO_SLOTS).workers(1).on_compile(say_compiling(quiet));
    let host = builder.locking(command.lock.locking()).build()?;
    let mut files: Vec<Value> = Vec::new();
    let mut findings = Vec::new();
    let mut is_good = true;
    for file in &command.files {
        let loaded = load(&host, file);
        is_good &= loaded.is_ok();
        match (loaded, format) {
            (Ok(workflow), Format::Text) => say_valid(file, &workflow, terminal),
            (Ok(workflow), Format::Json) => files.push(accepted(file, &workflow, command.json)),
            (Ok(workflow), Format::Github | Format::Sarif) => findings.push(Findings::of_workflow(&workflow)),
            (Err(error), Format::Text) => UserError::from(error).say(terminal),
            (Err(error), Format::Json) => files.push(refused(file, &error)),
            (Err(error), Format::Github | Format::Sarif) => {
                findings.push(Findings::of_error(&file.to_string_lossy(), &error));
            }
        }
    }
    match format {
        Format::Text => {}
        Format::Json => print_json(&files)?,
        Format::Github | Format::Sarif => print_findings(format, &findings)?,
    }
    Ok(if is_good { Exit::Success } else { Exit::Usage })
}

/// Loads a workflow file, or a file of cases with its workflow.
fn load(host: &Host, file: &Path) -> Result<Workflow, LoadError> {
    if !is_case_file(file) {
        return load_file(host, file);
    }
    match Suite::load(host, file) {
        Ok(suite) => Ok(suite.workflow().clone()),
        Err(SuiteError::Load(error)) => Err(error),
        Err(SuiteError::Cases(problems)) => Err(LoadError::Definition(problems)),
        Err(SuiteError::NoWorkflow { expected, .. }) => {
            Err(LoadError::Read { path: expected, source: std::io::ErrorKind::NotFound.into() })
        }
    }
}

/// The warnings about a valid file, a sentence each.
fn warnings(file: &Path, workflow: &Workflow) -> Vec<String> {
    let undescribed = workflow.undescribed().map(|(source, problem): (&str, &Problem)| {
        format!("{}: the component `{source}` fails to describe its entries: {problem}", file.display())
    });
    let doubts = plan_warnings(workflow).into_iter().map(|(message, hint)| format!("{message}; {hint}"));
    undescribed.chain(doubts).collect()
}

/// Says that a file is valid, to people.
fn say_valid(file: &Path, workflow: &Workflow, terminal: Terminal) {
    for warning in &warnings(file, workflow) {
        say(&terminal.warning_text(&in_line(warning), None));
    }
    let steps = workflow.plan().nodes.len();
    let plural = if steps == 1 { "" } else { "s" };
    let what = if is_case_file(file) { "tests".to_owned() } else { format!("{steps} step{plural}") };
    say(&format!("{}: {}, {what}", file.display(), terminal.paint("32", "valid")));
}

/// A file that is valid, with its warnings as sentences or as objects.
fn accepted(file: &Path, workflow: &Workflow, as_sentences: bool) -> Value {
    let steps = workflow.plan().nodes.len();
    let mut entry = json!({ "file": file, "valid": true, "steps": steps, "count": 0, "problems": [] });
    let warnings =
        if as_sentences { json!(warnings(file, workflow)) } else { Findings::of_workflow(workflow).to_json() };
    if warnings.as_array().is_some_and(|all| !all.is_empty()) {
        entry["warnings"] = warnings;
    }
    entry
}

/// A file that is not valid.
fn refused(file: &Path, error: &LoadError) -> Value {
    let (problems, count) = match error {
        LoadError::Definition(problems) => (problems.to_json()["problems"].take(), problems.count()),
        other => {
            let at = json!({ "file": file, "line": null, "column": null, "end-line": null, "end-column": null });
            let problem = json!({ "code": "unreadable", "message": other.to_string(), "hint": null, "at": at });
            (json!([problem]), 1)
        }
    };
    json!({ "file": file, "valid": false, "steps": null, "count": count, "problems": problems })
}
