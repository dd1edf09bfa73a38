//! `wfhost deploy`: sends workflows to a server, with their components.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::http::Server;
use crate::cli::args::server::ServerArguments;
use crate::cli::args::workflow::{NO_SLOTS, load_file};
use crate::cli::commands::deploying::{Deployment, send};
use crate::cli::commands::lock::LockArguments;
use crate::cli::exit::Exit;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::warnings::plan_warnings;
use crate::cli::terminal::{Terminal, print, print_json, say};
use clap::{Args, ValueHint};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost deploy review.yaml
  wfhost deploy workflows --server https://flows.example.com
  wfhost deploy review.yaml --no-activate --note 'asks two people' --json
  wfhost deploy review.yaml --expect-active 3

All files are checked here first: if one has a problem, none is sent. Components and scripts are sent if the server does \
not have them. The same text with the same components is the same version again. Runs that have begun keep their version.

--json prints a list with one object per file: name, version, active, digest, file, components, created, author, note; \
with --dry-run name and fits. The token needs the scope `deploy`.")]
pub(in crate::cli) struct Arguments {
    /// Workflow files, or folders of them.
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// New runs get this version; this is the default.
    #[arg(long, overrides_with = "no_activate")]
    activate: bool,
    /// New runs get the version that was active before.
    #[arg(long, overrides_with = "activate")]
    no_activate: bool,
    /// Activate only if this version is active now; 0: if none is. For one file.
    #[arg(long, value_name = "VERSION", conflicts_with = "no_activate")]
    expect_active: Option<u64>,
    /// What is said of the version.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Let the server check everything, and deploy nothing. It keeps components for a day.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    lock: LockArguments,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn deploy(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let files = workflow_files(&command.files)?;
    if command.expect_active.is_some() && files.len() > 1 {
        return Err(UserError::new(kind::USAGE, "--expect-active is about one workflow, and there are several").into());
    }
    let server = command.server.open()?;
    let builder = command.cache.builder(NO_SLOTS).workers(1).on_compile(say_compiling(command.json));
    let host = builder.retain_components().locking(command.lock.locking()).build().map_err(UserError::from)?;
    let mut workflows = Vec::new();
    for file in &files {
        let workflow = load_file(&host, file).map_err(UserError::from)?;
        if !command.json {
            for (message, hint) in plan_warnings(&workflow) {
                say(&terminal.warning_text(&message, Some(&hint)));
            }
        }
        workflows.push(workflow);
    }
    let deployment = Deployment {
        activate: !command.no_activate,
        expect_active: command.expect_active,
        note: command.note.as_deref(),
        dry_run: command.dry_run,
    };
    let mut all = Vec::new();
    for workflow in &workflows {
        let (is_new, version) = send(&server, workflow, &deployment)?;
        if !command.json {
            told(&version, is_new, &server)?;
        }
        all.push(version);
    }
    if command.json {
        print_json(&all)?;
    }
    Ok(Exit::Success)
}

fn told(version: &Value, is_new: bool, server: &Server) -> Result<(), CommandError> {
    let name = version["name"].as_str().unwrap_or_default();
    let Some(number) = version["version"].as_u64() else {
        say(&format!("{name} could be deployed to {}", server.name()));
        return Ok(());
    };
    print(&format!("{name}@{number}\n"))?;
    let what = if is_new { "is deployed" } else { "was deployed before" };
    let who = if version["active"] == true { "new runs get it" } else { "it is not active" };
    say(&format!("{name}@{number} {what}, and {who}"));
    Ok(())
}

/// The files, and those in the folders.
fn workflow_files(given: &[PathBuf]) -> Result<Vec<PathBuf>, UserError> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let unreadable =
            |error: std::io::Error| UserError::new(kind::UNREADABLE, format!("{}: {error}", path.display()));
        let entries = std::fs::read_dir(path).map_err(unreadable)?;
        let mut found = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
        let found = found.as_mut().map_err(|error| unreadable(std::io::Error::other(error.to_string())))?;
        found.retain(|file| crate::host::is_workflow(file));
        found.sort();
        if found.is_empty() {
            return Err(UserError::new(kind::UNREADABLE, format!("{} has no workflow files", path.display()))
                .hint("their names end with .yaml or .yml"));
        }
        files.append(found);
    }
    Ok(files)
}
