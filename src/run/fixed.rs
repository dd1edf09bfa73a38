//! What never changes in a run: among it all code that is not the run's own.
//!
//! The commit point calls such code with its lock, in the middle of a batch whose record is not written yet, and before its consequences are let
//! out. Were a panic to leave from there, the state would be one that no record tells. So each of these calls ends here, and its panic
//! is an answer: the one that gives the least.

use super::effects::Effects;
use super::log::{LogOrigin, LogSink};
use super::started::Started;
use crate::base::foreign;
use crate::process::{
    Birth, Body, Grants, Home, Limits, LogLine, Payload, Permit, Pid, Problem, Program, Saving, Tag, problem::kind,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The programs that a run's processes may spawn, by the name of their component.
pub type Programs = BTreeMap<Arc<str>, Arc<dyn Program>>;

/// What never changes in a run.
pub(super) struct Fixed {
    pub(super) id: Arc<str>,
    /// Where idempotency keys begin.
    pub(super) keys: Arc<str>,
    /// The id that processes see.
    seen_as: Arc<str>,
    pub(super) seed: [u8; 32],
    pub(super) root: Arc<dyn Program>,
    pub(super) programs: Programs,
    pub(super) effects: Arc<dyn Effects>,
    pub(super) sink: Option<Arc<dyn LogSink>>,
}

impl Fixed {
    pub(super) fn new(
        started: &Started,
        root: Arc<dyn Program>,
        programs: Programs,
        effects: Arc<dyn Effects>,
        sink: Option<Arc<dyn LogSink>>,
    ) -> Self {
        let (keys, seen_as) = (Arc::clone(started.keys()), Arc::clone(started.seen_as()));
        Self { id: Arc::clone(&started.run), keys, seen_as, seed: started.seed, root, programs, effects, sink }
    }

    /// The program of a component; none is the root's own.
    pub(super) fn program(&self, component: Option<&str>) -> Result<&Arc<dyn Program>, Box<Problem>> {
        let Some(name) = component else { return Ok(&self.root) };
        self.programs.get(name).ok_or_else(|| {
            Box::new(
                Problem::new(kind::UNKNOWN_COMPONENT, "The run has no such component")
                    .with_detail(format!("It is named {name:?}.")),
            )
        })
    }

    /// A body of a program.
    pub(super) fn body(
        &self,
        program: &Arc<dyn Program>,
        pid: Pid,
        next_tag: Tag,
        entry: &Arc<str>,
        input: &Payload,
        (limits, grants): (&Arc<Limits>, &Grants),
    ) -> Result<Box<dyn Body>, Box<Problem>> {
        let birth = Birth {
            run: Arc::clone(&self.seen_as),
            pid,
            seed: self.seed,
            entry: Arc::clone(entry),
            input: input.clone(),
            limits: Arc::clone(limits),
            grants: grants.clone(),
            next_tag,
        };
        foreign::call(|| program.body(birth)).unwrap_or_else(|message| Err(panicked(&message))).map_err(Box::new)
    }

    /// Whether a pattern of a capability asks for no more than these patterns grant.
    pub(super) fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        foreign::call(|| self.effects.narrows(capability, granted, wanted)).unwrap_or(false)
    }

    /// Whether a call may be sent again after an unknown outcome.
    pub(super) fn is_repeatable(&self, handler: &str, args: &Payload) -> bool {
        foreign::call(|| self.effects.is_repeatable(handler, args)).unwrap_or(false)
    }

    /// Whether the root waits for signals of this name, so that they are its own.
    pub(super) fn root_waits_for(&self, name: &str) -> bool {
        foreign::call(|| self.root.waits_for_signal(name)).unwrap_or(true)
    }

    /// Hands lines to the sink; none are made where there is none.
    pub(super) fn log(&self, lines: &[LogLine], dropped: u64, origin: impl FnOnce() -> LogOrigin) {
        if let Some(sink) = &self.sink {
            let origin = origin();
            let _ = foreign::call(|| sink.lines(&origin, lines, dropped));
        }
    }
}

/// What a body of a program within these limits takes of the pool.
///
/// # Errors
/// The program panicked.
pub(super) fn permit_of(program: &dyn Program, limits: &Limits) -> Result<Permit, Box<Problem>> {
    let permit = foreign::call(|| program.permit()).map_err(|message| Box::new(panicked(&message)))?;
    Ok(permit.within(limits))
}

/// Whether bodies of a program can be saved, as far as is known.
pub(super) fn may_be_saved(program: &dyn Program) -> bool {
    foreign::call(|| program.saving()).unwrap_or(Saving::Never) != Saving::Never
}

/// Says where the instance of a body is made.
///
/// # Errors
/// The body panicked.
pub(super) fn house(body: &mut dyn Body, home: Home) -> Result<(), Box<Problem>> {
    foreign::call(|| body.house(home)).map_err(|message| Box::new(panicked(&message)))
}

fn panicked(message: &str) -> Problem {
    Problem::new(kind::HOST_FAULT, "The program panicked when a process of it was made").with_detail(message)
}
