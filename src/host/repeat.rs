//! Replaying, forking and retrying runs.

use super::RunManifest;
use super::start::{Beginning, fresh_id};
use super::{Host, LoadError, RecoverError, RunHandle, RunOptions, StartNotes, Workflow};
use crate::journal::{Filter, StoreError};
use crate::process::{Payload, Program};
use crate::run::{
    ForkError, ForkSpec, Origin, RebuildError, Record, Replay, ReplaySpec, ReplayedStep, Started, fork, repeats, replay,
};
use crate::workflow::interpreter::{
    FormerRun, RETRY, RepeatError, RepeatInput, RepeatOptions, Repetition, Rerun, Undone, VERSION, WorkflowProgram,
    repeat, version_of,
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The label of a run that retries one in which something was undone: the id of that one. By it the
/// retry is found before there is a second one, which would use the same keys.
pub(super) const RETRIES: &str = "wfhost.retries";

/// How a run is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayOptions {
    /// The number of the last record to replay, from 1; `None`: all.
    pub until: Option<u64>,
    /// Whether components differ on purpose from those that the run began with: they are compared
    /// by what they do.
    pub substituted: bool,
}

/// How a run is forked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ForkOptions {
    /// The number of the last record that the new run begins with, from 1.
    pub at: u64,
    /// The new run's id; `None`: a fresh one.
    pub id: Option<String>,
    /// Whether the workflow or its components differ on purpose from those that the run began with:
    /// they must have done the same so far.
    pub substituted: bool,
    /// Inputs that differ from those of the run: its steps must have done the same so far.
    pub inputs: Map<String, Value>,
    /// Whether calls that were in flight at the cut are sent again under their keys, including
    /// those that are not safe to repeat.
    pub resend: bool,
    /// What is noted of the start of the new run.
    pub notes: StartNotes,
    /// As [`RunOptions::blob_holders`], for inputs that differ.
    pub blob_holders: Vec<Arc<str>>,
}

/// How a run is retried.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RetryOptions {
    /// Which steps run again besides those that did not succeed.
    pub again: Rerun,
    /// Inputs that differ from those of the run.
    pub inputs: Map<String, Value>,
    /// Whether components differ on purpose: what succeeded with the former ones is taken over all
    /// the same.
    pub substituted: bool,
    /// Whether new idempotency keys are used in place of those of the run.
    pub new_keys: bool,
    /// What the operator found out about steps that may be undone.
    pub undone: Undone,
}

/// The retry of a run, before it is started.
#[derive(Clone, PartialEq, Debug)]
pub struct PreparedRetry {
    /// Which steps are taken over, and which run again.
    pub repetition: Repetition,
    /// Inputs of the other run that the workflow does not declare: they are omitted.
    pub undeclared: Vec<String>,
    /// The run that is retried.
    run: Arc<str>,
    /// What keys begin with; `None`: the new run's id.
    keys: Option<Arc<str>>,
    /// The version of the interpreter: an unchanged workflow keeps its meaning.
    version: u32,
}

/// Why a run cannot be forked or retried.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RerunError {
    /// The run cannot be read.
    #[error(transparent)]
    TakeUp(#[from] RecoverError),
    /// The new run cannot be started.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The run cannot be forked at this record.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// The run is itself a retry: with another workflow or other inputs, what it has taken over may
    /// differ.
    #[error("the run repeats another one: it is forked with its own workflow and inputs only")]
    TakenOver,
    /// Something of the run was undone, and what another retry did again may be undone, too: the
    /// same keys would not do it again.
    #[error("steps of it were undone, and `{by}` retries it already")]
    Retried {
        /// The other retry.
        by: Arc<str>,
    },
    /// The run cannot be retried like this.
    #[error(transparent)]
    Repeat(#[from] RepeatError),
    /// The new run cannot be written.
    #[error(transparent)]
    Journal(#[from] StoreError),
}

crate::base::report_debug::report_debug!(RerunError);

impl PreparedRetry {
    /// Where the run with this id comes from. The former keys are moved there.
    pub(crate) fn take_origin(&mut self, id: &Arc<str>) -> Origin {
        Origin {
            run: Arc::clone(&self.run),
            record: 0,
            keys: self.keys.clone().unwrap_or_else(|| Arc::clone(id)),
            seen_as: Arc::clone(id),
            held: Vec::new(),
            former_keys: std::mem::take(&mut self.repetition.former_keys),
        }
    }
}

impl Host {
    /// Replays a run from its records, without effects, and compares every step. `workflow` is the
    /// one that it began with, or one with other components. Its guests take no slots of the pool.
    ///
    /// # Errors
    /// Fails if the records are not of a run of this workflow, or there is no room for its guests.
    pub fn replay(
        &self,
        workflow: &Workflow,
        records: &[Record],
        options: ReplayOptions,
        on_step: impl FnMut(ReplayedStep<'_>),
    ) -> Result<Replay, RebuildError> {
        self.replay_while(workflow, records, options, || true, on_step)
    }

    /// As [`Self::replay`], as long as `goes_on` says so before each record: the answer counts the
    /// records that were read.
    ///
    /// # Errors
    /// As [`Self::replay`].
    pub fn replay_while(
        &self,
        workflow: &Workflow,
        records: &[Record],
        options: ReplayOptions,
        mut goes_on: impl FnMut() -> bool,
        on_step: impl FnMut(ReplayedStep<'_>),
    ) -> Result<Replay, RebuildError> {
        let ReplayOptions { until, substituted } = options;
        let spec = ReplaySpec {
            root: self.root_for(workflow, records),
            programs: (*workflow.programs).clone(),
            substituted,
            until,
            budget: Some(Arc::clone(self.shared.guests.on_demand_memory())),
        };
        replay(spec, records.iter().take_while(|_| goes_on()), on_step)
    }

    /// Makes a new durable run of the first records of another, and returns its id. No host owns it
    /// until [`Host::recover`]. `workflow` is the one of the other run, or one with other steps or
    /// components, which must have done the same so far.
    ///
    /// # Errors
    /// Fails if there is no such run or record, the run has ended there, the changed parts diverge,
    /// the inputs do not fit, or the new run cannot be written.
    pub fn fork(&self, workflow: &Workflow, run: &str, options: ForkOptions) -> Result<Arc<str>, RerunError> {
        let ForkOptions { at, id, substituted, inputs, resend, notes, blob_holders } = options;
        self.check_secrets(workflow)?;
        let id: Arc<str> = id.unwrap_or_else(fresh_id).into();
        let journal = self.journal().map_err(RecoverError::from)?.ok_or(RecoverError::NoJournal)?;
        let records = journal.records(run)?;
        let here = RunManifest::new(workflow, &Map::new());
        let is_other =
            !inputs.is_empty() || (substituted && !journal.manifest(run)?.has_text(&here.source, &here.components));
        let other = match records.first() {
            // What it has taken over is in its first record, so those steps cannot be compared.
            Some(Record::Started(before)) if is_other && &*before.entry == RETRY => return Err(RerunError::TakenOver),
            Some(Record::Started(before)) if is_other => {
                Some((other_input(before, workflow, inputs)?, workflow.plan.grants()))
            }
            _ => None,
        };
        let started = fork(
            &records,
            ForkSpec {
                id: Arc::clone(&id),
                at,
                root: self.root_for(workflow, &records),
                programs: (*workflow.programs).clone(),
                substituted,
                resend,
                other,
                budget: Some(Arc::clone(self.shared.guests.on_demand_memory())),
            },
        )?;
        self.inherit_blobs(run, &id).map_err(|error| RerunError::Load(LoadError::Blobs(error)))?;
        self.give_blobs(&id, &inputs_of(&started), &blob_holders)?;
        let new = self.prepare_new(&id, workflow, &inputs_of(&started), &notes, "fork")?;
        let mut first = Vec::new();
        Record::Started(Box::new(started)).encode(&mut first);
        journal.store().fork(run, &new, at, &first).map_err(|error| match error {
            StoreError::NoPlace { .. } | StoreError::QueueFull { .. } => RerunError::Load(LoadError::of_begin(error)),
            error => RerunError::Journal(error),
        })?;
        Ok(id)
    }

    /// Prepares the retry of a run that has ended: which of its steps are taken over, and why the
    /// others run again. `original` is the workflow of the run, and `workflow` that of the new one.
    /// Starts nothing.
    ///
    /// # Errors
    /// Fails if the run has not ended, no step would run again, there is no such step, the inputs
    /// do not fit, something was undone and the run was retried before, or it is not known what was
    /// undone.
    pub fn prepare_retry(
        &self,
        original: &Workflow,
        records: &[Record],
        workflow: &Workflow,
        options: RetryOptions,
    ) -> Result<PreparedRetry, RerunError> {
        let RetryOptions { again, inputs, substituted, new_keys, undone } = options;
        let mut known = match records.first() {
            Some(Record::Started(before)) => inputs_of(before),
            _ => Map::new(),
        };
        let undeclared = remove_undeclared(&mut known, workflow);
        drop_former_defaults(&mut known, original, workflow);
        known.extend(inputs);
        let former = FormerRun { plan: &original.plan, records };
        let repeating = RepeatOptions {
            plan: &workflow.plan,
            again: &again,
            inputs: known,
            substituted,
            new_keys,
            undone: &undone,
        };
        let repetition = repeat(&self.shared.jq, &former, &repeating)?;
        let Some(Record::Started(before)) = records.first() else {
            unreachable!("invariant: a run that can be rebuilt begins with its start")
        };
        if repetition.undone && !new_keys {
            let retries = Filter {
                labels: vec![(RETRIES.to_owned(), before.run.to_string())],
                limit: Some(1),
                ..Filter::default()
            };
            let other = self.opened().map_or(Ok(Vec::new()), |(_, journal)| journal.store().list(&retries))?;
            if let Some(other) = other.into_iter().next() {
                return Err(RerunError::Retried { by: other.id });
            }
        }
        let keys = (!new_keys).then(|| repeats(before.keys()));
        let version =
            if workflow.source().text() == original.source().text() { version_of(&before.root) } else { VERSION };
        Ok(PreparedRetry { repetition, undeclared, run: Arc::clone(&before.run), keys, version })
    }

    /// Starts a retry that [`Self::prepare_retry`] has prepared with this workflow.
    ///
    /// # Errors
    /// Fails if the new run cannot be started.
    pub fn retry(
        &self,
        workflow: &Workflow,
        mut retrial: PreparedRetry,
        mut options: RunOptions,
    ) -> Result<RunHandle, LoadError> {
        let id: Arc<str> = options.id.clone().unwrap_or_else(fresh_id).into();
        let run = Arc::clone(&retrial.run);
        let origin = Some(retrial.take_origin(&id));
        let PreparedRetry { repetition, keys, version, .. } = retrial;
        if keys.is_none() && id == run {
            // The other run may be gone from the journal by now: its keys would be used again.
            return Err(LoadError::Exists { id: id.to_string() });
        }
        options.notes.labels.remove(RETRIES);
        if repetition.undone {
            options.notes.labels.insert(RETRIES.to_owned(), run.to_string());
        }
        let beginning = Beginning {
            entry: RETRY,
            input: Payload::json(&repetition.input),
            inputs: object(repetition.input.inputs),
            origin,
            id,
            root: self.root_of_version(workflow, version),
        };
        self.begin(workflow, beginning, options)
    }

    /// Returns the program for a run of these records: the version of the interpreter that began
    /// it.
    pub(super) fn root_for(&self, workflow: &Workflow, records: &[Record]) -> Arc<dyn Program> {
        match records.first() {
            Some(Record::Started(started)) => self.root_of_version(workflow, version_of(&started.root)),
            _ => Arc::clone(&workflow.root),
        }
    }

    fn root_of_version(&self, workflow: &Workflow, version: u32) -> Arc<dyn Program> {
        if version == VERSION {
            return Arc::clone(&workflow.root);
        }
        Arc::new(WorkflowProgram::of_version(Arc::clone(&workflow.plan), Arc::clone(&self.shared.jq), version))
    }
}

/// Removes the inputs that a workflow does not declare, and returns their names.
fn remove_undeclared(inputs: &mut Map<String, Value>, workflow: &Workflow) -> Vec<String> {
    let declared = |name: &str| workflow.plan.inputs.0.iter().any(|input| input.name == name);
    let undeclared: Vec<String> = inputs.keys().filter(|name| !declared(name)).cloned().collect();
    inputs.retain(|name, _| declared(name));
    undeclared
}

/// Removes the inputs that have the default of the former workflow, if the new workflow has another
/// default.
fn drop_former_defaults(inputs: &mut Map<String, Value>, former: &Workflow, now: &Workflow) {
    let default = |workflow: &Workflow, name: &str| {
        let input = workflow.plan.inputs.0.iter().find(|input| input.name == name);
        input.and_then(|input| input.schema.default.clone())
    };
    inputs.retain(|name, value| {
        let known = default(former, name);
        known.as_ref() != Some(&*value) || known == default(now, name)
    });
}

/// Makes the input of the root with other inputs, or by another workflow.
fn other_input(before: &Started, workflow: &Workflow, others: Map<String, Value>) -> Result<Payload, RerunError> {
    let mut inputs = inputs_of(before);
    remove_undeclared(&mut inputs, workflow);
    inputs.extend(others);
    let inputs = workflow.plan.inputs.accept(inputs).map_err(|violations| {
        LoadError::Inputs(violations.into_iter().map(|one| (one.pointer, one.message)).collect())
    })?;
    Ok(Payload::json(&inputs))
}

/// Returns the inputs of the workflow that a run began with.
fn inputs_of(started: &Started) -> Map<String, Value> {
    let Payload::Json(json) = &started.input else { return Map::new() };
    if &*started.entry == RETRY {
        return serde_json::from_str(json.as_str()).map_or_else(|_| Map::new(), |all: RepeatInput| object(all.inputs));
    }
    object(json.to_value())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
