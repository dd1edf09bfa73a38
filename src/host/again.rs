//! Runs that were: replaying, forking and repeating them.

use super::start::{Beginning, fresh_id};
use super::{Host, LoadError, RunHandle, RunOptions, TakeUpError, Workflow};
use crate::journal::{Journal as _, StoreError};
use crate::process::Payload;
use crate::run::{
    ForkError, ForkSpec, Origin, RebuildError, Record, Replay, ReplaySpec, ReplayedStep, Started, fork, replay,
};
use crate::workflow::interpreter::{Again, RETRY, RepeatError, Repeated, repeat};
use serde_json::{Map, Value};
use std::sync::Arc;

/// How a run is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayOptions {
    /// The number of the last record that is looked at, from 1; none: all.
    pub until: Option<u64>,
    /// Whether components are others than those that the run began with, on purpose: they are compared by what they do.
    pub substituted: bool,
}

/// How a run is forked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForkOptions {
    /// The number of the last record that the new run has too, from 1.
    pub at: u64,
    /// The new run's id; none: a fresh one.
    pub id: Option<String>,
    /// Whether components are others than those that the run began with, on purpose: they must have done the same so far.
    pub substituted: bool,
    /// Whether calls that were in flight at the cut are sent again, under their keys; also those that are not safe to repeat.
    pub resend: bool,
}

/// Why a run is not forked or repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgainError {
    /// It cannot be read.
    #[error(transparent)]
    TakeUp(#[from] TakeUpError),
    /// The new run cannot be started.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It cannot be forked there.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// It cannot be repeated so.
    #[error(transparent)]
    Repeat(#[from] RepeatError),
    /// The new run cannot be written.
    #[error(transparent)]
    Journal(#[from] StoreError),
}

impl Host {
    /// Steps a run again from its records, without effects, and compares every step. `workflow` is the one that it began with, or one whose
    /// components are others. Its guests take no slots of the pool.
    ///
    /// # Errors
    /// The records are not of a run of this workflow, or there is no room for its guests.
    pub fn replay(
        &self,
        workflow: &Workflow,
        records: &[Record],
        options: ReplayOptions,
        on_step: impl FnMut(ReplayedStep<'_>),
    ) -> Result<Replay, RebuildError> {
        let ReplayOptions { until, substituted } = options;
        let spec = ReplaySpec {
            root: Arc::clone(&workflow.root),
            programs: (*workflow.programs).clone(),
            substituted,
            until,
            budget: Some(Arc::clone(self.shared.guests.on_demand_memory())),
        };
        replay(spec, records, on_step)
    }

    /// Makes a new durable run of the first records of another, and gives its id. It is nobody's: [`Host::resume`] takes it up. `workflow` is
    /// the one of the other run, or one whose components are others, which must have done the same so far.
    ///
    /// # Errors
    /// There is no such run or record, the run has ended there, other components would have done otherwise, or it cannot be written.
    pub fn fork(&self, workflow: &Workflow, run: &str, options: ForkOptions) -> Result<Arc<str>, AgainError> {
        let ForkOptions { at, id, substituted, resend } = options;
        let id: Arc<str> = id.unwrap_or_else(fresh_id).into();
        let journal = self.journal().map_err(TakeUpError::from)?.ok_or(TakeUpError::NoJournal)?;
        let records = journal.records(run)?;
        let started = fork(
            &records,
            ForkSpec {
                id: Arc::clone(&id),
                at,
                root: Arc::clone(&workflow.root),
                programs: (*workflow.programs).clone(),
                substituted,
                resend,
                budget: Some(Arc::clone(self.shared.guests.on_demand_memory())),
            },
        )?;
        let new = self.keep(&id, workflow, &inputs_of(&started))?;
        let mut first = Vec::new();
        Record::Started(Box::new(started)).encode(&mut first);
        journal.store().fork(run, &new, at, &first)?;
        Ok(id)
    }

    /// Starts a run that repeats another, which has ended: steps of it that succeeded are taken as done. What is run again has the
    /// idempotency keys that it had, so that a server recognises what may have happened. `original` is the workflow of the other run, and
    /// `workflow` that of the new one: the same, or one with other components.
    ///
    /// # Errors
    /// The other run has not ended, nothing of it failed, there is no such step, or the new run cannot be started.
    pub fn retry(
        &self,
        original: &Workflow,
        records: &[Record],
        again: &Again,
        workflow: &Workflow,
        options: RunOptions,
    ) -> Result<RunHandle, AgainError> {
        let (repeated, former_keys) = repeat(&original.plan, &self.shared.jq, records, again)?;
        let Some(Record::Started(before)) = records.first() else {
            unreachable!("invariant: a run that can be rebuilt begins with its start")
        };
        let id: Arc<str> = options.id.clone().unwrap_or_else(fresh_id).into();
        let beginning = Beginning {
            entry: RETRY,
            input: Payload::json(&repeated),
            inputs: object(repeated.inputs),
            origin: Some(Origin {
                run: Arc::clone(&before.run),
                record: 0,
                keys: Arc::clone(before.keys()),
                seen_as: Arc::clone(&id),
                held: Vec::new(),
                former_keys,
            }),
            id,
        };
        Ok(self.begin(workflow, beginning, options)?)
    }
}

/// The inputs of the workflow that a run began with.
fn inputs_of(started: &Started) -> Map<String, Value> {
    let Payload::Json(json) = &started.input else { return Map::new() };
    if &*started.entry == RETRY {
        return serde_json::from_str(json.as_str()).map_or_else(|_| Map::new(), |all: Repeated| object(all.inputs));
    }
    object(json.to_value())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
