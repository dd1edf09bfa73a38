//! `wfhost rm`: removing runs, and what only they needed.

use super::Exit;
use super::arguments::Remove;
use super::data::{Runs, Whose};
use super::refused::{Refused, Stop, kind};
use super::terminal::{Terminal, print, say};
use crate::host::Kept;
use crate::journal::{Filter, Journal as _, StoreError, Stored};
use crate::process::Micros;
use serde_json::json;
use std::time::{Duration, SystemTime};

/// How long ago a component must have been named last to be removed. Arbitrary: far longer than a start takes from its first file to its
/// first record.
const COMPONENT_AGE_MIN: Duration = Duration::from_hours(1);

pub(super) fn rm(command: &Remove, _: Terminal) -> Result<Exit, Stop> {
    let removed = match command.data.open()? {
        Some(runs) => remove(&runs, command)?,
        None if command.runs.is_empty() => Vec::new(),
        None => {
            return Err(command
                .data
                .find(&command.runs[0])
                .err()
                .map_or_else(|| anyhow::anyhow!("invariant: there are no runs").into(), Stop::from));
        }
    };
    if let (false, Some(runs)) = (removed.is_empty(), command.data.open()?) {
        sweep(&runs)?;
    }
    if command.json {
        print(&serde_json::to_string_pretty(&json!(removed))?)?;
    } else if removed.len() == 1 {
        say(&format!("removed {}", removed[0]));
    } else {
        say(&format!("removed {} runs", removed.len()));
    }
    Ok(Exit::Success)
}

fn remove(runs: &Runs, command: &Remove) -> Result<Vec<String>, Stop> {
    let mut meant = Vec::new();
    // What cannot be removed is told before anything is.
    for given in &command.runs {
        let stored = runs.find(given)?;
        check(runs, &stored, command.unfinished)?;
        meant.push(stored);
    }
    if command.older_than.is_some() || command.keep.is_some() {
        meant.extend(ended(runs, command)?);
    }
    let mut removed = Vec::new();
    for stored in meant {
        match runs.store.remove(&stored.id) {
            Ok(()) => removed.push(stored.id.to_string()),
            // Somebody else was quicker.
            Err(StoreError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(removed)
}

/// Removes the components that no run names any more. Young ones stay: somebody may be about to name them.
fn sweep(runs: &Runs) -> Result<(), Stop> {
    let kept = Kept::of(&runs.folder);
    let old = kept.old(COMPONENT_AGE_MIN)?;
    if old.is_empty() {
        return Ok(());
    }
    for hash in runs.store.unsaid(old)? {
        kept.remove(&hash, COMPONENT_AGE_MIN)?;
    }
    Ok(())
}

fn check(runs: &Runs, stored: &Stored, unfinished: bool) -> Result<(), Stop> {
    let id = &stored.id;
    match runs.whose(stored)? {
        Whose::Over => Ok(()),
        Whose::Nobody if unfinished => Ok(()),
        Whose::Nobody => Err(Refused::new(kind::WRONG_STATE, format!("the run {id} has not ended"))
            .hint(format!("`wfhost resume {id}` takes it up; --unfinished removes it for good"))
            .into()),
        Whose::Living(owner) => {
            Err(Refused::new(kind::WRONG_STATE, format!("the run {id} goes on in process {}", owner.pid))
                .hint(format!("to end it: wfhost cancel {id}"))
                .into())
        }
    }
}

/// Those that are over, and older and more than what is kept.
fn ended(runs: &Runs, command: &Remove) -> Result<Vec<Stored>, Stop> {
    let filter = Filter { ended: Some(true), ..Filter::default() };
    let mut over = runs.store.list(&filter)?;
    over.sort_by_key(|run| std::cmp::Reverse(run.ended));
    let kept = command.keep.map_or(0, |keep| over.len().min(keep as usize));
    over.drain(..kept);
    if let Some(age) = command.older_than {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(Micros(0), Micros::from);
        let before = now.0.saturating_sub(Micros::from(age).0);
        over.retain(|run| run.ended.is_some_and(|ended| ended.0 < before));
    }
    over.retain(|run| !command.runs.contains(&run.id.to_string()));
    Ok(over)
}
