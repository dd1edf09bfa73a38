//! `wfhost signal`.

use crate::cli::args::act::ActArguments;
use crate::cli::args::data::DataArguments;
use crate::cli::args::values;
use crate::cli::commands::acts::perform;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::store::{Ownership, live_status};
use crate::cli::terminal::{Terminal, say};
use crate::host::RunManifest;
use crate::host::control::Request;
use crate::journal::Stored;
use crate::process::Payload;
use crate::run::SignalStatus;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::model;
use crate::workflow::syntax::{self, Source};
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
    let request = |run: &Stored| Request::Signal {
        run: run.id.to_string(),
        name: name.clone(),
        body: body.clone(),
        id: Some(id.clone()),
    };
    let exit = perform(&act.data, run, &request, |id| format!("{id} has received the signal"))?;
    if let Some(waited) = unclaimed(&act.data, run, name)? {
        let waits = match &waited[..] {
            [] => "the run waits for no signal".to_owned(),
            names => format!("the run waits for: {}", names.join(", ")),
        };
        let title = format!("nothing waits for {name} now; {waits}");
        say(&terminal.warning_text(&title, Some("the signal is stored until something does")));
    }
    Ok(exit)
}

/// The signals that an unfinished run waits for, if the one of this name is unclaimed and no step
/// of the workflow would claim it.
fn unclaimed(data: &DataArguments, given: &str, name: &str) -> Result<Option<Vec<String>>, CommandError> {
    let (runs, stored) = data.find(given)?;
    if may_wait_for(&runs.manifest(&stored.id)?, name) {
        return Ok(None);
    }
    let waited = |signals: &[SignalStatus]| {
        signals.iter().filter(|one| one.waiting > 0).map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    let ownership = runs.ownership(&stored)?;
    Ok(match live_status(&runs, &stored, &ownership)?.status() {
        Some(live) => {
            let is_kept = live.signals.iter().any(|one| *one.name == *name && one.kept > 0);
            is_kept.then(|| waited(&live.signals))
        }
        None if ownership == Ownership::Orphaned => {
            let projection = runs.projection(&stored.id)?;
            let state = projection.state();
            (!state.takes_signal(name)).then(|| waited(&state.signals()))
        }
        // It has ended, or its host does not answer.
        None => None,
    })
}

/// Returns whether a step of a run's workflow waits for a signal of this name, or of a name that
/// only the run itself knows.
fn may_wait_for(about: &RunManifest, name: &str) -> bool {
    let source = Source::new(&about.file, &about.source);
    let mut problems = Diagnostics::new(source.clone());
    let Some(root) = syntax::parse(&source, &mut problems) else { return true };
    let workflow = model::read(&root, &mut problems);
    let mut names = workflow.steps.iter().filter_map(|step| match &step.action {
        model::Action::Signal { name, .. } => Some(name.as_text()),
        _ => None,
    });
    names.any(|waited| waited.is_none_or(|waited| waited == name || waited.contains("${")))
}
