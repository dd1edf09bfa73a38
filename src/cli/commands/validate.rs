//! `wfhost validate`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::{NO_SLOTS, load_file};
use crate::cli::exit::Exit;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::UserError;
use crate::cli::report::warnings::plan_warnings;
use crate::cli::terminal::{Terminal, in_line, print_json, say};
use crate::host::LoadError;
use crate::process::Problem;
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::path::Path;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost validate workflows/*.yaml
  wfhost validate flow.yaml --json | jq -c '.[].problems[] | [.at.line, .message]'

--json prints a list with one object per file:
  file, valid
  steps      how many; null if the file is not valid
  count      how many problems there are; the first 100 are listed
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
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn validate(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.cache.builder(NO_SLOTS).workers(1).on_compile(say_compiling(command.json)).build()?;
    let mut files: Vec<Value> = Vec::new();
    let mut is_good = true;
    for file in &command.files {
        match load_file(&host, file) {
            Ok(workflow) => {
                let steps = workflow.plan().nodes.len();
                let warning = |(source, problem): (&str, &Problem)| {
                    format!("{}: the component `{source}` fails to describe its entries: {problem}", file.display())
                };
                let mut warnings: Vec<String> = workflow.undescribed().map(warning).collect();
                warnings
                    .extend(plan_warnings(&workflow).into_iter().map(|(message, hint)| format!("{message}; {hint}")));
                if command.json {
                    let mut entry = json!({ "file": file, "valid": true, "steps": steps, "count": 0, "problems": [] });
                    if !warnings.is_empty() {
                        entry["warnings"] = json!(warnings);
                    }
                    files.push(entry);
                } else {
                    for warning in &warnings {
                        say(&terminal.warning_text(&in_line(warning), None));
                    }
                    let plural = if steps == 1 { "" } else { "s" };
                    say(&format!("{}: {}, {steps} step{plural}", file.display(), terminal.paint("32", "valid")));
                }
            }
            Err(error) => {
                is_good = false;
                if command.json {
                    files.push(refused(file, &error));
                } else {
                    UserError::from(error).say(terminal);
                }
            }
        }
    }
    if command.json {
        print_json(&files)?;
    }
    Ok(if is_good { Exit::Success } else { Exit::Usage })
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
