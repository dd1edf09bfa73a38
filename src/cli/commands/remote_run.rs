//! A run of a server that a command has started there: it is followed to its end, and reported as a
//! run of this process is. Ending the command ends nothing else.

use crate::cli::args::http::Refused;
use crate::cli::commands::target::{RemoteRuns, Target as _};
use crate::cli::exit::Exit;
use crate::cli::output_dir;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::invocation::Invocation;
use crate::cli::report::log_line::line_text;
use crate::cli::report::outcome::Report;
use crate::cli::terminal::{Terminal, print_json, say};
use crate::host::{Outcome, RunProjection, Workflow};
use crate::process::{Level, Payload};
use crate::run::Uncertain;
use http::StatusCode;
use serde_json::Value;
use std::path::Path;

/// How long one request waits for the end of a run.
const WAIT: &str = "60s";

/// How the run is shown.
pub(in crate::cli) struct RemoteRun<'a> {
    pub(in crate::cli) runs: &'a RemoteRuns,
    pub(in crate::cli) json: bool,
    pub(in crate::cli) quiet: bool,
    pub(in crate::cli) terminal: Terminal,
    pub(in crate::cli) invocation: &'a Invocation,
    /// The workflow, if its file is here.
    pub(in crate::cli) workflow: Option<&'a Workflow>,
    /// Where the outputs that are blobs are written.
    pub(in crate::cli) output_dir: Option<&'a Path>,
}

impl RemoteRun<'_> {
    /// A line about the run, unless the command is quiet.
    pub(in crate::cli) fn note(&self, line: &str) {
        if !self.json && !self.quiet {
            say(line);
        }
    }

    /// Shows its log until it ends, and reports how.
    pub(in crate::cli) fn to_the_end(&self, id: &str) -> Result<Exit, CommandError> {
        let limit = [("limit", "1".to_owned())];
        match self.runs.server.get(&["runs", id, "history"], &limit) {
            Ok(_) => {}
            Err(Refused::Problem(problem)) if problem.kind == "not-granted" => return self.by_outcome(id),
            Err(refused) => return Err(refused.into()),
        }
        let is_shown = !self.json && !self.quiet;
        let mut projection = RunProjection::default();
        self.runs.follow(id, self.terminal, &mut |record| {
            projection.apply(&record, &mut |line| {
                if is_shown && line.line.level >= Level::Info {
                    say(&line_text(&line, &|colour, text| self.terminal.paint(colour, text)));
                }
            });
            Ok(())
        })?;
        let outcome = projection.outcome(id);
        let outcome =
            outcome.ok_or_else(|| UserError::new(kind::JOURNAL, "the records do not say how the run ended"))?;
        let written = self.output_dir.map_or(Ok(()), |folder| {
            let fetch = |digest: &str, to: &mut dyn std::io::Write| self.runs.copy_blob(id, digest, to);
            output_dir::write(folder, &output_dir::outputs_of(&outcome), &fetch, &|line| self.note(&line))
        });
        let exit = self.report(&outcome, projection.given_up())?;
        Ok(written.map_or_else(|why| self.unwritten(&why, output_dir::ELSEWHERE), |()| exit))
    }

    /// Says why the outputs are not written.
    fn unwritten(&self, why: &str, hint: &str) -> Exit {
        self.terminal.error(why, Some(hint));
        Exit::Failed
    }

    fn report(&self, outcome: &Outcome, uncertain: &[Uncertain]) -> Result<Exit, CommandError> {
        let invocation = &self.invocation.for_run("retry", &outcome.run);
        let report = |workflow| Report { outcome, uncertain, workflow, invocation, slots: 0 };
        let exit = match outcome.status {
            crate::host::Status::Succeeded => Exit::Success,
            crate::host::Status::Failed => Exit::Failed,
            _ => Exit::Cancelled,
        };
        if self.json {
            print_json(&self.workflow.map_or_else(|| outcome.to_json(), |workflow| report(workflow).to_json()))?;
            return Ok(exit);
        }
        match (&outcome.result, self.workflow) {
            (Ok(Payload::Json(json)), _) => print_json(&json.to_value())?,
            (Ok(_), _) => {}
            (Err(_), Some(workflow)) => report(workflow).say(self.terminal),
            (Err(problem), None) => {
                self.terminal.error(&problem.to_string(), Some(&format!("`wfhost status {}` shows more", outcome.run)));
            }
        }
        if !uncertain.is_empty() {
            let title = format!("{} of its calls may have happened: it ended before their answers", uncertain.len());
            let hint = format!("`wfhost status {}` lists them", outcome.run);
            say(&self.terminal.warning_text(&title, Some(&hint)));
        }
        Ok(exit)
    }

    /// The same with a token that may not see the records.
    fn by_outcome(&self, id: &str) -> Result<Exit, CommandError> {
        let wait = [("wait", WAIT.to_owned())];
        let path = ["runs", id, "outcome"];
        let outcome = loop {
            let ask = crate::cli::args::http::Ask::get(&path).query(&wait);
            if let (StatusCode::OK, outcome) = self.runs.server.ask(ask)? {
                break outcome;
            }
        };
        let status = outcome["status"].as_str().unwrap_or_default();
        let exit = match status {
            "succeeded" => Exit::Success,
            "failed" => Exit::Failed,
            _ => Exit::Cancelled,
        };
        if self.json {
            print_json(&outcome)?;
        } else if exit == Exit::Success {
            self.note(&format!("{id} {status}; the token may not see its outputs"));
        } else {
            let why = outcome["problem"]["title"].as_str().map_or_else(String::new, |why| format!(": {why}"));
            self.terminal.error(&format!("{id} {status}{why}"), None);
        }
        if exit == Exit::Success && self.output_dir.is_some() {
            let hint = "a token with the scope runs:payloads gets them: wfhost blob get RUN --output-dir DIR";
            return Ok(self.unwritten("the token may not see the outputs, so none is written", hint));
        }
        Ok(exit)
    }
}

/// A key for one request, which the server answers once.
pub(in crate::cli) fn fresh_key() -> String {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("invariant: every system that is supported has a source of random bytes");
    format!("cli-{:032x}", u128::from_le_bytes(random))
}

/// The id in the answer to a start.
pub(in crate::cli) fn id_of(run: &Value) -> Result<String, CommandError> {
    let id = run["id"].as_str().map(str::to_owned);
    Ok(id.ok_or_else(|| UserError::new(kind::HOST_FAULT, "the server gave an unexpected answer: it has no id"))?)
}
