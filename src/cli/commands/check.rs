//! `wfhost check`: whether recorded runs do the same on a version of a service.

use crate::cli::args::server::ServerArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::table::counted;
use crate::cli::terminal::{Terminal, print, print_json, printable, say};
use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// How long one request waits for the end of the job.
const WAIT: &str = "30s";

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost check review@2
  wfhost check review@2 --state failed --limit 500
  wfhost check review@2 --run order-4711 --json

The service that --server or WFHOST_SERVER names replays the runs on the version, without effects, with the token in \
WFHOST_TOKEN: it needs `deploy` and `runs:read`, and `runs:payloads` for what the steps gave. That a run fits says \
that it did the same so far. --json prints the job.

Exit codes: 0 all fit, 1 some differ or cannot be told, 3 the check was cancelled.")]
pub(in crate::cli) struct Arguments {
    /// The version: name of the workflow and number.
    #[arg(value_name = "NAME@VERSION", value_parser = version)]
    version: NamedVersion,
    /// Only runs in this state, such as `failed` or `unfinished`.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// How many runs at most, the newest first: 1 to 1,000; 100 if it is not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: Option<u64>,
    /// This run, and others that are named so; not with --state or --limit.
    #[arg(long = "run", value_name = "RUN", conflicts_with_all = ["state", "limit"])]
    runs: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    server: ServerArguments,
}

/// A version of a workflow, as people write it.
#[derive(Clone, Debug)]
struct NamedVersion {
    name: String,
    number: u64,
}

fn version(text: &str) -> Result<NamedVersion, String> {
    let parts = text.rsplit_once('@').and_then(|(name, number)| Some((name, number.parse().ok()?)));
    match parts {
        Some((name, number)) if !name.is_empty() && number > 0 => Ok(NamedVersion { name: name.to_owned(), number }),
        _ => Err("a version is written as review@2".to_owned()),
    }
}

pub(in crate::cli) fn check(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let NamedVersion { name, number } = &command.version;
    let mut body = Map::new();
    if !command.runs.is_empty() {
        body.insert("ids".to_owned(), json!(command.runs));
    }
    if let Some(state) = &command.state {
        body.insert("filter".to_owned(), json!({ "state": state }));
    }
    if let Some(limit) = command.limit {
        body.insert("limit".to_owned(), json!(limit));
    }
    let path = ["workflows", name, "versions", &number.to_string(), "check"];
    let begun = command.server.ask(Method::POST, &path, &[], Some(&body.into()))?;
    let id = begun["id"].as_str().unwrap_or_default();
    let wait = [("wait", WAIT.to_owned())];
    let job = loop {
        let job = command.server.ask(Method::GET, &["jobs", id], &wait, None)?;
        if job["state"] != "open" {
            break job;
        }
        if !command.json {
            let done = job["report"]["outcomes"].as_array().map_or(0, Vec::len);
            say(&format!("{done} of {} replayed; the job is {id}", job["report"]["total"]));
        }
    };
    if command.json {
        print_json(&job)?;
    } else {
        print(&told(name, *number, &job, terminal))?;
    }
    let report = &job["report"];
    match job["state"].as_str() {
        Some("done") if report["counts"]["fits"].as_u64().unwrap_or(0) == report["total"].as_u64().unwrap_or(0) => {
            Ok(Exit::Success)
        }
        Some("done") => Ok(Exit::Failed),
        Some("cancelled") => Ok(Exit::Cancelled),
        _ => {
            let problem = &report["problem"];
            let why = problem["detail"].as_str().or(problem["title"].as_str()).unwrap_or("it says not why");
            Err(UserError::new(kind::HOST_FAULT, format!("the check failed: {why}")).into())
        }
    }
}

/// What the report says, for people: first what does not fit.
fn told(name: &str, number: u64, job: &Value, terminal: Terminal) -> String {
    let report = &job["report"];
    let mut text = String::new();
    let outcomes = report["outcomes"].as_array().map(Vec::as_slice).unwrap_or_default();
    for outcome in outcomes.iter().filter(|outcome| outcome["outcome"] != "fits") {
        let run = printable(outcome["run"].as_str().unwrap_or_default());
        if let Some(why) = outcome["why"].as_str() {
            let _ = writeln!(text, "{run} cannot be told: {}", printable(why));
            continue;
        }
        let place = match outcome["scope"].as_str() {
            Some(scope) => format!("`{}`", printable(scope)),
            None => format!("process {}", outcome["pid"]),
        };
        let _ = writeln!(text, "{run} differs: record {}, {place}, step {}", outcome["record"], outcome["step"]);
        for (sign, key, colour) in [("-", "expected", "31"), ("+", "did", "32")] {
            for line in outcome[key].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let _ = writeln!(text, "  {}", terminal.paint_out(colour, &format!("{sign} {}", printable(line))));
            }
        }
    }
    let count = |kind: &str| report["counts"][kind].as_u64().unwrap_or(0);
    let total = counted(report["total"].as_u64().unwrap_or(0), "run", "runs");
    let (fit, differ, unknown) = (count("fits"), count("differs"), count("unknown"));
    let more = if report["more"] == true { "; there are more runs" } else { "" };
    let _ = writeln!(text, "{name}@{number}, {total}: {fit} fit, {differ} differ, {unknown} cannot be told{more}");
    text
}
