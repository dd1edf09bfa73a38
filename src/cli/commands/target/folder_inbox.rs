//! What waits for a person, over all runs of a data folder.
//!
//! It is read from the records of the unfinished runs, which no host need have. Of a run that a
//! host has, the host's own calls in flight are not uncertain: there it counts what the host has
//! written when it parked the run.

use crate::cli::report::error::CommandError;
use crate::cli::store::{Ownership, OwnershipCache, Runs};
use crate::host::RunProjection;
use crate::journal::catalog::{InboxFilter, WaitingRun};
use crate::journal::{Filter, Stored};
use crate::process::Json;
use crate::run::{Awaited, AwaitedKind};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What the unfinished runs of a folder wait for, the longest wait first.
pub(super) fn waiting(runs: &Runs, filter: &InboxFilter) -> Result<Vec<WaitingRun>, CommandError> {
    let rows = runs.store.waiting(&InboxFilter::default())?;
    let is_call = |row: &&WaitingRun| row.awaited.kind == AwaitedKind::Uncertain;
    let written: HashSet<_> = rows.iter().filter(is_call).map(|row| (&row.run, &row.awaited.name)).collect();
    let mut owners = OwnershipCache::default();
    let mut waiting = Vec::new();
    for stored in runs.store.list(&Filter { ended: Some(false), ..Filter::default() })? {
        // A damaged run waits for nothing that helps, and it may have been removed meanwhile.
        let Ok(projection) = runs.readable_projection(&stored.id)? else { continue };
        let is_owned = matches!(owners.ownership(runs, &stored)?, Ownership::Owned(_));
        let is_uncertain = |name: &Arc<str>| !is_owned || written.contains(&(&stored.id, name));
        waiting.extend(of_run(&stored, &projection, &is_uncertain).into_iter().filter(|one| filter.fits(one)));
    }
    waiting.sort_by_key(WaitingRun::place);
    Ok(waiting)
}

fn of_run(stored: &Stored, projection: &RunProjection, is_uncertain: &dyn Fn(&Arc<str>) -> bool) -> Vec<WaitingRun> {
    let mut signals = BTreeMap::new();
    for wait in projection.state().signal_waits() {
        signals.entry(Arc::clone(&wait.name)).or_insert(wait);
    }
    let signals = signals.into_values().map(|wait| Awaited {
        kind: AwaitedKind::Signal,
        name: wait.name,
        since: wait.since,
        detail: wait.prompt,
    });
    let calls = projection.state().uncertain().into_iter().map(|call| Awaited {
        kind: AwaitedKind::Uncertain,
        name: format!("{}/{}", call.pid.0, call.tag.0).into(),
        since: call.since,
        detail: Some(Json::from_value(&json!({ "handler": call.handler, "key": call.key }))),
    });
    let calls = calls.filter(|call| is_uncertain(&call.name));
    let (run, workflow) = (&stored.id, &stored.name);
    let of_run = |awaited| WaitingRun { run: Arc::clone(run), workflow: Arc::clone(workflow), awaited };
    signals.chain(calls).map(of_run).collect()
}
