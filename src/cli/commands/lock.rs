//! `wfhost lock`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::exit::Exit;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{Terminal, in_line, print_json, say};
use crate::host::{Host, LOCK_FILE, LockDifference, LockFile, LockedParts, Locking};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost lock flow.yaml
  wfhost lock --check
  wfhost run --locked flow.yaml

The lock is wfhost.lock beside the workflow file: the digests of its components, scripts, folders and of the \
workflows that its steps run. It belongs under version control. While it is there, validate, run and deploy refuse what differs \
from it, and a component of a registry is the one that the lock names, wherever its tag has moved; --locked refuses what \
is not in it as well. Other workflows of the folder keep their parts of the lock.

--json prints a list with one object per file: file, lock, written, and differences: kind, name, locked and found (a \
digest, or null).

Exit codes: 0 the lock is as the workflows are, 2 it is not, or a workflow cannot be loaded.")]
pub(in crate::cli) struct Arguments {
    /// Workflow files [default: those that the lock of this folder has, else workflow.yaml].
    #[arg(value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Write nothing; fail if the lock would change.
    #[arg(long)]
    check: bool,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

/// Whether a lock is needed, for commands that use a workflow.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(in crate::cli) struct LockArguments {
    /// Refuse a workflow that wfhost.lock does not have as a whole: `wfhost lock` writes it.
    #[arg(long)]
    pub(in crate::cli) locked: bool,
    /// Do not read wfhost.lock: `wfhost dev` runs what is being written.
    #[arg(long, hide = true, conflicts_with = "locked")]
    pub(in crate::cli) unlocked: bool,
}

impl LockArguments {
    pub(in crate::cli) fn locking(self) -> Locking {
        match self {
            Self { locked: true, .. } => Locking::Required,
            Self { unlocked: true, .. } => Locking::Ignored,
            _ => Locking::Checked,
        }
    }
}

pub(in crate::cli) fn lock(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let builder = command.cache.builder(NO_SLOTS).workers(1).on_compile(say_compiling(command.json));
    let host = builder.build().map_err(UserError::from)?;
    // Locks are read and written once, whatever the number of their workflows.
    let mut locks: BTreeMap<PathBuf, LockFile> = BTreeMap::new();
    let mut found: BTreeMap<PathBuf, BTreeMap<String, LockedParts>> = BTreeMap::new();
    let mut all = Vec::new();
    for file in files(command)? {
        let path = LockFile::beside(&file);
        if !locks.contains_key(&path) {
            locks.insert(path.clone(), LockFile::read(&path).map_err(UserError::from)?.unwrap_or_default());
        }
        let (name, parts) = parts_of(&host, &file, command.check)?;
        let differences = locks[&path].workflows.get(&name).cloned().unwrap_or_default().differences(&parts);
        found.entry(path.clone()).or_default().insert(name, parts);
        all.push((file, path, differences));
    }
    if !command.check {
        for (path, workflows) in found {
            LockFile::add(&path, workflows).map_err(UserError::from)?;
        }
    }
    let is_same = all.iter().all(|(_, _, differences)| differences.is_empty());
    let mut told = Vec::new();
    for (file, path, differences) in all {
        if command.json {
            let list: Vec<Value> = differences.iter().map(difference_json).collect();
            let is_written = !command.check && !list.is_empty();
            told.push(json!({ "file": file, "lock": path, "written": is_written, "differences": list }));
        } else {
            tell(&file, &differences, command.check, terminal);
        }
    }
    if command.json {
        print_json(&told)?;
    }
    Ok(if is_same || !command.check { Exit::Success } else { Exit::Usage })
}

/// The files that are meant.
fn files(command: &Arguments) -> Result<Vec<PathBuf>, UserError> {
    if !command.files.is_empty() {
        return Ok(command.files.clone());
    }
    let known = LockFile::read(Path::new(LOCK_FILE)).map_err(UserError::from)?.unwrap_or_default();
    let known: Vec<PathBuf> = known.workflows.keys().map(PathBuf::from).collect();
    if !known.is_empty() {
        return Ok(known);
    }
    let usual = PathBuf::from("workflow.yaml");
    if usual.is_file() {
        return Ok(vec![usual]);
    }
    Err(UserError::new(kind::USAGE, format!("there is no {LOCK_FILE} here, and no workflow.yaml"))
        .hint("name the workflow file: wfhost lock flow.yaml"))
}

/// The name of a workflow in its lock, and its parts.
fn parts_of(host: &Host, file: &Path, is_check: bool) -> Result<(String, LockedParts), UserError> {
    // A check asks whether the lock fits the files, not where a tag has moved.
    let locking = if is_check { Locking::Pinned } else { Locking::Ignored };
    let workflow = host.load_locked(file, locking)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, workflow.parts().clone()))
}

fn difference_json(LockDifference { kind, name, locked, found }: &LockDifference) -> Value {
    json!({ "kind": kind.key(), "name": name, "locked": locked, "found": found })
}

fn tell(file: &Path, differences: &[LockDifference], is_check: bool, terminal: Terminal) {
    let file = file.display().to_string();
    let file = in_line(&file);
    if differences.is_empty() {
        say(&format!("{file}: {}", terminal.paint("32", "as locked")));
        return;
    }
    let what = if is_check { "not as locked" } else { "locked" };
    say(&format!("{file}: {what}"));
    for LockDifference { kind, name, locked, found } in differences {
        let change = match (locked, found) {
            (Some(locked), Some(found)) => format!("is {found}, was {locked}"),
            (None, Some(found)) => format!("is new, {found}"),
            (_, None) => "is no longer used".to_owned(),
        };
        say(&format!("  {} {}: {change}", kind.key(), in_line(name)));
    }
    if is_check {
        say(&format!("{}: accept it: wfhost lock {file}", terminal.paint("1;36", "hint")));
    }
}
