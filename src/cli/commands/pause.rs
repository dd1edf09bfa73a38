//! `wfhost pause`.

use crate::cli::args::act::ActArguments;
use crate::cli::commands::acts::request_or_post;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::terminal::Terminal;
use crate::host::control::Request;
use crate::journal::Stored;
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
    let request = |run: &Stored| Request::Pause { run: run.id.to_string(), id: Some(id.clone()) };
    let go_on = |id: &str| format!("`wfhost resume {id}` resumes it");
    let left = |id: &str| format!("{id} is not running, and now `wfhost resume --all` skips it; {}", go_on(id));
    request_or_post(&act.data, run, &request, |id| format!("{id} is paused; {}", go_on(id)), left)
}
