//! What never changes in a run.

use super::effects::Effects;
use super::log::LogSink;
use super::started::Started;
use crate::process::{Birth, Body, Grants, Limits, Payload, Pid, Problem, Program, Tag, problem::kind};
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
        program
            .body(Birth {
                run: Arc::clone(&self.seen_as),
                pid,
                seed: self.seed,
                entry: Arc::clone(entry),
                input: input.clone(),
                limits: Arc::clone(limits),
                grants: grants.clone(),
                next_tag,
            })
            .map_err(Box::new)
    }
}
