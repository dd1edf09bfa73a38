//! `wfhost retry`.

use crate::cli::args::values::{self, Substitution};
use crate::cli::commands::new_run::{ChangeArguments, NewArguments, Original, Started, new_run, rerun_error};
use crate::cli::commands::remote_new::Rerunning;
use crate::cli::exit::Exit;
use crate::cli::report::hints::with_changed;
use crate::cli::store::runs_of;
use crate::cli::terminal::Terminal;
use crate::cli::watch::session::Session;
use crate::host::{Host, RetryOptions, RunOptions, Workflow};
use crate::run::Record;
use crate::workflow::interpreter::{Rerun, Undone};
use clap::Args;
use serde_json::{Map, json};

/// Scripts that are noted. Arbitrary: a few lines.
const NOTED_MAX: usize = 3;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost retry order-4711                       # what did not succeed
  wfhost retry order-4711 --dry-run             # what would run again, why, with which keys
  wfhost retry order-4711 --workflow order.yaml # the file was corrected
  wfhost retry order-4711 --input limit=200     # an input was wrong
  wfhost retry order-4711 --from ship
  wfhost retry order-4711 --with ship=fixed.wasm

The new run has its own id; the command ends as `wfhost run` does.

A step is taken over if it succeeded or was skipped and nothing that it depends on has changed: the steps \
that it needs or reads are \
taken over, and its definition, its component and the inputs that it reads are the same. All other steps \
run again. A change of a \
step's `retry`, `timeout`, `max-parallel`, `continue-on-error`, `limits` or `allow` does not count. Items \
of a `for-each` are matched \
by their position in its list. The new run's store `kv` starts empty: steps that may write to it run again, \
and what depends on them.

A repeated call has its former idempotency key, with two exceptions: the former call is known not to have \
happened, or its outcome \
is known and the arguments have changed. A new key contains a digest of the request: two retries of one run \
that request the same have \
the same key.

--dry-run --json prints:
  run         the run
  steps       in the order of the file:
    id, before, now   before: how it ended, null for a new step;
                      now: taken-over or runs-again
    why               kind: ended, asked, needs, changed, inputs, store or new,
                      with step, keys or inputs
    items             of a for-each that runs again: taken-over, total
    keys, keys-total  of the first 20 items: item, key, reuse (always: its
                      outcome is unknown; same: with the same arguments;
                      never: it is a new one)
  gone        steps that no longer exist: id, before
  undeclared  inputs that are dropped: the workflow does not declare them
  signals     unclaimed signals, which are not sent to the new run")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// Run this step again, and all that depend on it.
    #[arg(long, value_name = "STEP", conflicts_with = "failed")]
    pub(in crate::cli) from: Option<String>,
    /// Run again the steps that did not succeed (the default).
    #[arg(long)]
    pub(in crate::cli) failed: bool,
    /// Show what would be taken over and what would run again, and start nothing.
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// Use new idempotency keys: each repeated call is a new one.
    #[arg(long)]
    pub(in crate::cli) new_keys: bool,
    /// What undoes this step failed after it had begun, and the step is undone: it runs again.
    #[arg(long, value_name = "STEP")]
    pub(in crate::cli) undone: Vec<String>,
    /// The same, and the step is not undone: it is taken over.
    #[arg(long, value_name = "STEP")]
    pub(in crate::cli) not_undone: Vec<String>,
    /// Replace a component of the workflow with another file. What succeeded with the former one is
    /// taken over.
    #[arg(long = "with", value_name = "NAME=FILE", value_parser = values::other)]
    pub(in crate::cli) others: Vec<Substitution>,
    #[command(flatten)]
    pub(in crate::cli) changes: ChangeArguments,
    #[command(flatten)]
    pub(in crate::cli) new: NewArguments,
}

pub(in crate::cli) fn retry(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    if let Some(address) = command.new.target.address() {
        let mut body = Map::new();
        body.extend(command.from.as_ref().map(|step| ("from".to_owned(), json!(step))));
        body.insert("new-keys".to_owned(), json!(command.new_keys));
        for (key, steps) in [("undone", &command.undone), ("not-undone", &command.not_undone)] {
            if !steps.is_empty() {
                body.insert(key.to_owned(), json!(steps));
            }
        }
        let (others, changes) = (&command.others[..], &command.changes);
        let rerun = Rerunning { verb: "retry", given: &command.run, body, others, changes, dry_run: command.dry_run };
        return rerun.on_server(&address, &command.new, terminal);
    }
    let again = command.from.clone().map_or(Rerun::Failed, Rerun::From);
    let start = |session: &Session, host: &Host, run: &Original<'_>| {
        let Original { id, workflow, inputs, blob_holders } = run;
        let loaded;
        let original = if command.others.is_empty() && command.changes.workflow.is_none() {
            workflow
        } else {
            loaded = host.workflow_of(id)?;
            &loaded
        };
        let records = Record::as_now(runs_of(host)?.records_of(id)?);
        host.recall(id, &records);
        let options = RetryOptions {
            again: again.clone(),
            inputs: inputs.clone(),
            substituted: !command.others.is_empty(),
            new_keys: command.new_keys,
            undone: Undone { are: command.undone.clone(), are_not: command.not_undone.clone() },
        };
        let retrial =
            host.prepare_retry(original, &records, workflow, options).map_err(|error| rerun_error(error, id))?;
        if command.dry_run {
            return Ok(Started::DryRun(crate::cli::report::retry_plan::print_plan(id, &retrial, command.new.json)?));
        }
        command.new.host.check_permissions(&runs_of(host)?, id, &session.invocation)?;
        if original.source().text() == workflow.source().text() {
            for line in other_file(workflow, id, command.from.as_deref()) {
                session.note(line);
            }
        }
        if command.others.is_empty() && command.changes.workflow.is_none() {
            for line in other_scripts(workflow, id, command.from.as_deref()) {
                session.note(line);
            }
        }
        for line in crate::cli::report::retry_plan::summary(&retrial) {
            session.note(line);
        }
        let (watch, watcher) = session.watcher();
        let (id_of_new, blob_holders) = (command.new.id.clone(), blob_holders.clone());
        let options = RunOptions { id: id_of_new, durable: Some(true), watcher, blob_holders, ..RunOptions::default() };
        let run = host.retry(workflow, retrial, options).map_err(|error| rerun_error(error.into(), id))?;
        Ok(Started::Run(run, watch))
    };
    new_run(&command.run, (&command.others, &command.changes), &command.new, terminal, &start)
}

/// The notes about files of a workflow that have changed since the run was started.
fn other_file(workflow: &Workflow, id: &str, from: Option<&str>) -> Vec<String> {
    let own = workflow.source().name();
    let from = from.map_or_else(String::new, |step| format!(" --from {step}"));
    let mut lines: Vec<String> = workflow
        .changed_files()
        .take(NOTED_MAX)
        .map(|file| format!("{file} has changed; this retry uses the text that the run was started with"))
        .collect();
    if !lines.is_empty() {
        lines.push(format!("to use the new one: wfhost retry {id}{from} --workflow {own}"));
    }
    lines
}

/// The notes about scripts that have changed since the run was started.
fn other_scripts(workflow: &Workflow, id: &str, from: Option<&str>) -> Vec<String> {
    let from = from.map_or_else(String::new, |step| format!(" --from {step}"));
    let changed = workflow.changed_scripts();
    let lines = changed.iter().take(NOTED_MAX).flat_map(|script| {
        let file = &script.file;
        let told = format!("{file} has changed; this retry uses the text that the run was started with");
        [
            told,
            format!("to use the new one: wfhost retry {id}{from} {}", with_changed(workflow.source().name(), script)),
        ]
    });
    lines.collect()
}
