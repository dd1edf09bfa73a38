//! `wfhost run --server`: a run of a deployed workflow, or of a file, which is deployed for it.

use super::{Arguments, DurabilityChoice};
use crate::cli::args::http::{Ask, Refused, Server, ServerAddress};
use crate::cli::args::inputs::{self, INPUT_HINT};
use crate::cli::args::uploads::store_on;
use crate::cli::args::workflow::load_file;
use crate::cli::commands::deploying::{Deployment, send};
use crate::cli::commands::remote_run::{RemoteRun, fresh_key, id_of};
use crate::cli::commands::target::{RemoteRuns, declared};
use crate::cli::exit::Exit;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::invocation::Invocation;
use crate::cli::terminal::Terminal;
use crate::host::Workflow;
use crate::workflow::model::Inputs;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Attempts to start a run. Each is the same request, so that it starts once.
const TRIES_MAX: u32 = 10;

/// The pause between attempts.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(super) fn run(command: &Arguments, address: &ServerAddress, terminal: Terminal) -> Result<Exit, CommandError> {
    check(command)?;
    command.output.make()?;
    let runs = RemoteRuns::new(Server::at(address)?);
    let file = is_file(&command.file);
    let host = file.then(|| {
        let builder = command.host.host(1).on_compile(say_compiling(command.json || command.quiet));
        builder.retain_components().locking(command.lock.locking()).build().map_err(UserError::from)
    });
    let host = host.transpose()?;
    let workflow = host.as_ref().map(|host| load_file(host, &command.file).map_err(UserError::from)).transpose()?;
    let invocation = Invocation::new(None);
    let shown = RemoteRun {
        runs: &runs,
        json: command.json,
        quiet: command.quiet,
        terminal,
        invocation: &invocation,
        workflow: workflow.as_ref(),
        output_dir: command.output.folder(),
    };
    let (name, version, declared) = match &workflow {
        Some(workflow) => deployed(&runs.server, workflow, &shown)?,
        None => named(&runs.server, &command.file.to_string_lossy())?,
    };
    let mut store_blob = |name: &str, path: &str| store_on(&runs.server, declared.takes_blob(name), path);
    let given = inputs::read(&command.inputs, |name, text| declared.parse_argument(name, text), &mut store_blob)
        .map_err(UserError::from)?;
    let mut body = json!({ "inputs": given });
    if let Some(version) = version {
        body["version"] = json!(version);
    }
    if let Some(id) = &command.id {
        body["run-id"] = json!(id);
    }
    let id = id_of(&start(&runs.server, &name, &body, command.id.is_some())?)?;
    shown.note(&format!("run {id}"));
    shown.to_the_end(&id)
}

/// Refuses what a server cannot be asked for.
fn check(command: &Arguments) -> Result<(), UserError> {
    let refused = |what: &str, hint: &str| Err(UserError::new(kind::USAGE, what).hint(hint));
    if command.durability == Some(DurabilityChoice::None) {
        return refused("the runs of a server are durable", "leave out --durability none, or --server");
    }
    if command.timeout.is_some() {
        return refused("a server takes no --timeout", "`timeout` in the workflow limits a step");
    }
    if command.host.chosen_addresses {
        return refused("a server takes no --allow-address", "`wfhost serve --allow-address` permits an address there");
    }
    Ok(())
}

/// Returns whether it is the path of a file, and not the name of a deployed workflow.
fn is_file(given: &Path) -> bool {
    let has_ending = given.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    given == Path::new("-") || has_ending || given.components().count() > 1 || given.is_file()
}

/// A file's version on the server. It is deployed if it is new, and not activated.
fn deployed(
    server: &Server,
    workflow: &Workflow,
    shown: &RemoteRun<'_>,
) -> Result<(String, Option<u64>, Inputs), CommandError> {
    let (is_new, version) = send(server, workflow, &Deployment::default())?;
    let (name, number) = (workflow.plan().name.to_string(), version["version"].as_u64());
    if let (true, Some(number)) = (is_new, number) {
        shown.note(&format!("{name}@{number} is deployed for it, and not activated"));
    }
    Ok((name, number, workflow.plan().inputs.clone()))
}

/// A deployed workflow: NAME is its active version, NAME@NUMBER another.
fn named(server: &Server, given: &str) -> Result<(String, Option<u64>, Inputs), CommandError> {
    let parts = given.rsplit_once('@').and_then(|(name, number)| Some((name, number.parse::<u64>().ok()?)));
    let (name, number) = parts.map_or((given, None), |(name, number)| (name, Some(number)));
    let text = number.map(|number| number.to_string()).unwrap_or_default();
    let path = ["workflows", name, "versions", &text];
    let version =
        server.get(if number.is_some() { &path } else { &path[..2] }, &[]).map_err(|refused| match refused {
            Refused::Problem(problem) if problem.kind == "unknown" => {
                let error = UserError::new(kind::USAGE, format!("{} has no workflow `{given}`", server.name()));
                Refused::Other(error.hint("`wfhost deploy FILE` deploys one; a file is named with its ending, .yaml"))
            }
            refused => refused,
        })?;
    Ok((name.to_owned(), number, declared(&version)))
}

/// Starts a run, once.
fn start(server: &Server, name: &str, body: &Value, has_id: bool) -> Result<Value, CommandError> {
    let key = fresh_key();
    let path = ["workflows", name, "runs"];
    let mut tries = 0;
    loop {
        let mut ask = Ask::post(&path, body);
        // The id of the run tells its requests from others.
        ask.key = (!has_id).then_some(key.as_str());
        tries += 1;
        match server.ask(ask) {
            Ok((_, run)) => return Ok(run),
            // It was there a moment ago, and may have begun the run.
            Err(Refused::Other(error)) if tries == TRIES_MAX => return Err(error.into()),
            Err(Refused::Other(_)) => std::thread::sleep(TRY_AGAIN_AFTER),
            Err(refused) => return Err(UserError::from(refused).hint_on_inputs(INPUT_HINT).into()),
        }
    }
}
