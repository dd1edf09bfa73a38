//! `wfhost upgrade`.

use crate::cli::args::host::HostArguments;
use crate::cli::args::http::{Ask, Server};
use crate::cli::args::target::TargetArguments;
use crate::cli::args::workflow::load_file;
use crate::cli::commands::replay::difference_of;
use crate::cli::commands::target::RemoteRuns;
use crate::cli::commands::{acts, replaying};
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::store::Ownership;
use crate::cli::terminal::{Terminal, print, print_json, printable};
use crate::host::{DeployedVersion, Host, LoadError, Upgrade, UpgradeError, Workflow};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost upgrade order-4711 --to 2             # a version that was deployed
  wfhost upgrade order-4711 --to order.yaml    # a file, if no service has the run
  wfhost upgrade order-4711 --to 2 --server https://flows.example.com

Every record of the run is replayed on the other version. If each step does the same, one record says \
that the run is one of that version, and it continues with it; otherwise the first step that differs is shown, and \
the run stays as it is. That it did the same so far says nothing about what comes: `wfhost fork` tries a version on a \
copy.

With --server or WFHOST_SERVER the service does it, with the token in WFHOST_TOKEN: it needs `runs:act` and \
`deploy`. \
Otherwise the run is one of the data folder, and no living process has it.

--json prints one object: run, outcome (upgraded, unchanged or differs), record, version; for a run that differs \
difference, as `wfhost replay --json` has it.

Exit codes: 0 it is one of the version now, 1 it differs.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// The number of a version that was deployed, or a workflow file.
    #[arg(long, value_name = "VERSION|FILE", value_parser = target)]
    to: Target,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

/// What a run is upgraded to.
#[derive(Clone, Debug)]
enum Target {
    Version(u64),
    File(PathBuf),
}

fn target(text: &str) -> Result<Target, String> {
    match text.parse() {
        Ok(0) => Err("versions are counted from 1".to_owned()),
        Ok(number) => Ok(Target::Version(number)),
        Err(_) => Ok(Target::File(text.into())),
    }
}

pub(in crate::cli) fn upgrade(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    if let Some(address) = command.target.address() {
        return on_server(command, RemoteRuns::new(Server::at(&address)?));
    }
    let (runs, stored) = command.target.data.find(&command.run)?;
    let id = stored.id.to_string();
    match runs.ownership(&stored)? {
        Ownership::Ended => return Err(acts::ended_error(&stored).into()),
        Ownership::Owned(owner) => {
            let title = format!("the run {id} is running, in process {}", owner.pid);
            let hint = format!("if that is a service: wfhost upgrade {id} --to VERSION --server URL");
            return Err(UserError::new(kind::WRONG_STATE, title).hint(hint).into());
        }
        Ownership::Orphaned => {}
    }
    drop(runs);
    let host = replaying::host(&command.host, command.target.data.required()?, command.json)?;
    let (workflow, version) = loaded(&host, &stored.name, &command.to)?;
    let number = version.map(|version| version.number);
    let upgraded = match host.upgrade(&workflow, &id, version) {
        Ok(Upgrade::Done { record }) => {
            json!({ "run": id, "outcome": "upgraded", "record": record, "version": number })
        }
        Ok(Upgrade::Unchanged) => json!({ "run": id, "outcome": "unchanged", "record": null, "version": number }),
        Err(UpgradeError::Differs(difference)) => {
            if command.json {
                let differs = json!({ "run": id, "outcome": "differs", "record": null, "version": number });
                print_json(&with_difference(differs, json!(difference)))?;
            } else {
                print(&difference_of(&difference, terminal))?;
            }
            return Ok(Exit::Failed);
        }
        Err(error) => return Err(refused(error).into()),
    };
    tell(command, &upgraded)?;
    Ok(Exit::Success)
}

fn with_difference(mut told: Value, difference: Value) -> Value {
    told["difference"] = difference;
    told
}

fn on_server(command: &Arguments, runs: RemoteRuns) -> Result<Exit, CommandError> {
    let Target::Version(number) = command.to else {
        let error =
            UserError::new(kind::USAGE, "a service upgrades runs to versions that were deployed, by their numbers");
        return Err(error.hint("--to 2").into());
    };
    let body = json!({ "to": number });
    let upgrade = &mut |id: &str| Ok(runs.server.ask(Ask::post(&["runs", id, "upgrade"], &body))?.1);
    let (_, upgraded) = runs.with_run(&command.run, upgrade)?;
    tell(command, &upgraded)?;
    Ok(Exit::Success)
}

fn tell(command: &Arguments, upgraded: &Value) -> std::io::Result<()> {
    if command.json {
        return print_json(upgraded);
    }
    let to = match &command.to {
        Target::Version(number) => format!("version {number}"),
        Target::File(file) => file.display().to_string(),
    };
    let run = upgraded["run"].as_str().unwrap_or(&command.run);
    print(&printable(&match upgraded["record"].as_u64() {
        Some(record) => format!("run {run} goes on with {to}, from record {record} on"),
        None => format!("run {run} is one of {to} already"),
    }))
}

/// The workflow that a run is upgraded to.
fn loaded(host: &Host, name: &str, to: &Target) -> Result<(Workflow, Option<DeployedVersion>), CommandError> {
    let number = match to {
        Target::Version(number) => *number,
        Target::File(file) => return Ok((load_file(host, file).map_err(UserError::from)?, None)),
    };
    let journal = host.journal().map_err(LoadError::Journal).map_err(UserError::from)?;
    let journal = journal.ok_or(LoadError::NoJournal).map_err(UserError::from)?;
    let version = journal.store().version(name, number).map_err(UserError::from)?;
    let version = version.ok_or_else(|| {
        UserError::new(kind::USAGE, format!("no version {number} of `{name}` was deployed to the data folder"))
    })?;
    let components = serde_json::from_str(&version.components).unwrap_or_default();
    let workflow = host.load_stored(&version.file, &version.source, &components).map_err(UserError::from)?;
    Ok((workflow, Some(DeployedVersion { row: version.row, number })))
}

fn refused(error: UpgradeError) -> UserError {
    match error {
        UpgradeError::Run(error) => error.into(),
        UpgradeError::Load(error) => error.into(),
        UpgradeError::Inputs(parts) => {
            let parts: Vec<String> = parts.into_iter().map(|(pointer, why)| format!("{pointer}: {why}")).collect();
            UserError::new(kind::WRONG_STATE, format!("the run's inputs do not fit: {}", parts.join("; ")))
        }
        error => UserError::new(kind::WRONG_STATE, error.to_string()),
    }
}
