//! Runs that were started with permitted addresses, and are to go on with the same or with a
//! deliberate choice of others.
//!
//! A permission is never taken from a run: whoever resumes it grants it anew. Without it the run
//! would fail for good, so that is refused before anything runs.

use crate::cli::args::RunningArguments;
use crate::cli::report::error::{Refused, kind};
use crate::cli::report::invocation::{ALLOW_ADDRESS, Again};
use crate::cli::store::Runs;
use crate::dispatch::http::Permission;
use crate::host::RunManifest;

impl RunningArguments {
    /// Refuses to go on with a run without an address that it was started with, unless the command
    /// chose its addresses itself.
    pub(in crate::cli) fn check_addresses(&self, runs: &Runs, id: &str, again: &Again) -> Result<(), Refused> {
        // A run whose start cannot be read is refused as a damaged one where it is loaded.
        let Ok(Ok(about)) = runs.readable_about(id) else { return Ok(()) };
        let missing = self.missing(&about);
        if self.chosen_addresses || missing.is_empty() {
            return Ok(());
        }
        let flag = format!("{ALLOW_ADDRESS} {}", missing.join(","));
        let title = format!("the run {id} was started with {flag}, and would fail without it");
        let permit = again.with_addresses(&missing).unwrap_or_else(|| format!("add {flag}"));
        Err(Refused::new(kind::USAGE, title)
            .hint(format!("to permit it again: {permit}\nto go on without it: {ALLOW_ADDRESS} none")))
    }

    /// The addresses that a run was started with and that are not permitted now.
    fn missing(&self, about: &RunManifest) -> Vec<String> {
        let is_permitted = |text: &String| {
            text.parse::<Permission>().is_ok_and(|one| self.allow_addresses.iter().any(|mine| mine.includes(&one)))
        };
        about.addresses.iter().filter(|text| !is_permitted(text)).cloned().collect()
    }

    /// The command that was given, with the addresses that it has from elsewhere.
    pub(in crate::cli) fn again(&self, again: Again) -> Again {
        let others = if self.chosen_addresses { &[][..] } else { &self.allow_addresses };
        again.permitting(others.iter().map(ToString::to_string).collect())
    }
}

impl Runs {
    /// The command that takes a run up, with the addresses that it was started with.
    pub(in crate::cli) fn to_take_up(&self, id: &str) -> String {
        match self.readable_about(id) {
            Ok(Ok(about)) if !about.addresses.is_empty() => {
                format!("wfhost resume {id} {ALLOW_ADDRESS} {}", about.addresses.join(","))
            }
            _ => format!("wfhost resume {id}"),
        }
    }
}
