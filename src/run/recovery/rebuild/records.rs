//! What each kind of record does to a run that is being rebuilt.

use super::{Rebuild, RebuildError, Rebuilding, TakenUp};
use crate::process::{Action, Death, Event, Payload, Pid, Problem, ProcessInit, Progress, Status, Tag};
use crate::run::record::kinds::{Arrived, Decided, Decision, Died, News, Started, Stepped};
use crate::run::recovery::bodies::Bodies;
use crate::run::recovery::replaying::{Past, PastStep, join_parts};
use crate::run::state::exit::answer_of;
use crate::run::state::news::Unwanted;
use crate::run::state::run_state::{Consequence, Moment, Post, State};
use crate::run::state::table::Waits;
use crate::run::state::weight::Took;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Rebuild {
    pub(super) fn start(&mut self, started: &Started) -> Result<(), RebuildError> {
        if self.run.is_some() {
            return Err(self.incoherent("the run has started already"));
        }
        let (expected, got) = (Arc::clone(&started.root), self.root.digest());
        if expected != got && !self.substituted {
            return Err(RebuildError::OtherRoot { expected, got });
        }
        let run = Rebuilding {
            started: started.clone(),
            state: State::new(started),
            queues: BTreeMap::new(),
            bodies: Bodies::new(self.budget.clone()),
            taken_up: TakenUp { at: started.at, ..TakenUp::default() },
        };
        self.run = Some(run);
        self.embody(Pid::ROOT, Tag(1), &started.entry, &started.input)
    }

    /// Makes the body of a process that is in the table.
    fn embody(&mut self, pid: Pid, next_tag: Tag, entry: &Arc<str>, input: &Payload) -> Result<(), RebuildError> {
        if self.only.is_some_and(|only| only != pid) {
            return Ok(());
        }
        let run = self.run.as_mut().expect("invariant: the run has started");
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
            pid,
            seed: run.started.seed,
            entry: Arc::clone(entry),
            input: input.clone(),
            limits: Arc::clone(&known.limits),
            grants: known.grants.clone(),
            next_tag,
        };
        if self.keeping {
            let past = Past { program: Arc::clone(program), init, steps: VecDeque::new() };
            run.taken_up.pasts.insert(pid, past);
            return Ok(());
        }
        let bytes = program.permit().within(&known.limits).bytes;
        let mut body = program.body(init).map_err(|problem| RebuildError::Body { pid, problem: Box::new(problem) })?;
        body.allocate(self.allocation);
        run.bodies.insert(pid, body, bytes);
        Ok(())
    }

    pub(super) fn step(&mut self, stepped: &Stepped) -> Result<(), RebuildError> {
        let Stepped { pid, step, at, took, .. } = *stepped;
        let record = self.records;
        let incoherent = move |why| RebuildError::Incoherent { record, why };
        let run = self.running("the run has not started")?;
        let known = run.state.living(pid).ok_or(incoherent("the process that stepped does not live"))?;
        if known.steps + 1 != step {
            return Err(incoherent("the process has taken another number of steps"));
        }
        let stays = match known.waits {
            Waits::Not => false,
            Waits::Owes => took > 0,
            Waits::Blocked | Waits::Idle => took == 0,
        };
        let queue = run.queues.entry(pid).or_default();
        if stays || queue.len() < took as usize {
            return Err(incoherent("the process took events that it was not sent"));
        }
        let mut last = known.last_tag;
        for Decided { command, .. } in &stepped.decided {
            if command.tag <= last {
                return Err(incoherent("a tag is not greater than the one before"));
            }
            last = command.tag;
        }
        let mut events: Vec<Event> = queue.drain(..took as usize).collect();
        let taken = Took::of(&events);
        self.execute(stepped, &mut events)?;

        let is_before = self.is_before();
        let run = self.run.as_mut().expect("invariant: the run has started");
        let moment = Moment { at, mono: at };
        let last = stepped.decided.last().map(|decided| decided.command.tag);
        run.state.take(pid, taken, stepped.fuel, last);
        for Decided { command, decision } in &stepped.decided {
            let state = &mut self.run.as_mut().expect("invariant: the run has started").state;
            if let (Action::Spawn(spawn), Decision::Spawned(child)) = (&command.action, decision) {
                if *child != state.next_pid() {
                    return Err(incoherent("a child's pid is not the next of the run"));
                }
                if !state.may_inherit(pid, spawn) {
                    return Err(incoherent("a child has more than its parent"));
                }
            }
            if let Action::Call(call) = &command.action {
                if let Some(noted) = &mut self.noted_keys {
                    noted.ask(state, pid, command.tag, call, decision);
                }
                if is_before {
                    state.keep_key(pid, command.tag, call, decision);
                }
            }
            state.apply(pid, moment, command.clone(), decision.clone());
            if let (Action::Spawn(spawn), Decision::Spawned(child)) = (&command.action, decision) {
                self.embody(*child, Tag(1), &spawn.entry, &spawn.input)?;
            }
        }
        let run = self.run.as_mut().expect("invariant: the run has started");
        run.state.apply_status(moment, pid, stepped.status.clone(), stepped.owes);
        match &stepped.status {
            Status::Renew { entry, input } => {
                let next_tag = Tag(run.state.table[pid].last_tag.0 + 1);
                // One that cannot be made anew has its end in the next record.
                match self.embody(pid, next_tag, entry, input) {
                    Err(RebuildError::Body { .. }) | Ok(()) => {}
                    Err(other) => return Err(other),
                }
            }
            Status::Complete(_) | Status::Failed(_) => run.forget(pid),
            _ => {}
        }
        Ok(())
    }

    /// Steps the process again and compares.
    fn execute(&mut self, stepped: &Stepped, events: &mut Vec<Event>) -> Result<(), RebuildError> {
        let Stepped { pid, step, at, .. } = *stepped;
        let run = self.run.as_mut().expect("invariant: the run has started");
        run.taken_up.at = run.taken_up.at.max(at);
        if let Some(past) = run.taken_up.pasts.get_mut(&pid) {
            let events = std::mem::take(events);
            past.steps.push_back(PastStep { number: step, at, events, digest: stepped.digest });
        }
        if !run.bodies.contains(pid) {
            return Ok(());
        }
        let body = run.bodies.step(pid).map_err(|budget| RebuildError::NoRoom {
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

    pub(super) fn died(&mut self, died: &Died) -> Result<(), RebuildError> {
        let missing = self.incoherent("the process that died does not live");
        let run = self.running("the run has not started")?;
        if run.state.living(died.pid).is_none() {
            return Err(missing);
        }
        let moment = Moment { at: died.at, mono: died.at };
        run.taken_up.at = run.taken_up.at.max(died.at);
        run.state.exit(moment, died.pid, died.ending.clone(), answer_of(&died.ending));
        run.forget(died.pid);
        Ok(())
    }

    pub(super) fn arrived(&mut self, arrived: &Arrived) -> Result<(), RebuildError> {
        let Arrived { at, act, news } = arrived;
        let (at, record) = (*at, self.records);
        let unwanted = self.incoherent("nobody waits for what arrived");
        let run = self.run.as_mut().ok_or(RebuildError::Incoherent { record, why: "the run has not started" })?;
        match run.state.wants(news) {
            Ok(()) => {}
            Err(Unwanted::Idle) if act.is_some() => {}
            Err(_) => return Err(unwanted),
        }
        if let Some(act) = act {
            run.state.acts.remember(act.clone(), record);
        }
        run.taken_up.at = run.taken_up.at.max(at);
        if let News::Answered { pid, tag, answer } = news {
            run.taken_up.departures.remove(&(*pid, *tag));
            if let Some(noted) = &mut self.noted_keys {
                noted.answer(*pid, *tag, answer);
            }
        }
        run.state.apply_news(Moment { at, mono: at }, news.clone());
        Ok(())
    }
}

impl Rebuilding {
    /// Lets go of what belongs to a process that has ended.
    fn forget(&mut self, pid: Pid) {
        drop(self.bodies.remove(pid));
        self.queues.remove(&pid);
        self.taken_up.pasts.remove(&pid);
    }

    /// Puts what was posted into the queues.
    pub(super) fn deliver(&mut self) {
        for consequence in std::mem::take(&mut self.state.consequences) {
            if let Consequence::Call(departure) = consequence {
                self.taken_up.departures.insert((departure.pid, departure.tag), departure);
            }
        }
        for Post { pid, event } in std::mem::take(&mut self.state.posts) {
            if self.state.living(pid).is_some() {
                self.queues.entry(pid).or_default().push_back(event);
            }
        }
    }
}
