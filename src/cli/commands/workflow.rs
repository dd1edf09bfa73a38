//! `wfhost workflow`: the workflows of a service, and which of their versions is active.

use crate::cli::args::server::ServerArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::table::Table;
use crate::cli::terminal::{print, print_json, say};
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

type Done = Result<Exit, CommandError>;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost workflow ls
  wfhost workflow show order
  wfhost workflow activate order 3 --expect-active 4
  wfhost workflow rollback order

New runs get the active version of a workflow; those that run stay on theirs (`wfhost upgrade` moves them). `wfhost deploy` \
makes a version and activates it. Each asks the service that --server or WFHOST_SERVER names.")]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    pub(in crate::cli) action: Action,
}

#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Action {
    /// List the workflows of a service, with the version that is active.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Show the versions of a workflow, the newest first.
    Show {
        #[command(flatten)]
        named: Named,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a version the one that new runs get.
    Activate {
        #[command(flatten)]
        named: Named,
        /// The number of the version.
        version: u64,
        /// Only if this version is active now; 0: if none is.
        #[arg(long, value_name = "VERSION")]
        expect_active: Option<u64>,
    },
    /// Activate the version before the one that is active.
    Rollback(Named),
    /// Remove a version that is not active and that no run has.
    Rm {
        #[command(flatten)]
        named: Named,
        /// The number of the version.
        version: u64,
    },
}

/// A workflow of a service.
#[derive(Args, Debug)]
pub(in crate::cli) struct Named {
    /// Name of the workflow.
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

impl Arguments {
    pub(in crate::cli) fn json(&self) -> bool {
        matches!(self.action, Action::Ls { json: true, .. } | Action::Show { json: true, .. })
    }
}

pub(in crate::cli) fn workflow(command: &Arguments) -> Done {
    match &command.action {
        Action::Ls { json, server } => ls(server, *json),
        Action::Show { named, json } => show(named, *json),
        Action::Activate { named, version, expect_active } => activate(named, *version, *expect_active),
        Action::Rollback(named) => rollback(named),
        Action::Rm { named, version } => {
            named.ask(Method::DELETE, &["versions", &version.to_string()], None)?;
            say(&format!("version {version} of `{}` is removed", named.name));
            Ok(Exit::Success)
        }
    }
}

impl Named {
    fn ask(&self, method: Method, path: &[&str], body: Option<&Value>) -> Result<Value, UserError> {
        let path = [&["workflows", &self.name], path].concat();
        self.server.ask(method, &path, &[], body)
    }

    /// Its versions, the newest first.
    fn versions(&self) -> Result<Vec<Value>, UserError> {
        let Value::Array(mut versions) = self.ask(Method::GET, &["versions"], None)? else { return Ok(Vec::new()) };
        versions.sort_by_key(|version| std::cmp::Reverse(version["version"].as_u64()));
        Ok(versions)
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn ls(server: &ServerArguments, json: bool) -> Done {
    let all = server.ask(Method::GET, &["workflows"], &[], None)?;
    if json {
        print_json(&all)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["WORKFLOW", "ACTIVE"]);
    for workflow in all.as_array().into_iter().flatten() {
        table.row(["name", "active"].map(|key| text(&workflow[key])).into());
    }
    print(&table.text())?;
    Ok(Exit::Success)
}

fn show(named: &Named, json: bool) -> Done {
    let versions = named.versions()?;
    if json {
        print_json(&versions)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["VERSION", "STATE", "CREATED", "BY", "FILE", "NOTE"]).open();
    for version in &versions {
        let state = if version["active"] == true { "active" } else { "" };
        let [number, created, author, file, note] =
            ["version", "created", "author", "file", "note"].map(|key| text(&version[key]));
        table.row(vec![number, state.to_owned(), created, author, file, note]);
    }
    print(&table.without_empty_columns().text())?;
    Ok(Exit::Success)
}

fn activate(named: &Named, version: u64, expected: Option<u64>) -> Done {
    let body = expected.map_or_else(|| json!({}), |expected| json!({ "expect-active": expected }));
    named.ask(Method::POST, &["versions", &version.to_string(), "activate"], Some(&body))?;
    say(&format!("version {version} of `{}` is active", named.name));
    Ok(Exit::Success)
}

fn rollback(named: &Named) -> Done {
    let versions = named.versions()?;
    let refuse = |why: &str| {
        let refused = UserError::new(kind::USAGE, format!("`{}` {why}", named.name));
        refused.hint(format!("`wfhost workflow show {}` shows its versions", named.name))
    };
    let mut older = versions.iter().skip_while(|version| version["active"] != true);
    let active = older.next().ok_or_else(|| refuse("has no active version"))?["version"].as_u64();
    let before = older.next().ok_or_else(|| refuse("has no version before the one that is active"))?;
    activate(named, before["version"].as_u64().unwrap_or_default(), active)
}
