//! `wfhost query`: the values that the processes of a run last exposed. For a run that is not
//! running they come from its records.

use crate::cli::args::data::DataArguments;
use crate::cli::commands::acts;
use crate::cli::commands::acts::RequestOutcome;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::report::unresponsive::from_records;
use crate::cli::store::{Ownership, Runs};
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::host::control::{Answer, ControlError, Refusal, Request};
use crate::journal::Stored;
use crate::process::Payload;
use clap::Args;
use std::fmt::Write as _;
use std::sync::Arc;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost query order-4711
  wfhost query order-4711 progress | jq .done

Without NAME the names are listed; with it, its value is printed as JSON.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// The name of an exposed value.
    pub(in crate::cli) name: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

pub(in crate::cli) fn query(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let (runs, stored) = command.data.find(&command.run)?;
    let answer = match runs.ownership(&stored)? {
        Ownership::Owned(_) => {
            let name = command.name.clone();
            let request = |run: &Stored| Request::Query { run: run.id.to_string(), name: name.clone() };
            match acts::ask(&runs, stored.clone(), &request)? {
                RequestOutcome::Answered(answer) => answer,
                // Its host has ended in the meantime.
                RequestOutcome::Posted => written(&runs, &stored, command.name.as_deref())?,
                RequestOutcome::Silent(process) => {
                    let (title, hint) = from_records(process);
                    say(&terminal.warning_text(&title, Some(&hint)));
                    written(&runs, &stored, command.name.as_deref())?
                }
            }
        }
        _ => written(&runs, &stored, command.name.as_deref())?,
    };
    match answer {
        Answer::Value(Payload::Json(json)) => print_json(&json.to_value())?,
        Answer::Value(other) => print_json(&other)?,
        Answer::Names(names) if names.is_empty() => say("the run exposes nothing"),
        Answer::Names(names) => {
            let mut text = String::new();
            for name in names {
                let _ = writeln!(text, "{name}");
            }
            print(&crate::cli::terminal::printable(&text))?;
        }
        other => return Err(anyhow::anyhow!("the host gave an unexpected answer: {other:?}").into()),
    }
    Ok(Exit::Success)
}

/// The answer according to the records.
fn written(runs: &Runs, stored: &Stored, name: Option<&str>) -> Result<Answer, CommandError> {
    let projection = runs.projection(&stored.id)?;
    let names = || projection.state().exposed().map(|(name, _)| Arc::clone(name)).collect();
    let Some(name) = name else { return Ok(Answer::Names(names())) };
    match projection.state().exposed().find(|(known, _)| ***known == *name) {
        Some((_, value)) => Ok(Answer::Value(value.clone())),
        None => {
            let refusal = Refusal::NotExposed { name: name.to_owned(), names: names() };
            Err(ControlError::Refused(refusal).into())
        }
    }
}
