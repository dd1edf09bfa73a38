//! `wfhost rm`: removing runs, and what only they needed.

use super::Exit;
use super::arguments::Remove;
use super::data::{Runs, Whose};
use super::refused::{Refused, Stop, kind};
use super::terminal::{Terminal, print, say};
use crate::journal::{Journal as _, Retention, StoreError, Stored};
use crate::process::Micros;
use crate::run::system_time;
use serde_json::json;

pub(super) fn rm(command: &Remove, _: Terminal) -> Result<Exit, Stop> {
    let removed = match (command.data.open()?, command.runs.first()) {
        (Some(runs), _) => remove(&runs, command)?,
        (None, None) => 0,
        // It says that there is no such run.
        (None, Some(given)) => command.data.find(given).map(|_| 0)?,
    };
    let plural = if removed == 1 { "" } else { "s" };
    if command.json {
        print(&json!({ "removed": removed }).to_string())?;
    } else {
        say(&format!("removed {removed} run{plural}"));
    }
    Ok(Exit::Success)
}

fn remove(runs: &Runs, command: &Remove) -> Result<u64, Stop> {
    let mut meant = Vec::new();
    // What cannot be removed is told before anything is.
    for given in &command.runs {
        let stored = runs.find(given)?;
        check(runs, &stored, command.unfinished)?;
        meant.push(stored.id);
    }
    let mut removed = 0;
    for id in meant {
        match runs.store.remove(&id) {
            Ok(()) => removed += 1,
            // Somebody else was quicker, or it was named twice.
            Err(StoreError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let before = |age| Micros(system_time().0.saturating_sub(Micros::from(age).0));
    // Where nothing is too old and nothing too many, it is what only the removed ones needed that goes.
    let retention = Retention { ended_before: command.older_than.map(before), runs_max: command.keep.map(u64::from) };
    Ok(removed + runs.store.sweep(&retention)?)
}

fn check(runs: &Runs, stored: &Stored, unfinished: bool) -> Result<(), Stop> {
    let id = &stored.id;
    match runs.whose(stored)? {
        Whose::Over => Ok(()),
        Whose::Nobody if unfinished => Ok(()),
        Whose::Nobody => {
            let way = match &stored.damage {
                Some(why) => format!("it cannot be taken up: {why}"),
                None => format!("`wfhost resume {id}` takes it up"),
            };
            Err(Refused::new(kind::WRONG_STATE, format!("the run {id} has not ended"))
                .hint(format!("{way}; --unfinished removes it for good"))
                .into())
        }
        Whose::Living(owner) => {
            Err(Refused::new(kind::WRONG_STATE, format!("the run {id} goes on in process {}", owner.pid))
                .hint(format!("to end it: wfhost cancel {id}"))
                .into())
        }
    }
}
