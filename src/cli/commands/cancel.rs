//! `wfhost cancel`.

use crate::cli::args::act::ActArguments;
use crate::cli::commands::acts::pending_note;
use crate::cli::commands::target::{Cancel, CancelOutcome, Cancelled};
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::terminal::{Terminal, say};
use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost cancel order-4710
  wfhost cancel order-4711 --reason 'the order was withdrawn'

A run that is not running ends at once, without executing any step: \
to give its guests their grace period for cleaning up, resume it and then cancel it. \
If its workflow has `compensate` or `on`, it ends when it is resumed: \
what it did is undone then. With --now nothing is undone. \
Calls whose outcome is unknown are reported.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// The reason, recorded with the run.
    #[arg(long, default_value = "requested by the operator")]
    pub(in crate::cli) reason: String,
    /// End it at once, without the grace period that lets its steps clean up. Nothing is undone.
    #[arg(long)]
    pub(in crate::cli) now: bool,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

pub(in crate::cli) fn cancel(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let Arguments { run, reason, now, act } = command;
    let (id, now) = (act.id(), *now);
    let Cancelled { run: id, outcome, has_end_steps } =
        act.target.open()?.cancel(run, &Cancel { reason, now, id: &id })?;
    let given_up = match outcome {
        CancelOutcome::Asked => {
            say(&format!("{id} is {}", if now { "ended" } else { "asked to end" }));
            0
        }
        CancelOutcome::Ended(status, given_up) => {
            say(&format!("{id} is {}: it was not running, and no step of it was executed", status.name()));
            given_up
        }
        CancelOutcome::Stored(why) => {
            if let Some(why) = why {
                say(&terminal.warning_text(&format!("{id} cannot be ended: {}", why.title), why.hint.as_deref()));
            }
            say(&pending_note(&id));
            if has_end_steps {
                terminal.hint(&format!("what it did is undone then; to end it as it is: wfhost cancel {id} --now"));
            }
            0
        }
    };
    if has_end_steps && now {
        let hint = format!("`wfhost retry {id}` takes over what succeeded, and undoes it if it fails or is cancelled");
        say(&terminal.warning_text("nothing is undone, and no step below `on` runs", Some(&hint)));
    }
    let title = match given_up {
        0 => return Ok(Exit::Success),
        1 => "1 call may have happened: the run ended before its outcome was known".to_owned(),
        more => format!("{more} calls may have happened: the run ended before their outcomes were known"),
    };
    say(&terminal.warning_text(&title, Some(&format!("`wfhost status {id}` lists them"))));
    Ok(Exit::Success)
}
