//! What the API shows of a run, as commands know it from a folder.

use super::Row;
use crate::cli::report::error::{UserError, kind};
use crate::cli::store::{OwnerProcess, Ownership};
use crate::host::RunProjection;
use crate::host::control::{RunFacts, RunState, RunStatus};
use crate::journal::{QueuePlace, Stored};
use crate::process::Timestamp;
use crate::run::EndStatus;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::model::{self, Inputs};
use crate::workflow::syntax::{self, Source};
use serde_json::Value;
use std::sync::Arc;

/// The states of a run that a host has.
const OWNED: [&str; 4] = ["running", "waiting", "paused", "queued"];

/// The error of an answer that is not as the API's document says.
pub(super) fn unexpected(what: &str) -> UserError {
    UserError::new(kind::HOST_FAULT, format!("the server gave an unexpected answer: it has no {what}"))
        .hint("the server may be of another release: `wfhost top` shows it")
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

/// A time of RFC 3339.
pub(super) fn time(value: &Value, key: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text(value, key)?.parse().ok()?;
    Some(Timestamp(u64::try_from(at.as_microsecond()).unwrap_or(0)))
}

/// A run of a list. `server` is the process of the server.
pub(super) fn row(value: &Value, server: impl FnOnce() -> u32) -> Result<Row, UserError> {
    let word = text(value, "state").ok_or_else(|| unexpected("state"))?;
    let status = EndStatus::named(word);
    let pid = value["host"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let state = OWNED.into_iter().find(|state| *state == word);
    // A run that waits for a place may have no host.
    let is_owned = state.is_some() && (word != "queued" || pid.is_some() || !value["queue"].is_null());
    let ownership = match (status, is_owned) {
        (Some(_), _) => Ownership::Ended,
        (None, true) => Ownership::Owned(OwnerProcess { pid: pid.unwrap_or_else(server), socket: None }),
        (None, false) => Ownership::Orphaned,
    };
    let stored = Stored {
        row: 0,
        id: text(value, "id").ok_or_else(|| unexpected("id"))?.into(),
        name: text(value, "workflow").ok_or_else(|| unexpected("workflow"))?.into(),
        created: time(value, "created").ok_or_else(|| unexpected("created"))?,
        status,
        ended: time(value, "ended"),
        records: value["records"].as_u64().unwrap_or(0),
        owner: is_owned.then_some(0),
        damage: text(value, "damage").map(Into::into),
        group: text(value, "group").map(Into::into),
        queued: word == "queued",
        parked: false,
    };
    Ok(Row { stored, ownership, state: state.filter(|_| is_owned), queue: queue(&value["queue"]) })
}

fn queue(value: &Value) -> Option<QueuePlace> {
    let ahead = value["ahead"].as_array()?.iter().filter_map(Value::as_str).map(Arc::from).collect();
    Some(QueuePlace { number: value["number"].as_u64()?, waiting: value["waiting"].as_u64()?, ahead })
}

/// What a run does at this moment: as its server says, or, if it is not in memory there, as its
/// records say.
pub(super) fn live(detail: &Value, row: &Row, projection: &RunProjection) -> Option<RunStatus> {
    let Ownership::Owned(owner) = &row.ownership else { return None };
    if let Ok(live) = serde_json::from_value(detail["live"].clone()) {
        return Some(live);
    }
    let state = match row.state {
        Some("paused") => RunState::Paused,
        Some("queued") => RunState::Queued,
        Some("waiting") => RunState::Waiting,
        _ => return None,
    };
    let run = projection.state();
    let uncertain = run.uncertain();
    let facts = RunFacts {
        run: Arc::clone(&row.stored.id),
        host: owner.pid,
        state,
        stalled: false,
        processes: 0,
        uncertain: uncertain.len(),
        counts: run.counts(),
    };
    let queries = run.exposed().map(|(name, _)| Arc::clone(name)).collect();
    Some(RunStatus { facts, processes: Vec::new(), uncertain, queries, signals: run.signals() })
}

/// The inputs that a version of the API declares.
pub(in crate::cli) fn declared(version: &Value) -> Inputs {
    let text = |key: &str| version[key].as_str().unwrap_or_default();
    let source = Source::new(text("file"), text("source"));
    let mut problems = Diagnostics::new(source.clone());
    syntax::parse(&source, &mut problems).map(|root| model::read(&root, &mut problems).inputs).unwrap_or_default()
}

/// Returns whether a step of a workflow waits for a signal of this name, or of a name that only the
/// run itself knows.
pub(super) fn may_wait_for(file: &str, text: &str, name: &str) -> bool {
    let source = Source::new(file, text);
    let mut problems = Diagnostics::new(source.clone());
    let Some(root) = syntax::parse(&source, &mut problems) else { return true };
    let workflow = model::read(&root, &mut problems);
    let mut names = workflow.all_steps().flat_map(|step| step.action.signals());
    names.any(|waited| waited.as_text().is_none_or(|waited| waited == name || waited.contains("${")))
}
