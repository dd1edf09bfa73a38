//! `wfhost test`.

mod found;
mod junit;
mod report;

use crate::cli::args::host::CacheArguments;
use crate::cli::args::values;
use crate::cli::exit::Exit;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{Terminal, print, print_json};
use crate::testing::Faults;
use crate::testing::suite::{Options, Suite, SuiteError};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Slots of a host whose cases may have as many guests in memory at once.
const SLOTS: u32 = 64;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost test
  wfhost test workflows/orders.yaml
  wfhost test orders.yaml --case 'approved in time' --trace
  wfhost test --seeds 100
  wfhost test orders.yaml --case 'approved in time' --faults crash@17 --trace
  wfhost test --json | jq '.files[].cases[] | select(.status == \"failed\").name'
  wfhost test --junit report.xml

A case file is named as its workflow: orders.test.yaml beside orders.yaml. Guests are real; time is virtual, and calls \
are answered as the case says: nothing leaves the machine. docs/testing.md describes the files.

--json prints one object:
  passed, failed   how many cases
  files            file, workflow, passed, failed, and cases: name, status, at,
                   failures, faults, missed (faults that hit nothing, and why),
                   takes-ms (virtual), real-ms, records, digest

Exit codes: 0 all cases passed, 1 one has failed, 2 a file has problems.")]
pub(in crate::cli) struct Arguments {
    /// Case files, workflow files with a case file beside them, or folders that are searched
    /// [default: the current folder].
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Only cases whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Only the case of this name.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// List the cases, and execute none.
    #[arg(long)]
    list: bool,
    /// Show what happens in each case: steps, calls and lines, with their virtual times.
    #[arg(long)]
    trace: bool,
    /// Execute each case N more times, with faults that a seed draws: hosts that die and recover
    /// the run, answers that are late, lost or fail, signals that come twice, clocks that jump,
    /// guests that are evicted. What a case does not survive is shrunk to the fewest faults.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    seeds: u64,
    /// The seed of these draws [default: 1].
    #[arg(long, value_name = "S", default_value_t = 1, hide_default_value = true)]
    seed: u64,
    /// Execute the cases with these faults: `crash@17,late:http#2+30s`.
    #[arg(long, value_name = "LIST", value_parser = faults)]
    faults: Option<Faults>,
    /// How many cases are executed at one time [default: one per processor].
    #[arg(long, value_name = "N", value_parser = values::workers)]
    jobs: Option<usize>,
    /// Also write the results to this file, as XML in the form of JUnit.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,
    /// Also say which steps no case has reached.
    #[arg(long)]
    coverage: bool,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

fn faults(text: &str) -> Result<Faults, String> {
    text.parse().map_err(|why: String| format!("{why}; {}", crate::testing::faults::FORMS))
}

pub(in crate::cli) fn test(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let files = found::case_files(&command.files)?;
    let host = command.cache.builder(SLOTS).workers(1).on_compile(say_compiling(command.json)).build();
    let host = host.map_err(UserError::from)?;
    let mut suites = Vec::new();
    let mut refused: Vec<(PathBuf, UserError)> = Vec::new();
    for file in files {
        match Suite::load(&host, &file) {
            Ok(suite) => suites.push(suite),
            Err(error) => refused.push((file, error_of(error))),
        }
    }
    if !command.json {
        for (_, error) in &refused {
            error.say(terminal);
        }
    }
    let mut options = Options { filter: command.filter.clone(), case: command.case.clone(), ..Options::default() };
    (options.seeds, options.seed) = (command.seeds, command.seed);
    options.faults = command.faults.clone().unwrap_or_default();
    options.jobs = command.jobs.unwrap_or(options.jobs);
    if refused.is_empty() && suites.iter().all(|suite| suite.selected(&options).is_empty()) {
        let named = command.case.as_ref().map(|name| found::no_case(name, &suites));
        let filtered = || command.filter.as_ref().map(|text| found::no_match(text));
        if let Some(error) = named.or_else(filtered) {
            return Err(error.into());
        }
    }
    if command.list {
        list(command.json, &suites, &options)?;
        return Ok(if refused.is_empty() { Exit::Success } else { Exit::Usage });
    }
    let mut results = Vec::new();
    for suite in suites.iter().filter(|suite| !suite.selected(&options).is_empty()) {
        let result = suite.run(&options);
        if !command.json {
            print(&report::text(command, suite, &result, terminal))?;
        }
        results.push(result);
    }
    let (passed, failed) = report::counts(&results);
    if let Some(path) = &command.junit {
        std::fs::write(path, junit::xml(&results, &refused)).map_err(|error| {
            UserError::new(kind::UNREADABLE, format!("{} cannot be written: {error}", path.display()))
        })?;
    }
    if command.json {
        let files: Vec<Value> = results.iter().map(crate::testing::SuiteResult::to_json).collect();
        let refused: Vec<Value> = refused.iter().map(|(file, error)| report::refused(file, error)).collect();
        print_json(&json!({ "passed": passed, "failed": failed, "files": files, "refused": refused }))?;
    } else {
        print(&report::summary(passed, failed, refused.len(), terminal))?;
    }
    Ok(match (refused.is_empty(), failed) {
        (false, _) => Exit::Usage,
        (true, 0) => Exit::Success,
        (true, _) => Exit::Failed,
    })
}

fn error_of(error: SuiteError) -> UserError {
    match error {
        SuiteError::Load(error) => error.into(),
        SuiteError::Cases(problems) => UserError::of_definition(problems),
        error @ SuiteError::NoWorkflow { .. } => UserError::new(kind::UNREADABLE, error.to_string())
            .hint("`workflow: ./other.yaml` at its top names another file"),
    }
}

fn list(is_json: bool, suites: &[Suite], options: &Options) -> std::io::Result<()> {
    let mut all = Vec::new();
    for suite in suites {
        for case in suite.selected(options) {
            let line = suite.source().position(case.name.span.start).line;
            all.push((suite.source().name(), line, case.name.value.as_str()));
        }
    }
    if is_json {
        let list = all.iter().map(|(file, line, name)| json!({ "file": file, "line": line, "name": name }));
        return print_json(&list.collect::<Vec<_>>());
    }
    for (file, line, name) in all {
        print(&format!("{file}:{line}: {}\n", crate::cli::terminal::in_line(name)))?;
    }
    Ok(())
}
