//! `wfhost pause`.

use crate::cli::args::act::ActArguments;
use crate::cli::commands::target::Acted;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::terminal::{Terminal, say};
use crate::host::control::Request;
use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost pause order-4711
  wfhost resume order-4711

While a run is paused, its steps do not execute; what arrives for them waits. Sleeps and waits keep \
running: what falls due takes effect on resume. Timeouts of calls and grace periods stand still.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

pub(in crate::cli) fn pause(command: &Arguments, _: Terminal) -> Result<Exit, CommandError> {
    let Arguments { run, act } = command;
    let id = act.id();
    let request = |run: &str| Request::Pause { run: run.to_owned(), id: Some(id.clone()) };
    let Acted { run, is_done } = act.target.open()?.act(run, &request)?;
    let go_on = format!("`wfhost resume {run}` resumes it");
    say(&if is_done {
        format!("{run} is paused; {go_on}")
    } else {
        format!("{run} is not running, and now `wfhost resume --all` skips it; {go_on}")
    });
    Ok(Exit::Success)
}
