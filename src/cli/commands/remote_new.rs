//! `wfhost retry --server` and `wfhost fork --server`: a new run of a server, made from an earlier
//! one there.

use crate::cli::args::http::{Ask, Server, ServerAddress};
use crate::cli::args::inputs;
use crate::cli::args::uploads::store_on;
use crate::cli::args::values::{Substitution, by_name};
use crate::cli::args::workflow::load_file;
use crate::cli::commands::deploying::{Deployment, send, store};
use crate::cli::commands::new_run::{ChangeArguments, NewArguments};
use crate::cli::commands::remote_run::{RemoteRun, fresh_key, id_of};
use crate::cli::commands::target::RemoteRuns;
use crate::cli::exit::Exit;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::invocation::Invocation;
use crate::cli::table::Table;
use crate::cli::terminal::{Terminal, print, print_json, printable};
use crate::workflow::model::Inputs;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// What is made anew, and how.
pub(in crate::cli) struct Rerunning<'a> {
    /// `retry` or `fork`.
    pub(in crate::cli) verb: &'static str,
    /// The earlier run.
    pub(in crate::cli) given: &'a str,
    /// What is asked for.
    pub(in crate::cli) body: Map<String, Value>,
    /// Components in place of others.
    pub(in crate::cli) others: &'a [Substitution],
    pub(in crate::cli) changes: &'a ChangeArguments,
    /// Of a retry: show what it would do.
    pub(in crate::cli) dry_run: bool,
}

impl Rerunning<'_> {
    /// Makes the run, and follows it to its end.
    pub(in crate::cli) fn on_server(
        self,
        address: &ServerAddress,
        new: &NewArguments,
        terminal: Terminal,
    ) -> anyhow::Result<Exit> {
        self.made(address, new, terminal).or_else(|error| error.report(new.json, terminal))
    }

    fn made(mut self, address: &ServerAddress, new: &NewArguments, terminal: Terminal) -> Result<Exit, CommandError> {
        if new.host.chosen_addresses {
            let refused = UserError::new(kind::USAGE, "a server takes no --allow-address");
            return Err(refused.hint("`wfhost serve --allow-address` permits an address there").into());
        }
        new.output.make()?;
        let runs = RemoteRuns::new(Server::at(address)?);
        self.add_changes(&runs, new)?;
        if let Some(id) = &new.id {
            self.body.insert("run-id".to_owned(), json!(id));
        }
        let (key, body, verb) = (fresh_key(), Value::Object(self.body), self.verb);
        let dry_run = [("dry-run", "true".to_owned())];
        let (_, made) = runs.with_run(self.given, &mut |id| {
            let path = ["runs", id, verb];
            let mut ask = Ask::post(&path, &body);
            if self.dry_run {
                ask = ask.query(&dry_run);
            } else {
                ask.key = new.id.is_none().then_some(key.as_str());
            }
            Ok(runs.server.ask(ask)?.1)
        })?;
        if self.dry_run {
            return show_plan(&made, new.json);
        }
        let id = id_of(&made)?;
        let invocation = Invocation::new(None);
        let (json, quiet) = (new.json, new.quiet);
        let output_dir = new.output.folder();
        let shown =
            RemoteRun { runs: &runs, json, quiet, terminal, invocation: &invocation, workflow: None, output_dir };
        shown.note(&format!("run {id}"));
        shown.to_the_end(&id)
    }

    /// Sends the files that change something, and names them in the body.
    fn add_changes(&mut self, runs: &RemoteRuns, new: &NewArguments) -> Result<(), CommandError> {
        let mut declared = Inputs::default();
        if let Some(file) = &self.changes.workflow {
            let builder = new.host.host(1).on_compile(say_compiling(new.json || new.quiet));
            let host = builder.retain_components().build().map_err(UserError::from)?;
            let workflow = load_file(&host, file).map_err(UserError::from)?;
            let (_, version) = send(&runs.server, &workflow, &Deployment::default())?;
            self.body.insert("version".to_owned(), version["version"].clone());
            declared = workflow.plan().inputs.clone();
        } else if !self.changes.inputs.is_empty() {
            declared = runs.inputs_of(self.given)?;
        }
        let mut store_blob = |name: &str, path: &str| store_on(&runs.server, declared.takes_blob(name), path);
        let inputs =
            inputs::read(&self.changes.inputs, |name, text| declared.parse_argument(name, text), &mut store_blob)
                .map_err(UserError::from)?;
        if !inputs.is_empty() {
            self.body.insert("inputs".to_owned(), Value::Object(inputs));
        }
        let mut components = Map::new();
        for (name, file) in by_name(self.others) {
            let bytes = std::fs::read(&file)
                .map_err(|error| UserError::new(kind::UNREADABLE, format!("{}: {error}", file.display())))?;
            let bytes = Bytes::from(bytes);
            store(&runs.server, &bytes)?;
            components.insert(name, json!(blake3::hash(&bytes).to_hex().to_string()));
        }
        if !components.is_empty() {
            self.body.insert("components".to_owned(), Value::Object(components));
        }
        Ok(())
    }
}

/// What a retry would do.
fn show_plan(plan: &Value, json: bool) -> Result<Exit, CommandError> {
    if json {
        print_json(plan)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["STEP", "BEFORE", "NOW"]);
    for step in plan["steps"].as_array().into_iter().flatten() {
        let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        table.row(vec![text("id"), text("before"), text("now")]);
    }
    print(&printable(&table.text()))?;
    Ok(Exit::Success)
}
