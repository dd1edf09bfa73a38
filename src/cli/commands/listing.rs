//! What `ls`, `ps` and `status` show of a run in the same words.

use crate::cli::store::Ownership;
use crate::cli::store::Runs;
use crate::cli::table::rfc3339;
use crate::journal::{QueuePlace, StoreError, Stored};
use serde_json::{Value, json};

/// The state of a run whose host is alive and does not answer.
pub(in crate::cli) const SILENT: &str = "silent";

/// A run as JSON, as lists print it.
pub(in crate::cli) fn run_json(stored: &Stored, ownership: &Ownership) -> Value {
    let mut value = json!({
        "run": stored.id,
        "workflow": stored.name,
        "status": status_name(stored, ownership),
        "started": rfc3339(stored.created),
        "ended": stored.ended.map(rfc3339),
        // The stored number is stale while a run has an owner.
        "records": stored.owner.is_none().then_some(stored.records),
    });
    if let Ownership::Owned(owner) = ownership {
        value["host"] = json!(owner.pid);
    }
    if let Some(damage) = stored.damage.as_ref().filter(|_| !matches!(ownership, Ownership::Owned(_))) {
        value["damage"] = json!(damage);
    }
    if let Some(group) = &stored.group {
        value["group"] = json!(group);
    }
    value
}

/// Returns the place of a run in the queue of its concurrency group, if it waits for one.
pub(in crate::cli) fn queue_place(runs: &Runs, stored: &Stored) -> Result<Option<QueuePlace>, StoreError> {
    if stored.status.is_some() || !stored.queued {
        return Ok(None);
    }
    match runs.store.queue_place(&stored.id) {
        // It was removed meanwhile.
        Err(StoreError::Unknown(_)) => Ok(None),
        place => place,
    }
}

/// A place in a queue, as lists show it.
pub(in crate::cli) fn queue_text(stored: &Stored, place: &QueuePlace) -> String {
    let group = stored.group.as_deref().unwrap_or_default();
    match place.number {
        0 => format!("queued (replaced in {group})"),
        number => format!("queued ({number} of {} in {group})", place.waiting),
    }
}

/// The status of a run, as lists show it.
pub(in crate::cli) fn status_name(stored: &Stored, ownership: &Ownership) -> &'static str {
    match (stored.status, ownership) {
        (Some(status), _) => status.name(),
        (None, Ownership::Owned(_)) => "running",
        (None, _) if stored.damage.is_some() => "damaged",
        (None, _) => "suspended",
    }
}
