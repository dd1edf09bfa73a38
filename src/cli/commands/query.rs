//! `wfhost query`: the values that the processes of a run last exposed. For a run that is not
//! running they come from its records.

use crate::cli::args::target::TargetArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::host::control::Answer;
use crate::process::Payload;
use clap::Args;
use std::fmt::Write as _;

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
    pub(in crate::cli) target: TargetArguments,
}

pub(in crate::cli) fn query(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let answer = command.target.open()?.query(&command.run, command.name.as_deref(), terminal)?;
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
