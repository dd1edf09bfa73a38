//! One run of a case: a host of one virtual worker, in virtual time.
//!
//! The execution gives the worker turns until there is nothing to do; then it moves the clock to
//! the next timer, answer or signal. Records become durable after each turn, and what depends on
//! them leaves then. A crash drops the kernel and the scheduler with all that they hold, and
//! another host recovers the run from the records: the disk and the servers stay.

mod disk;
mod drive;
#[cfg(test)]
pub(super) mod oracle;
mod said;
mod server;
mod story;

pub use server::{SeenCall, UnansweredCall};
pub use story::{LogText, StepStory, Story};

use super::case_file::Case;
use super::faults::{Fault, Faults};
use crate::dispatch::Dispatcher;
use crate::host::{Host, LoadError, Outcome, Workflow};
use crate::process::{Permit, Program, Timestamp};
use crate::run::{Rebuild, Record};
use crate::workflow::expression::Jq;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The id of the run: idempotency keys follow from it.
const RUN: &str = "test";
/// Turns of one execution. Arbitrary: far more than a workflow of the largest size takes.
pub const TURNS_MAX: u64 = 2_000_000;
/// Records of one execution. Arbitrary.
pub const RECORDS_MAX: usize = 200_000;
/// Real time of one execution unless it is set. Arbitrary.
pub const REAL_TIME_MAX: Duration = Duration::from_mins(1);

/// What executions of one workflow have in common.
pub struct Stage {
    /// The id of the run.
    id: Arc<str>,
    workflow: Workflow,
    root: Arc<dyn Program>,
    dispatcher: Arc<Dispatcher>,
    jq: Arc<Jq>,
    /// The share of the pool of guests that one execution has.
    capacity: Permit,
    outside: Arc<crate::process::Budget>,
    /// Handlers that really carry out their calls.
    real: Vec<String>,
    real_time_max: Duration,
    /// Answers calls in place of the cases.
    #[cfg(test)]
    oracle: Option<oracle::Oracle>,
}

/// What an execution gave.
pub struct Execution {
    /// What happened.
    pub story: Story,
    /// The calls that reached a server, in the order of their first sending.
    pub calls: Vec<SeenCall>,
    /// How it came to its end.
    pub end: End,
    /// Real time.
    pub took: Duration,
    /// The BLAKE3 of all records: the same execution has the same.
    pub digest: String,
    /// The records, encoded.
    pub records: Vec<bytes::Bytes>,
    /// The incidents of the host: the number of records, the time, and what happened.
    pub incidents: Vec<(u64, Timestamp, String)>,
    /// Signals that were not sent, since the run had ended.
    pub unsent: Vec<usize>,
    /// Faults that hit nothing, each with why.
    pub missed: Vec<(Fault, String)>,
}

/// How an execution came to its end.
#[derive(Debug)]
pub enum End {
    /// The run has ended.
    Ended(Box<Outcome>),
    /// The run waits, and nothing will come.
    Stuck,
    /// A call that no answer matches.
    Unanswered(Box<UnansweredCall>),
    /// An expression of the case file cannot be evaluated: where, and why.
    BadExpression(crate::workflow::syntax::Span, String),
    /// It did not come to an end within a bound.
    TooLong(&'static str),
    /// The inputs do not fit, or the host cannot run it.
    Refused(LoadError),
    /// What must hold of every run does not: a fault of the host.
    Broken(String),
}

impl Stage {
    /// Prepares executions of a workflow. At most `shares` are executed at one time.
    #[must_use]
    pub fn new(host: &Host, workflow: &Workflow, shares: u32, real: &[String], real_time_max: Duration) -> Self {
        let whole = host.guests().capacity();
        let part = |count: u32| count / shares.max(1);
        let capacity = Permit {
            instances: part(whole.instances),
            core_instances: part(whole.core_instances),
            memories: part(whole.memories),
            tables: part(whole.tables),
            bytes: whole.bytes,
        };
        Self {
            id: RUN.into(),
            root: host.telling_root(workflow),
            workflow: workflow.clone(),
            dispatcher: Arc::clone(host.dispatcher()),
            jq: Arc::clone(host.expressions()),
            capacity,
            outside: Arc::clone(host.guests().on_demand_memory()),
            real: real.to_vec(),
            real_time_max,
            #[cfg(test)]
            oracle: None,
        }
    }

    #[cfg(test)]
    pub(in crate::testing) fn with_oracle(self, oracle: oracle::Oracle) -> Self {
        let id = oracle.former.as_ref().map_or(self.id, |former| Arc::clone(&former.origin.seen_as));
        Self { id, oracle: Some(oracle), ..self }
    }

    /// The room of one guest.
    fn for_one(&self) -> Permit {
        let Permit { instances, core_instances, memories, tables, bytes } = self.capacity;
        let part = |count: u32| count / instances.max(1);
        let (core_instances, memories, tables) = (part(core_instances), part(memories), part(tables));
        Permit { instances: instances.min(1), core_instances, memories, tables, bytes }
    }

    /// The workflow.
    #[must_use]
    pub fn workflow(&self) -> &Workflow {
        &self.workflow
    }

    /// The engine of expressions.
    #[must_use]
    pub fn jq(&self) -> &Arc<Jq> {
        &self.jq
    }

    /// The inputs of a case, completed with the defaults.
    pub(super) fn inputs_of(&self, case: &Case) -> Value {
        let given = case.given().unwrap_or_default();
        Value::Object(self.workflow.plan().inputs.accept(given.clone()).unwrap_or(given))
    }

    /// Runs a case, with its own faults and these.
    #[must_use]
    pub fn execute(&self, case: &Case, faults: &Faults) -> Execution {
        let all = Faults(case.faults.0.iter().chain(&faults.0).cloned().collect());
        drive::execute(self, case, &all)
    }

    /// Replays every step of a run from its records, as `verify` does.
    ///
    /// # Errors
    /// Says where a step does not follow from its record.
    pub(super) fn replay(&self, execution: &Execution) -> Result<(), String> {
        let records = Record::decode_run(execution.records.clone()).map_err(|error| error.to_string())?;
        let rebuild = Rebuild::new(Arc::clone(&self.root), self.workflow.programs());
        rebuild.outside(Arc::clone(&self.outside)).apply_all(&records).map(drop).map_err(|error| error.to_string())
    }
}

impl Execution {
    /// When the run started.
    #[must_use]
    pub fn started(&self) -> Timestamp {
        self.story.started
    }
}
