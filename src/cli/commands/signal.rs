//! `wfhost signal`.

use crate::cli::args::act::ActArguments;
use crate::cli::args::values;
use crate::cli::commands::acts::perform;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::terminal::{Terminal, say};
use crate::host::control::Request;
use crate::process::Payload;
use clap::Args;
use serde_json::Value;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost signal order-4711 approve
  wfhost signal order-4711 approve '{\"by\": \"Ann\"}' --id approval-1
  wfhost signal order-4711 document @document.json

A signal is stored until the run claims it, whether or not the run is executing now. \
It is durable when the command ends. If nothing waits for it now and no step of the workflow ever does, the \
command warns: the name \
may be misspelled.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// The signal's name.
    pub(in crate::cli) name: String,
    /// The value that it carries: JSON, or @ and a file of JSON [default: null].
    #[arg(value_parser = values::json)]
    pub(in crate::cli) body: Option<serde_json::Value>,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

pub(in crate::cli) fn signal(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let Arguments { run, name, body, act } = command;
    let id = act.id();
    let body = Payload::json(body.as_ref().unwrap_or(&Value::Null));
    let request = |run: &str| Request::Signal {
        run: run.to_owned(),
        name: name.clone(),
        body: body.clone(),
        id: Some(id.clone()),
    };
    let exit = perform(act, run, &request, |id| format!("{id} has received the signal"))?;
    if let Some(waited) = act.target.open()?.unclaimed(run, name)? {
        let waits = match &waited[..] {
            [] => "the run waits for no signal".to_owned(),
            names => format!("the run waits for: {}", names.join(", ")),
        };
        let title = format!("nothing waits for {name} now; {waits}");
        say(&terminal.warning_text(&title, Some("the signal is stored until something does")));
    }
    Ok(exit)
}
