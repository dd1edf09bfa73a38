//! The log of a run of a data folder, while a host has it.

use super::TakeLine;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::journal::{FULL, FULL_HINT};
use crate::cli::report::unresponsive::silent;
use crate::cli::store::{LiveStatus, Ownership, POLL_EVERY, POLLS_MAX, Runs, live_status};
use crate::cli::table::counted;
use crate::cli::terminal::{Terminal, say};
use crate::host::control::{Answer, Answers};
use crate::host::{RunProjection, Status};
use crate::journal::Stored;
use serde_json::json;

/// Shows the lines of a run of a folder, and those to come if it is followed.
pub(super) fn show(
    (runs, stored): (&Runs, &Stored),
    follow: bool,
    terminal: Terminal,
    take: TakeLine<'_>,
) -> Result<Exit, CommandError> {
    let mut projection = RunProjection::default();
    // Watching begins first, so that it covers what was not yet written.
    let mut watched = if follow { watch(runs, &stored.id, terminal)? } else { None };
    let recorded = watched.as_ref().map(Answers::records);
    for record in runs.records(&stored.id, recorded)? {
        let mut failed = Ok(());
        projection.apply(&record, &mut |line| {
            if failed.is_ok() {
                failed = take(&line);
            }
        });
        failed?;
    }
    let Some(watched) = &mut watched else {
        if !follow {
            return Ok(Exit::Success);
        }
        let (now, ownership) = settled(runs, &stored.id)?;
        return Ok(unwatched(&now, &ownership));
    };
    for answer in watched {
        match answer? {
            Answer::Event(event) => {
                if let Some(line) = projection.apply_event(&event) {
                    take(&line)?;
                }
            }
            Answer::Dropped(count) => {
                let dropped = counted(count, "event was", "events were");
                say(&format!("({dropped} dropped: the output was slower than the run)"));
            }
            Answer::Ended(outcome) if outcome.status == Status::Suspended => {
                return Ok(unfinished("the host released it", &stored.id));
            }
            Answer::Ended(outcome) => {
                say(&format!("the run {}", json!(outcome.status).as_str().unwrap_or_default()));
                return Ok(Exit::Success);
            }
            _ => {}
        }
    }
    // The host has ended; the store knows the state of the run.
    match settled(runs, &stored.id)? {
        (now, Ownership::Orphaned) => Ok(unfinished("the host died", &now.id)),
        (now, ownership) => Ok(unwatched(&now, &ownership)),
    }
}

/// A run and its ownership, once its host has ended or answers: a host that ends closes its socket
/// before it releases its runs, and a host that starts owns a run before it listens.
fn settled(runs: &Runs, id: &str) -> Result<(Stored, Ownership), CommandError> {
    let mut looks = 0;
    loop {
        let stored = runs.find(id)?;
        let ownership = runs.ownership(&stored)?;
        looks += 1;
        if !matches!(ownership, Ownership::Owned(_)) || looks == POLLS_MAX {
            return Ok((stored, ownership));
        }
        match live_status(runs, &stored, &ownership)? {
            LiveStatus::Status(_) => return Ok((stored, ownership)),
            LiveStatus::Silent(process) => {
                let (title, hint) = silent(id, process);
                return Err(UserError::new(kind::HOST_FAULT, title).hint(hint).into());
            }
            LiveStatus::Gone => {}
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// Reports a run that was to be followed and cannot be watched.
pub(super) fn unwatched(stored: &Stored, ownership: &Ownership) -> Exit {
    let id = &stored.id;
    match (stored.status, ownership) {
        (Some(status), _) => {
            say(&format!("the run {}", status.name()));
            Exit::Success
        }
        (None, Ownership::Owned(owner)) => {
            say(&format!("the run continues in process {}; to follow it there: wfhost logs -f {id}", owner.pid));
            Exit::Cancelled
        }
        (None, _) => unfinished("it is not running", id),
    }
}

/// Reports that a run is unfinished and not running.
fn unfinished(why: &str, id: &str) -> Exit {
    say(&format!("{why}; the run is unfinished: wfhost resume {id}"));
    Exit::Cancelled
}

/// Watches a run that a host has, and says where nothing goes on in it.
fn watch(runs: &Runs, id: &str, terminal: Terminal) -> Result<Option<Answers>, CommandError> {
    let (_, Ownership::Owned(owner)) = settled(runs, id)? else { return Ok(None) };
    let Some((host, answers)) = runs.ask(&owner, |host| Ok((host.clone(), host.watch(id)?)))? else { return Ok(None) };
    if host.is_stalled() {
        say(&terminal.warning_text(FULL, Some(FULL_HINT)));
    }
    Ok(Some(answers))
}
