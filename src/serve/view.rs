//! What the API shows of runs.

use super::folds::Folded;
use super::problem::{Answered, ProblemKind, ServeProblem};
use super::query::rfc3339;
use super::service::Service;
use crate::host::{Outcome, RunManifest, Status};
use crate::journal::{QueuePlace, Stored};
use crate::run::{Doing, Record};
use crate::workflow::interpreter::progress::{Cause, NodeProgress, Wait};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Records that are read at a time. The log of an unfinished run is read from its end back, so many
/// small pages would cost more than few large ones.
const PAGE: usize = 50_000;

/// Bytes of records that are folded at a time: more at once, since each reading begins at the end.
const FOLD_BYTES: usize = 16 << 20;

/// A run, as lists show it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Run)]
pub struct RunView {
    /// Its id.
    pub id: String,
    /// The name of its workflow.
    pub workflow: String,
    /// The number of the workflow's version, if it was deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// What it does: `running`, `waiting`, `paused`, `queued` (for a place in its concurrency
    /// group), `suspended` (no host has it), `damaged`, or how it ended: `succeeded`, `failed`,
    /// `cancelled`, `timed-out`.
    pub state: String,
    /// When it was started.
    pub created: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// By what it is found.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Why its records cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// Its concurrency group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Of one that waits for a place there: its `number`, how many are `waiting`, and the runs
    /// `ahead` that have the places, at most ten.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub queue: Option<Value>,
    /// The id of the operating system process that has it, if that is not this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// The number of its durable records; in a list only of one that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
}

/// A run with what happened in it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = RunDetail)]
pub struct RunDetail {
    /// As lists show it.
    #[serde(flatten)]
    pub run: RunView,
    /// What started it, such as `api`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_by: Option<String>,
    /// Who started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The run that it was made from, if it is a retry or a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_from: Option<MadeFrom>,
    /// The name of its workflow's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Of one that this server has in memory: its `facts`, `processes`, `uncertain`, `queries` and
    /// `signals` of this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub live: Option<Value>,
    /// Its steps.
    #[schema(value_type = Vec<Object>)]
    pub steps: Vec<Value>,
    /// The signals that it waits for or keeps: `name`, `waiting`, `kept`.
    #[schema(value_type = Vec<Object>)]
    pub signals: Vec<Value>,
    /// Its calls of unknown outcome: `pid`, `tag`, `handler`, `key`.
    #[schema(value_type = Vec<Object>)]
    pub uncertain: Vec<Value>,
    /// The names of values that it exposes.
    pub queries: Vec<String>,
    /// What it was started with. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub inputs: Option<Value>,
    /// Its outputs, if it succeeded. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// Why it did not succeed. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub problem: Option<Value>,
    /// Counts of what happened.
    #[schema(value_type = Object)]
    pub counts: Value,
}

/// What a run was made from.
#[derive(Debug, Serialize, ToSchema)]
pub struct MadeFrom {
    /// The id of the other run.
    pub run: String,
    /// `retry` or `fork`.
    pub by: &'static str,
    /// Of a fork: the number of the last record that both have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
}

/// How a run ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Outcome)]
pub struct OutcomeView {
    /// The id of the run.
    pub run: String,
    /// `succeeded`, `failed`, `cancelled` or `timed-out`.
    pub status: String,
    /// Its outputs, if it succeeded. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// Why it did not succeed. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub problem: Option<Value>,
    /// Counts of what happened.
    #[schema(value_type = Object)]
    pub counts: Value,
}

impl OutcomeView {
    /// The outcome, with its payload for those who may see it.
    pub(in crate::serve) fn of(outcome: &Outcome, with_payload: bool) -> Self {
        let mut value = outcome.to_json();
        let mut take = |key: &str| value.get_mut(key).map(Value::take);
        let (outputs, problem) = (take("outputs"), take("problem"));
        Self {
            run: outcome.run.to_string(),
            status: status_word(outcome.status),
            outputs: outputs.filter(|_| with_payload),
            problem: problem.filter(|_| with_payload),
            counts: take("counts").unwrap_or_default(),
        }
    }
}

fn status_word(status: Status) -> String {
    json!(status).as_str().unwrap_or_default().to_owned()
}

impl Service {
    /// A run, as lists show it.
    pub(in crate::serve) fn run_view(&self, stored: &Stored, manifest: Option<&RunManifest>) -> RunView {
        RunView {
            id: stored.id.to_string(),
            workflow: stored.name.to_string(),
            version: manifest.and_then(|manifest| Some(manifest.notes.version?.number)),
            state: self.state_of(stored),
            created: rfc3339(stored.created),
            ended: stored.ended.map(rfc3339),
            labels: manifest.map(|manifest| manifest.notes.labels.clone()).unwrap_or_default(),
            damage: stored.damage.as_ref().map(ToString::to_string),
            group: stored.group.as_ref().map(ToString::to_string),
            queue: self.queue_of(stored).map(|place| json!(place)),
            host: self.process_of(stored),
            records: stored.status.map(|_| stored.records),
        }
    }

    /// The place of a run in the queue of its concurrency group, if it waits there.
    fn queue_of(&self, stored: &Stored) -> Option<QueuePlace> {
        let waits = stored.status.is_none() && stored.queued;
        waits.then(|| self.store.queue_place(&stored.id).ok().flatten()).flatten()
    }

    /// The other process that has a run.
    fn process_of(&self, stored: &Stored) -> Option<u32> {
        stored.owner.filter(|_| stored.status.is_none())?;
        let is_here = self.host.parked_run(&stored.id).is_some() || self.host.run_of(&stored.id).is_some();
        let owner = (!is_here).then(|| self.store.owner_of(&stored.id).ok().flatten()).flatten()?;
        owner.pid.filter(|pid| owner.alive && *pid != std::process::id())
    }

    /// What a run does. A parked one stays parked.
    pub(in crate::serve) fn state_of(&self, stored: &Stored) -> String {
        if let Some(status) = stored.status {
            return status.name().to_owned();
        }
        if stored.queued && stored.damage.is_none() {
            return "queued".to_owned();
        }
        if let Some(parked) = self.host.parked_run(&stored.id) {
            return if parked.is_paused { "paused" } else { "waiting" }.to_owned();
        }
        if let Some(run) = self.host.run_of(&stored.id) {
            let is_busy = |doing| matches!(doing, Doing::Queued | Doing::Starting | Doing::Running | Doing::Cancelling);
            let word = if run.inner().is_paused() {
                "paused"
            } else if run.processes().iter().any(|process| is_busy(process.doing)) {
                "running"
            } else {
                "waiting"
            };
            return word.to_owned();
        }
        if stored.damage.is_some() {
            return "damaged".to_owned();
        }
        if stored.parked {
            return "waiting".to_owned();
        }
        let owner = self.store.owner_of(&stored.id).ok().flatten();
        if owner.is_some_and(|owner| owner.alive) { "running" } else { "suspended" }.to_owned()
    }

    /// The run as its records give it: those of a long run that were read before are not read
    /// again.
    pub(in crate::serve) fn projection(&self, id: &str) -> Answered<Folded<'_>> {
        let stored = self.store.run(id)?.ok_or_else(|| ServeProblem::unknown(format_args!("run `{id}`")))?;
        let mut folded = self.folds.take(&stored);
        let from = folded.records + 1;
        let Folded { projection, records, .. } = &mut folded;
        self.each_record(id, from, None, |number, record| {
            projection.apply(record, &mut |_| {});
            *records = number;
            true
        })?;
        Ok(folded)
    }

    /// Reads the records of a run from number `from` to `to`, one page after the other, until
    /// `apply` returns false. It is given the number of each.
    pub(in crate::serve) fn each_record(
        &self,
        id: &str,
        from: u64,
        to: Option<u64>,
        mut apply: impl FnMut(u64, &Record) -> bool,
    ) -> Answered<()> {
        let mut next = from;
        loop {
            let left = to.map_or(u64::MAX, |to| to.saturating_add(1).saturating_sub(next));
            let limit = usize::try_from(left).unwrap_or(usize::MAX).min(PAGE);
            if limit == 0 {
                return Ok(());
            }
            let records = self.records_within(id, next, (limit, FOLD_BYTES))?;
            if records.is_empty() {
                return Ok(());
            }
            for record in &records {
                if !apply(next, record) {
                    return Ok(());
                }
                next += 1;
            }
        }
    }

    /// At most so many records of a run and so many bytes of them, but at least one if there is
    /// one, from number `from` on.
    pub(in crate::serve) fn records_within(
        &self,
        id: &str,
        from: u64,
        (limit, bytes_max): (usize, usize),
    ) -> Answered<Vec<Record>> {
        let records = self.store.records_within(id, from, limit, bytes_max)?;
        Record::decode_all(records).map_err(|error| ServeProblem::new(ProblemKind::Damaged).detail(error.to_string()))
    }

    /// At most `limit` records of a run, from number `from` on, as [`Record::decode_run`] reads
    /// them.
    pub(in crate::serve) fn records(&self, id: &str, from: u64, limit: usize) -> Answered<Vec<Record>> {
        let records = self.store.records_from(id, from, limit)?;
        let damaged =
            |error: crate::run::DamagedRecord| ServeProblem::new(ProblemKind::Damaged).detail(error.to_string());
        let records = Record::decode_run(records).map_err(damaged)?;
        self.host.recall(id, &records);
        Ok(records)
    }

    /// What a run was started with.
    pub(in crate::serve) fn manifest(&self, id: &str) -> Option<RunManifest> {
        RunManifest::read(&self.store.manifest(id).ok()??).ok()
    }

    /// A run with what happened in it.
    pub(in crate::serve) fn run_detail(&self, stored: &Stored, with_payloads: bool) -> Answered<RunDetail> {
        let manifest = self.manifest(&stored.id);
        let mut run = self.run_view(stored, manifest.as_ref());
        let projection = self.projection(&stored.id)?;
        let mut outcome = projection
            .outcome(&stored.id)
            .filter(|_| stored.status.is_some())
            .map(|outcome| OutcomeView::of(&outcome, with_payloads));
        let (file, notes) = manifest.map(|manifest| (manifest.file, manifest.notes)).unzip();
        let notes = notes.unwrap_or_default();
        let state = projection.state();
        let inputs = state.started().and_then(|started| match &started.input {
            crate::process::Payload::Json(json) => Some(json.to_value()),
            _ => None,
        });
        run.records = Some(state.counts().records);
        let is_open = stored.status.is_none();
        let live = is_open.then(|| self.host.status_of(&stored.id)).flatten();
        let uncertain = if is_open { state.uncertain() } else { projection.given_up().to_vec() };
        let signals = if is_open { state.signals() } else { Vec::new() };
        Ok(RunDetail {
            run,
            started_by: notes.started_by,
            author: notes.author,
            made_from: projection.origin().map(|origin| MadeFrom {
                run: origin.run.to_string(),
                by: if origin.record == 0 { "retry" } else { "fork" },
                record: Some(origin.record).filter(|record| *record > 0),
            }),
            file,
            live: live.map(|live| json!(live)),
            steps: projection.steps().iter().map(|step| step_json(step, with_payloads)).collect(),
            signals: signals.iter().map(|signal| json!(signal)).collect(),
            uncertain: uncertain.iter().map(|call| json!(call)).collect(),
            queries: state.exposed().map(|(name, _)| name.to_string()).collect(),
            inputs: inputs.filter(|_| with_payloads),
            outputs: outcome.as_mut().and_then(|outcome| outcome.outputs.take()),
            problem: outcome.as_mut().and_then(|outcome| outcome.problem.take()),
            counts: json!(state.counts()),
        })
    }
}

/// A step, with times in RFC 3339, and what it waits for in one object. Its error is a payload.
pub(in crate::serve) fn step_json(node: &NodeProgress, with_payloads: bool) -> Value {
    let mut value = json!(node);
    if let Some(step) = value.as_object_mut() {
        step.remove("holds");
        if !with_payloads {
            step.remove("error");
        }
        if let Some(deadline) = node.deadline {
            step.insert("deadline".to_owned(), json!(rfc3339(deadline)));
        }
        if let Some(from) = &node.cached_from {
            step.insert("cached-from".to_owned(), json!({ "run": from.run, "at": rfc3339(from.at) }));
        }
        if !node.waits.is_empty() {
            step.insert("waits".to_owned(), node.waits.iter().map(|wait| wait_json(wait, with_payloads)).collect());
        }
    }
    value
}

/// A wait. The title of the problem of the attempt before is a payload.
fn wait_json(Wait { cause, item, since, until }: &Wait, with_payloads: bool) -> Value {
    let mut value = match cause {
        Cause::Any { names } => json!({ "for": "any", "names": names }),
        Cause::Signal { name } => json!({ "for": "signal", "name": name }),
        Cause::Time => json!({ "for": "time" }),
        Cause::Turn { turn } => json!({ "for": "turn", "turn": turn }),
        Cause::Attempt { attempt, attempts_max, kind, title } => json!({
            "for": "attempt", "attempt": attempt, "attempts-max": attempts_max, "kind": kind, "title": title,
        }),
    };
    if !with_payloads && let Some(wait) = value.as_object_mut() {
        wait.remove("title");
    }
    value["item"] = json!(item);
    value["since"] = json!(rfc3339(*since));
    value["until"] = json!(until.map(rfc3339));
    value
}
