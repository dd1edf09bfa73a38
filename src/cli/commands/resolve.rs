//! `wfhost resolve`.

use crate::cli::args::act::ActArguments;
use crate::cli::args::values::{self, Call};
use crate::cli::commands::acts::perform;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::terminal::Terminal;
use crate::host::control;
use crate::host::control::Request;
use crate::process::Payload;
use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost status order-4711
  wfhost resolve order-4711 7 --completed '{\"id\": 4711}'
  wfhost resolve order-4711 3/7 --again

`wfhost status` lists the uncertain calls of a run: they may have happened before a \
host died, and are not repeated unless you say so.")]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// The call: PID/TAG, as in the column UNCERTAIN of `wfhost status RUN`, or TAG alone if no
    /// other call has the same tag.
    #[arg(value_name = "TAG", value_parser = values::call)]
    pub(in crate::cli) call: Call,
    /// The call happened, and this is its answer: JSON, or @ and a file of JSON.
    #[arg(long, value_name = "JSON", value_parser = values::json, group = "outcome")]
    pub(in crate::cli) completed: Option<serde_json::Value>,
    /// The call did not happen: treat the attempt as failed. The step's `retry` may make another,
    /// under a new key.
    #[arg(long, group = "outcome")]
    pub(in crate::cli) failed: bool,
    /// Send the call again, under its key.
    #[arg(long, group = "outcome")]
    pub(in crate::cli) again: bool,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

pub(in crate::cli) fn resolve(command: &Arguments, _: Terminal) -> Result<Exit, CommandError> {
    let Arguments { run, call, completed, failed, again: _, act } = command;
    let id = act.id();
    let outcome = match (completed, failed) {
        (Some(answer), _) => control::Resolve::Completed(Payload::json(answer)),
        (None, true) => control::Resolve::Failed,
        (None, false) => control::Resolve::Resend,
    };
    let request = |run: &str| Request::Resolve {
        run: run.to_owned(),
        pid: call.pid,
        tag: call.tag,
        outcome: outcome.clone(),
        id: Some(id.clone()),
    };
    perform(act, run, &request, |id| format!("{id} has received the outcome of the call"))
}
