//! The concurrency group of a run that begins.

use super::{Host, LoadError, RunHandle, Workflow};
use crate::journal::{GroupEntry, StoreError};
use crate::run::{self, Act};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// The id of the act by which runs end in favour of another of their group. The first one counts.
const SUPERSEDED: &str = "concurrency-group";

/// How long one wait for a transaction takes, before the next.
const WAIT: Duration = Duration::from_mins(1);

impl Host {
    /// Returns the group of a run with these inputs, if its workflow has one.
    pub(super) fn group_of(
        &self,
        id: &Arc<str>,
        workflow: &Workflow,
        inputs: &Map<String, Value>,
    ) -> Result<Option<GroupEntry>, LoadError> {
        let Some(concurrency) = &workflow.plan.concurrency else { return Ok(None) };
        let group = concurrency.group_of(&self.shared.jq, inputs).map_err(LoadError::Group)?;
        let reason = format!("the run {id} of the concurrency group {group:?} takes its place");
        Ok(Some(GroupEntry {
            group: group.into(),
            limit: concurrency.limit,
            on_limit: concurrency.on_limit,
            queue_max: concurrency.queue_max,
            cancel: Act::Cancel { reason: reason.into(), grace: None }.to_mail(SUPERSEDED),
        }))
    }

    /// Waits until the transaction that begins a run of a group has decided whether it has a place,
    /// waits for one, or does not begin.
    pub(super) fn await_place(&self, run: &run::RunHandle) -> Result<(), LoadError> {
        if let Some(started) = run.started() {
            while let Ok(None) = started.wait_for(WAIT) {}
        }
        let refused = self.shared.data.as_ref().and_then(|data| data.groups.take_refused(run.id()));
        match refused {
            None => Ok(()),
            Some(error) => Err(LoadError::of_begin(error)),
        }
    }
}

impl LoadError {
    /// Why a run does not begin.
    pub(super) fn of_begin(error: StoreError) -> Self {
        match error {
            StoreError::Exists(id) | StoreError::Owned { run: id, .. } => Self::Exists { id: id.to_string() },
            StoreError::NoPlace { group, run } => Self::NoPlace { group: group.to_string(), run: run.to_string() },
            StoreError::QueueFull { group, waiting } => Self::QueueFull { group: group.to_string(), waiting },
            error => Self::Journal(error),
        }
    }
}

impl RunHandle {
    /// Returns whether the run waits for a place in its concurrency group.
    pub fn is_queued(&self) -> bool {
        self.run.is_queued()
    }
}
