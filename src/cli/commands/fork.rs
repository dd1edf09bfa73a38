//! `wfhost fork`.

use crate::cli::args::values::{self, Substitution};
use crate::cli::commands::new_run::{ChangeArguments, NewArguments, Original, Started, new_run, rerun_error};
use crate::cli::commands::remote_new::Rerunning;
use crate::cli::exit::Exit;
use crate::cli::store::runs_of;
use crate::cli::terminal::Terminal;
use crate::cli::watch::session::Session;
use crate::host::{ForkOptions, Host, RunOptions};
use clap::Args;
use serde_json::json;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost history order-4711
  wfhost fork order-4711 --at 12
  wfhost fork order-4711 --at 12 --with ship=fixed.wasm
  wfhost fork order-4711 --at 12 --workflow order.yaml

The new run has the first records of RUN and its own id and idempotency keys, and continues independently from there. \
The command ends as `wfhost run` does. A changed component, workflow or input must reproduce the records up \
to the cut; otherwise the fork is refused.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// The last record that the new run shares, by its number in `wfhost history`.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) at: u64,
    /// Replace a component of the workflow with another file.
    #[arg(long = "with", value_name = "NAME=FILE", value_parser = values::other)]
    pub(in crate::cli) others: Vec<Substitution>,
    /// Send calls that were in flight at the cut again [default: they wait for `wfhost resolve`].
    #[arg(long)]
    pub(in crate::cli) resend: bool,
    #[command(flatten)]
    pub(in crate::cli) changes: ChangeArguments,
    #[command(flatten)]
    pub(in crate::cli) new: NewArguments,
}

pub(in crate::cli) fn fork(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    if let Some(address) = command.new.target.address() {
        let body = [("at", json!(command.at)), ("resend", json!(command.resend))];
        let body = body.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let (others, changes) = (&command.others[..], &command.changes);
        let rerun = Rerunning { verb: "fork", given: &command.run, body, others, changes, dry_run: false };
        return rerun.on_server(&address, &command.new, terminal);
    }
    let start = |session: &Session, host: &Host, run: &Original<'_>| {
        let Original { id, workflow, inputs, blob_holders } = run;
        command.new.host.check_permissions(&runs_of(host)?, id, &session.invocation)?;
        let fork = ForkOptions {
            at: command.at,
            id: command.new.id.clone(),
            substituted: !command.others.is_empty() || command.changes.workflow.is_some(),
            inputs: inputs.clone(),
            resend: command.resend,
            blob_holders: blob_holders.clone(),
            ..ForkOptions::default()
        };
        let new = host.fork(workflow, id, fork).map_err(|error| rerun_error(error, id))?;
        let (watch, watcher) = session.watcher_of(host, &new);
        Ok(Started::Run(host.recover(workflow, &new, RunOptions { watcher, ..RunOptions::default() })?, watch))
    };
    new_run(&command.run, (&command.others, &command.changes), &command.new, terminal, &start)
}
