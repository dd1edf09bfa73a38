//! Removing runs of a data folder.

use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::store::{Ownership, Runs};
use crate::cli::terminal::quoted;
use crate::journal::{StoreError, Stored};
use std::sync::Arc;

/// Removes runs by their full ids. What cannot be removed is reported before anything is.
pub(super) fn remove(runs: &Runs, given: &[String], unfinished: bool) -> Result<Vec<Arc<str>>, CommandError> {
    let mut meant = Vec::new();
    for given in given {
        let stored = runs.find(given)?;
        if *stored.id != **given {
            return Err(not_named(given, &stored.id).into());
        }
        check(runs, &stored, unfinished)?;
        meant.push(stored.id);
    }
    let mut removed = Vec::new();
    for id in meant {
        match runs.store.remove(&id) {
            Ok(()) => removed.push(id),
            // Another process was quicker, or the run was named twice.
            Err(StoreError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(blobs) = runs.store.blobs().filter(|_| !removed.is_empty()) {
        let swept = blobs.sweep();
        swept.map_err(|error| {
            UserError::new(kind::JOURNAL, format!("the runs are removed, and not their blobs: {error}"))
        })?;
    }
    Ok(removed)
}

/// Removal is final, so it never acts on a guess.
pub(super) fn not_named(given: &str, meant: &str) -> UserError {
    let title = format!("there is no run `{}`, and a run to remove is named by its full id", quoted(given));
    UserError::new(kind::UNKNOWN_RUN, title).hint(format!("one id begins so: wfhost rm {meant}"))
}

fn check(runs: &Runs, stored: &Stored, unfinished: bool) -> Result<(), CommandError> {
    let id = &stored.id;
    match runs.ownership(stored)? {
        Ownership::Ended => Ok(()),
        Ownership::Orphaned if unfinished => Ok(()),
        Ownership::Orphaned => {
            let way = match &stored.damage {
                Some(why) => format!("it cannot be resumed: {why}"),
                None => format!("`wfhost resume {id}` resumes it"),
            };
            Err(UserError::new(kind::WRONG_STATE, format!("the run {id} has not ended"))
                .hint(format!("{way}; --unfinished removes it for good"))
                .into())
        }
        Ownership::Owned(owner) => {
            Err(UserError::new(kind::WRONG_STATE, format!("the run {id} is running in process {}", owner.pid))
                .hint(format!("to end it: wfhost cancel {id}"))
                .into())
        }
    }
}
