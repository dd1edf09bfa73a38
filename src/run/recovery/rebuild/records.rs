//! What each kind of record does to the processes of a run that is being rebuilt.

use super::{Rebuild, RebuildError};
use crate::process::{Action, Death, Event, Payload, Pid, Problem, ProcessInit, Progress, Status, Tag};
use crate::run::record::kinds::{Arrived, Decided, Decision, News, Started, Stepped};
use crate::run::recovery::replaying::{History, PastStep, join_parts};
use crate::run::state::projection::Incoherent;
use crate::run::state::weight::Consumed;
use std::collections::VecDeque;
use std::sync::Arc;

impl From<Incoherent> for RebuildError {
    fn from(Incoherent { record, why }: Incoherent) -> Self {
        Self::Incoherent { record, why }
    }
}

impl Rebuild {
    pub(super) fn start(&mut self, started: &Started) -> Result<(), RebuildError> {
        self.projection.start(started)?;
        let (expected, got) = (Arc::clone(&started.root), self.root.digest());
        if expected != got && !self.substituted {
            return Err(RebuildError::OtherRoot { expected, got });
        }
        self.embody(Pid::ROOT, Tag(1), &started.entry, &started.input)
    }

    /// Makes the body of a process that is in the table.
    fn embody(&mut self, pid: Pid, next_tag: Tag, entry: &Arc<str>, input: &Payload) -> Result<(), RebuildError> {
        if self.only.is_some_and(|only| only != pid) {
            return Ok(());
        }
        let run = self.projection.run().expect("invariant: the run has started");
        let known = &run.state.table[pid];
        let program = match &known.component {
            None => &self.root,
            Some(name) => self.programs.get(name).ok_or_else(|| RebuildError::Body {
                pid,
                problem: Box::new(
                    Problem::new(crate::process::problem::kind::UNKNOWN_COMPONENT, "The component is not at hand")
                        .with_detail(&**name),
                ),
            })?,
        };
        let init = ProcessInit {
            run: Arc::clone(run.started.seen_as()),
            holder: Arc::clone(&run.started.run),
            pid,
            seed: run.started.seed,
            entry: Arc::clone(entry),
            input: input.clone(),
            limits: Arc::clone(&known.limits),
            grants: known.grants.clone(),
            next_tag,
            is_anonymous: known.is_anonymous,
        };
        if self.retaining {
            let past = History { program: Arc::clone(program), init, steps: VecDeque::new() };
            self.pasts.insert(pid, past);
            return Ok(());
        }
        let bytes = program.permit().within(&known.limits).bytes;
        let mut body = program.body(init).map_err(|problem| RebuildError::Body { pid, problem: Box::new(problem) })?;
        body.allocate(self.allocation);
        self.bodies.insert(pid, body, bytes);
        Ok(())
    }

    pub(super) fn step(&mut self, stepped: &Stepped) -> Result<(), RebuildError> {
        let pid = stepped.pid;
        let mut events = self.projection.take_events(stepped)?;
        let took = Consumed::of(&events);
        self.execute(stepped, &mut events)?;

        let noted_keys = &mut self.noted_keys;
        self.projection.step(stepped, took, |state, Decided { command, decision }| {
            if let (Some(noted), Action::Call(call)) = (noted_keys.as_mut(), &command.action) {
                noted.ask(state, pid, command.tag, call, decision);
            }
        })?;
        for Decided { command, decision } in &stepped.decided {
            if let (Action::Spawn(spawn), Decision::Spawned(child)) = (&command.action, decision) {
                self.embody(*child, Tag(1), &spawn.entry, &spawn.input)?;
            }
        }
        match &stepped.status {
            Status::Renew { entry, input } => {
                let run = self.projection.run().expect("invariant: it has just stepped");
                let next_tag = Tag(run.state.table[pid].last_tag.0 + 1);
                // If the process cannot be made anew, the next record has its end.
                match self.embody(pid, next_tag, entry, input) {
                    Err(RebuildError::Body { .. }) | Ok(()) => {}
                    Err(other) => return Err(other),
                }
            }
            Status::Complete(_) | Status::Failed(_) => self.forget(pid),
            _ => {}
        }
        Ok(())
    }

    /// Replays the step, if its process has a body, and compares.
    fn execute(&mut self, stepped: &Stepped, events: &mut Vec<Event>) -> Result<(), RebuildError> {
        let Stepped { pid, step, at, .. } = *stepped;
        if let Some(past) = self.pasts.get_mut(&pid) {
            let events = std::mem::take(events);
            past.steps.push_back(PastStep { number: step, at, events, digest: stepped.digest });
        }
        if !self.bodies.contains(pid) {
            return Ok(());
        }
        let body = self.bodies.step(pid).map_err(|budget| RebuildError::NoRoom {
            pid,
            used: budget.used(),
            bytes_max: budget.bytes_max(),
        })?;
        self.output.clear();
        body.begin(at, events);
        let status = loop {
            match body.poll(&mut self.output) {
                Progress::Preempted => {}
                Progress::Stepped(status) => break status,
                Progress::Died(Death::Guest(problem) | Death::Lost(problem) | Death::Host(problem)) => {
                    return Err(RebuildError::CannotReplay { pid, step, problem: Box::new(problem) });
                }
            }
        };
        self.steps += 1;
        self.fuel_differs += u64::from(self.output.fuel != stepped.fuel);
        if let Err(status) = join_parts(body, status, &mut self.output, stepped.digest) {
            let got = Box::new((status, std::mem::take(&mut self.output.commands)));
            return Err(RebuildError::Diverged { pid, step, expected: stepped.digest, got });
        }
        if let Some(checks) = &mut self.checks {
            checks.stepped(pid, step, body);
        }
        Ok(())
    }

    pub(super) fn arrived(&mut self, arrived: &Arrived) -> Result<(), RebuildError> {
        self.projection.arrived(arrived)?;
        if let News::Answered { pid, tag, answer } = &arrived.news {
            self.calls.remove(&(*pid, *tag));
            if let Some(noted) = &mut self.noted_keys {
                noted.answer(*pid, *tag, answer);
            }
        }
        Ok(())
    }

    /// Drops what belongs to a process that has ended.
    pub(super) fn forget(&mut self, pid: Pid) {
        drop(self.bodies.remove(pid));
        self.pasts.remove(&pid);
    }
}
