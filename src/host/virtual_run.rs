//! What a run needs that another scheduler than the host's steps: a simulated one, with its own
//! kernel, log and handlers.

use super::start::spec;
use super::{Host, LoadError, Workflow};
use crate::dispatch::Dispatcher;
use crate::process::{Payload, Program};
use crate::run::{Effects, Log, Programs, RecoverySpec, RunSpec};
use crate::workflow::interpreter::WorkflowProgram;
use serde_json::{Map, Value};
use std::sync::Arc;

impl Workflow {
    /// Returns the programs that its processes may spawn.
    pub(crate) fn programs(&self) -> Programs {
        (*self.programs).clone()
    }
}

impl Host {
    /// Returns the dispatcher of its calls.
    pub(crate) fn dispatcher(&self) -> &Arc<Dispatcher> {
        &self.shared.dispatcher
    }

    /// Returns the program of the workflow itself, which tells of every step when it ends.
    pub(crate) fn telling_root(&self, workflow: &Workflow) -> Arc<dyn Program> {
        let program = WorkflowProgram::new(Arc::clone(workflow.plan()), Arc::clone(&self.shared.jq));
        Arc::new(program.telling_all())
    }
}

/// Returns what a run of a workflow is started from, on a kernel of the caller.
///
/// # Errors
/// Fails if the inputs do not fit.
pub(crate) fn virtual_spec(
    workflow: &Workflow,
    (id, seed): (&Arc<str>, [u8; 32]),
    root: &Arc<dyn Program>,
    inputs: Map<String, Value>,
    (log, effects): (Box<dyn Log>, Arc<dyn Effects>),
) -> Result<RunSpec, LoadError> {
    let inputs = workflow.plan().inputs.accept(inputs).map_err(|violations| {
        LoadError::Inputs(violations.into_iter().map(|one| (one.pointer, one.message)).collect())
    })?;
    Ok(spec(workflow, (Arc::clone(id), seed), Arc::clone(root), Payload::json(&inputs), (log, effects)))
}

/// Returns what such a run is recovered with.
pub(crate) fn virtual_recovery(
    workflow: &Workflow,
    root: &Arc<dyn Program>,
    (log, effects): (Box<dyn Log>, Arc<dyn Effects>),
) -> RecoverySpec {
    RecoverySpec {
        root: Arc::clone(root),
        programs: (*workflow.programs).clone(),
        left: Vec::new(),
        unless_paused: false,
        log,
        effects,
        sink: None,
        watcher: None,
    }
}
