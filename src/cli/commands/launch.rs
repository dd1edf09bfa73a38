//! What the commands that execute a run share.
//!
//! A run that was started with permitted addresses goes on with the same, or with a deliberate
//! choice of others: a permission is never taken from a run, it is granted anew with each resume.
//! Without it the run would fail for good, so the command rejects that before anything runs.

use crate::cli::args::host::HostArguments;
use crate::cli::commands::listing::{queue_place, queue_text};
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::invocation::{ALLOW_ADDRESS, Invocation, PLAIN_SECRETS};
use crate::cli::store::{Runs, runs_of};
use crate::cli::watch::session::Session;
use crate::dispatch::http::Permission;
use crate::host::{Host, Outcome, RunHandle, RunManifest, Status};
use crate::process::problem;
use std::time::Duration;

/// How long the note of a run's start waits until that start is durable. Arbitrary.
pub(in crate::cli) const ANNOUNCE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Returns whether the run turned out to belong to another host.
pub(in crate::cli) fn belongs_to_another_host(outcome: &Outcome) -> bool {
    outcome.status == Status::Failed
        && outcome.result.as_ref().is_err_and(|problem| problem.kind == problem::kind::RUN_TAKEN)
}

impl HostArguments {
    /// Refuses to continue a run without what it was permitted when it was started: an address,
    /// unless the command chose its addresses itself, or secrets without TLS.
    pub(in crate::cli) fn check_permissions(&self, runs: &Runs, id: &str, again: &Invocation) -> Result<(), UserError> {
        // A run with an unreadable manifest is rejected as damaged when it is loaded.
        let Ok(Ok(about)) = runs.try_manifest(id) else { return Ok(()) };
        if about.plain_secrets && !self.plain_secrets {
            let title = format!("the run {id} was started with {PLAIN_SECRETS}, and would fail without it");
            let permit = again.with_switch(PLAIN_SECRETS).unwrap_or_else(|| format!("add {PLAIN_SECRETS}"));
            return Err(UserError::new(kind::USAGE, title).hint(format!("to permit it again: {permit}")));
        }
        let missing = self.missing(&about);
        if self.chosen_addresses || missing.is_empty() {
            return Ok(());
        }
        let flag = format!("{ALLOW_ADDRESS} {}", missing.join(","));
        let title = format!("the run {id} was started with {flag}, and would fail without it");
        let permit = again.with_addresses(&missing).unwrap_or_else(|| format!("add {flag}"));
        Err(UserError::new(kind::USAGE, title)
            .hint(format!("to permit it again: {permit}\nto continue without it: {ALLOW_ADDRESS} none")))
    }

    /// The addresses that a run was started with and that are not permitted now.
    fn missing(&self, about: &RunManifest) -> Vec<String> {
        let is_permitted = |text: &String| {
            text.parse::<Permission>().is_ok_and(|one| self.allow_addresses.iter().any(|mine| mine.includes(&one)))
        };
        about.addresses.iter().filter(|text| !is_permitted(text)).cloned().collect()
    }
}

/// Notes that a run waits for a place in its concurrency group.
pub(in crate::cli) fn note_queued(host: &Host, run: &RunHandle, session: &Session) -> Result<(), CommandError> {
    if !run.is_queued() || session.follower.is_none() {
        return Ok(());
    }
    let runs = runs_of(host)?;
    if let Some(stored) = runs.store.run(run.id())?
        && let Some(place) = queue_place(&runs, &stored)?
    {
        session.note(queue_text(&stored, &place));
    }
    Ok(())
}

/// Warns that calls of a recovered run wait to be settled.
pub(in crate::cli) fn warn_of_uncertain(run: &RunHandle, session: &Session) {
    let uncertain = run.inner().uncertain();
    let Some(first) = uncertain.first() else { return };
    let warning = match uncertain.len() {
        1 => "the outcome of a call is unknown, and the call waits to be settled".to_owned(),
        count => format!("the outcome of {count} calls is unknown, and they wait to be settled"),
    };
    let (id, call) = (run.id(), format!("{}/{}", first.pid, first.tag));
    let hint = format!(
        "`wfhost status {id}` shows more; to settle it: wfhost resolve {id} {call} --completed JSON, \
        --failed or --again"
    );
    session.note_always(session.terminal.warning_text(&warning, Some(&hint)));
}
