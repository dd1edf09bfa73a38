//! What never changes in a run, including all code that is not the run's own.
//!
//! The commit point calls such code under its lock, in the middle of a batch whose record is not
//! written yet, and before its consequences are released. If a panic left it there, the state would
//! be one that no record describes. So each of these calls catches panics, and a panic counts as
//! the answer that grants the least.

use crate::base::foreign;
use crate::process::{
    Allocation, Body, Grants, Limits, LogLine, Payload, Permit, Pid, Problem, ProcessInit, Program, SnapshotSupport,
    Tag, problem::kind,
};
use crate::run::record::started::Started;
use crate::run::seam::effects::Effects;
use crate::run::seam::log::{LogOrigin, LogSink};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The programs that a run's processes may spawn, by the name of their component.
pub type Programs = BTreeMap<Arc<str>, Arc<dyn Program>>;

/// What never changes in a run.
pub(in crate::run) struct RunConfig {
    pub(in crate::run) id: Arc<str>,
    /// The beginning of idempotency keys.
    pub(in crate::run) keys: Arc<str>,
    /// The run id that processes see.
    seen_as: Arc<str>,
    pub(in crate::run) seed: [u8; 32],
    pub(in crate::run) root: Arc<dyn Program>,
    pub(in crate::run) programs: Programs,
    pub(in crate::run) effects: Arc<dyn Effects>,
    pub(in crate::run) sink: Option<Arc<dyn LogSink>>,
}

impl RunConfig {
    pub(in crate::run) fn new(
        started: &Started,
        root: Arc<dyn Program>,
        programs: Programs,
        effects: Arc<dyn Effects>,
        sink: Option<Arc<dyn LogSink>>,
    ) -> Self {
        let (keys, seen_as) = (Arc::clone(started.keys()), Arc::clone(started.seen_as()));
        Self { id: Arc::clone(&started.run), keys, seen_as, seed: started.seed, root, programs, effects, sink }
    }

    /// The program of a component; `None` for the root's own.
    pub(in crate::run) fn program(&self, component: Option<&str>) -> Result<&Arc<dyn Program>, Box<Problem>> {
        let Some(name) = component else { return Ok(&self.root) };
        self.programs.get(name).ok_or_else(|| {
            Box::new(
                Problem::new(kind::UNKNOWN_COMPONENT, "The run has no such component")
                    .with_detail(format!("It is named {name:?}.")),
            )
        })
    }

    /// Makes a body of a program.
    #[allow(clippy::too_many_arguments, reason = "each is a part of what a process begins with")]
    pub(in crate::run) fn body(
        &self,
        program: &Arc<dyn Program>,
        pid: Pid,
        next_tag: Tag,
        entry: &Arc<str>,
        input: &Payload,
        (limits, grants): (&Arc<Limits>, &Grants),
        is_anonymous: bool,
    ) -> Result<Box<dyn Body>, Box<Problem>> {
        let init = ProcessInit {
            run: Arc::clone(&self.seen_as),
            holder: Arc::clone(&self.id),
            pid,
            seed: self.seed,
            entry: Arc::clone(entry),
            input: input.clone(),
            limits: Arc::clone(limits),
            grants: grants.clone(),
            next_tag,
            is_anonymous,
        };
        foreign::call(|| program.body(init)).unwrap_or_else(|message| Err(panicked(&message))).map_err(Box::new)
    }

    /// Returns whether a pattern of a capability asks for no more than the granted patterns.
    pub(in crate::run) fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        foreign::call(|| self.effects.narrows(capability, granted, wanted)).unwrap_or(false)
    }

    /// Returns whether a call may be sent again after an unknown outcome.
    pub(in crate::run) fn is_repeatable(&self, handler: &str, args: &Payload) -> bool {
        foreign::call(|| self.effects.is_repeatable(handler, args)).unwrap_or(false)
    }

    /// Returns whether the root waits for signals of this name, so that they are its own.
    pub(in crate::run) fn root_waits_for(&self, name: &str) -> bool {
        foreign::call(|| self.root.waits_for_signal(name)).unwrap_or(true)
    }

    /// Gives lines to the sink, if there is one; their origin is made only then.
    pub(in crate::run) fn log(&self, lines: &[LogLine], dropped: u64, origin: impl FnOnce() -> LogOrigin) {
        if let Some(sink) = &self.sink {
            let origin = origin();
            let _ = foreign::call(|| sink.lines(&origin, lines, dropped));
        }
    }
}

/// The permit that a body of a program within these limits takes from the pool.
///
/// # Errors
/// The program panicked.
pub(in crate::run) fn permit_of(program: &dyn Program, limits: &Limits) -> Result<Permit, Box<Problem>> {
    let permit = foreign::call(|| program.permit()).map_err(|message| Box::new(panicked(&message)))?;
    Ok(permit.within(limits))
}

/// Returns whether bodies of a program can be saved, as far as is known.
pub(in crate::run) fn may_be_saved(program: &dyn Program) -> bool {
    foreign::call(|| program.snapshot_support()).unwrap_or(SnapshotSupport::Never) != SnapshotSupport::Never
}

/// Tells a body where to make its instance.
///
/// # Errors
/// The body panicked.
pub(in crate::run) fn allocate(body: &mut dyn Body, allocation: Allocation) -> Result<(), Box<Problem>> {
    foreign::call(|| body.allocate(allocation)).map_err(|message| Box::new(panicked(&message)))
}

fn panicked(message: &str) -> Problem {
    Problem::new(kind::HOST_FAULT, "The program panicked when a process of it was made").with_detail(message)
}
