//! The resources of the API: for each its types and its handlers. Types are the API's own: those of
//! the engine may change.

pub mod acts;
pub mod batches;
pub mod blobs;
pub mod checks;
pub mod components;
pub mod deploy;
pub mod events;
pub mod host;
pub mod host_trace;
pub mod inbox;
pub mod jobs;
pub mod links;
pub mod metrics;
pub mod outcome;
pub mod parts;
pub mod problems;
pub mod replay;
pub mod reruns;
pub mod run_lists;
pub mod runs;
pub mod schedule_acts;
pub mod schedules;
pub mod sessions;
pub mod timeline;
pub mod tokens;
pub mod upgrades;
pub mod webhooks;
pub mod workflows;

use super::access::Caller;
use super::problem::{Answered, ServeProblem};
use super::service::Service;
use crate::journal::Stored;
use crate::journal::catalog::AuditEntry;
use crate::run::system_time;

impl Service {
    /// A run that the caller may see.
    pub(in crate::serve) fn run_for(&self, caller: &Caller, id: &str) -> Answered<Stored> {
        let unknown = || ServeProblem::unknown(format_args!("run `{id}`"));
        let stored = match self.store.run(id)? {
            Some(stored) => stored,
            // Begun here, and durable in a moment.
            None => match self.host.run_of(id) {
                Some(run) => {
                    run.started(std::time::Duration::from_secs(5));
                    self.store.run(id)?.ok_or_else(unknown)?
                }
                None => return Err(unknown()),
            },
        };
        if caller.may_touch(&stored.name) { Ok(stored) } else { Err(unknown()) }
    }

    /// Notes who did what.
    pub(in crate::serve) fn note(
        &self,
        caller: &Caller,
        act: &str,
        target: &str,
        detail: Option<String>,
    ) -> Answered<()> {
        let entry = AuditEntry {
            row: 0,
            at: system_time(),
            token: caller.token().to_owned(),
            name: caller.name().to_owned(),
            act: act.to_owned(),
            target: target.to_owned(),
            detail,
        };
        Ok(self.store.note_act(&entry)?)
    }
}

#[cfg(test)]
mod tests;
