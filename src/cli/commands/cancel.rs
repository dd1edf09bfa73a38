//! `wfhost cancel`.

use crate::cli::args::act::ActArguments;
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::commands::acts::{ask, pending_note, was_performed};
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError};
use crate::cli::report::journal::recovery_error;
use crate::cli::store::Ownership;
use crate::cli::terminal::{Terminal, say};
use crate::guest::EngineOptions;
use crate::host::Host;
use crate::host::control::Request;
use crate::journal::Stored;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost cancel order-4710
  wfhost cancel order-4711 --reason 'the order was withdrawn'

A run that is not running ends at once, without executing any step: \
to give its guests their grace period for cleaning up, resume it and then cancel it. \
Calls whose outcome is unknown are reported.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// The reason, recorded with the run.
    #[arg(long, default_value = "requested by the operator")]
    pub(in crate::cli) reason: String,
    /// End it at once, without the grace period that lets its steps clean up.
    #[arg(long)]
    pub(in crate::cli) now: bool,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

pub(in crate::cli) fn cancel(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let Arguments { run, reason, now, act } = command;
    let id = act.id();
    let request = |run: &Stored| Request::Cancel {
        run: run.id.to_string(),
        reason: reason.clone(),
        now: *now,
        id: Some(id.clone()),
    };
    let (runs, stored) = act.data.find(run)?;
    let id = stored.id.to_string();
    if was_performed(ask(&runs, stored, &request)?)? {
        say(&format!("{id} is {}", if *now { "ended" } else { "asked to end" }));
        return Ok(Exit::Success);
    }
    // The host opens its own store.
    let folder = runs.folder.clone();
    drop(runs);
    let ended = end(folder, &id, reason);
    let (runs, stored) = act.data.find(&id)?;
    match (ended, stored.status) {
        (_, Some(status)) => {
            say(&format!("{id} is {}: it was not running, and no step of it was executed", status.name()));
        }
        (Err(why), None) if runs.ownership(&stored)? == Ownership::Orphaned => {
            say(&terminal.warning_text(&format!("{id} cannot be ended: {}", why.title), why.hint.as_deref()));
            say(&pending_note(&id));
        }
        // Another host has recovered it and carries the request out.
        (_, None) => say(&format!("{id} is asked to end")),
    }
    let given_up = if stored.status.is_some() { runs.projection(&id)?.given_up().len() } else { 0 };
    let title = match given_up {
        0 => return Ok(Exit::Success),
        1 => "1 call may have happened: the run ended before its outcome was known".to_owned(),
        more => format!("{more} calls may have happened: the run ended before their outcomes were known"),
    };
    say(&terminal.warning_text(&title, Some(&format!("`wfhost status {id}` lists them"))));
    Ok(Exit::Success)
}

/// Ends a run that is not running, and waits until that is durable. Nothing of it is loaded or
/// executed.
fn end(folder: PathBuf, id: &str, reason: &str) -> Result<(), UserError> {
    let host = Host::builder().guests(EngineOptions { slots: Some(NO_SLOTS), ..Default::default() });
    let host = host.data(folder).workers(1).build()?;
    let ended = host.end(id, reason).map(|run| drop(run.wait()));
    host.settle_folder();
    ended.map_err(|error| recovery_error(id, error))
}
