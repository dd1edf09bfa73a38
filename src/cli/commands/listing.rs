//! What `ls`, `ps` and `status` say of a run in the same words.

use crate::cli::store::Whose;
use crate::cli::table::rfc3339;
use crate::journal::Stored;
use serde_json::{Value, json};

/// The state of a run whose host lives and does not answer.
pub(in crate::cli) const SILENT: &str = "silent";

/// What lists say of a run.
pub(in crate::cli) fn run_json(stored: &Stored, whose: &Whose) -> Value {
    let mut value = json!({
        "run": stored.id,
        "workflow": stored.name,
        "status": status_name(stored, whose),
        "started": rfc3339(stored.created),
        "ended": stored.ended.map(rfc3339),
        // What the store says of a run that has an owner is from some time ago.
        "records": stored.owner.is_none().then_some(stored.records),
    });
    if let Whose::Living(owner) = whose {
        value["host"] = json!(owner.pid);
    }
    if let Some(damage) = stored.damage.as_ref().filter(|_| !matches!(whose, Whose::Living(_))) {
        value["damage"] = json!(damage);
    }
    value
}

/// What a run is.
pub(in crate::cli) fn status_name(stored: &Stored, whose: &Whose) -> &'static str {
    match (stored.status, whose) {
        (Some(status), _) => status.name(),
        (None, Whose::Living(_)) => "running",
        (None, _) if stored.damage.is_some() => "damaged",
        (None, _) => "suspended",
    }
}
