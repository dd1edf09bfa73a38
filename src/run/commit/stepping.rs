//! How the scheduler steps the processes of runs: the kernel's side of its seam.
//!
//! A task is stepped until its step is whole, and its run commits it. A process is ended from this
//! side too: by a guest that died, by a host that shuts down, and by a fault of the host, after
//! which the step is tried again from the records.

use super::kernel::{Kernel, Timer};
use super::outbox::AfterUnlock;
use super::snapshot_writer::SnapshotTrigger;
use super::task::{Scratch, Task};
use crate::base::Monotonic;
use crate::process::{
    Allocation, Death, Ending, Event, Eviction, Level, LogLine, Micros, Pid, Problem, ProblemClass, Progress,
    problem::kind,
};
use crate::run::record::kinds::{News, Record};
use crate::run::recovery::rebuild::Rebuild;
use crate::run::seam::log::LogOrigin;
use crate::run::state::run_state::Moment;
use crate::run::state::weight::Consumed;
use crate::scheduler::{Commit, Interrupt, Next, Permitted, Port, Slot, Turn};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How often a step is tried again after a fault of the host.
const RETRIES_MAX: u8 = 3;
/// A run with more records is not read again for one process. Arbitrary: about a second.
const RETRY_RECORDS_MAX: usize = 1_000_000;

impl Commit for Kernel {
    type Event = Event;
    type Process = Task;
    type Timer = Timer;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, task: &mut Task, events: &mut Vec<Event>) -> Next {
        if turn.permitted == Permitted::Never {
            task.state.mono = task.run.moment(turn.now).mono;
            return task.fail(port, no_instance());
        }
        if let Some(why) = turn.interrupted {
            if why == Interrupt::End || !task.is_living() {
                debug_assert!(!task.is_living(), "one that lives was interrupted to end");
                return Next::Complete;
            }
            if why == Interrupt::Cancel && !task.notify_shutdown(port) {
                return Next::Complete;
            }
            if !turn.resumed {
                task.visit();
            }
        }
        if turn.permitted == Permitted::NotNow {
            return task.wait_for_permit(events);
        }
        if !turn.resumed {
            self.shared().stall.wait();
            if !task.state.prepare_batch(events) {
                return task.state.next();
            }
            if task.is_held(events) || task.defer_if_full(port, turn.slot, events) {
                return Next::Ready;
            }
            task.begin(turn.now, events);
        }
        let Task { run, state } = task;
        let scratch = state.scratch.get_or_insert_with(Scratch::get);
        let progress = state.body.poll(&mut scratch.output);
        if let Some(tail) = &mut state.tail {
            tail.took += port.monotonic().since(turn.now).0;
        }
        match progress {
            Progress::Preempted => Next::Preempted,
            Progress::Stepped(status) => {
                if scratch.output.fuel > 0 {
                    port.used(scratch.output.fuel);
                }
                let next = run.commit(port, state, status);
                let next = state.after_step(next);
                if next == Next::Complete {
                    state.body.close();
                } else if state.tail.is_some() {
                    run.stepped(state);
                }
                next
            }
            Progress::Died(Death::Guest(problem)) => task.fail(port, problem),
            Progress::Died(Death::Lost(problem) | Death::Host(problem)) => task.retry_or_fail(port, problem),
        }
    }

    fn panicked<P: Port<Self>>(&self, port: &mut P, _: Slot, task: &mut Task, message: &str) {
        let problem = Problem::new(kind::HOST_FAULT, "A native process panicked").with_detail(message);
        task.fail(port, problem);
    }

    fn name(&self, task: &Task) -> String {
        format!("{} {}", task.run.config.id, task.state.pid)
    }

    fn slow(&self, _: Slot, task: &Task, took: Micros) {
        if let Some(sink) = &task.run.config.sink {
            let text = format!("a slice of {} took {} ms", task.state.program.digest(), took.0 / 1_000);
            let origin = LogOrigin {
                run: Arc::clone(&task.run.config.id),
                pid: task.state.pid,
                scope: None,
                component: None,
                step: 0,
                at: task.state.at,
            };
            sink.lines(&origin, &[LogLine { level: Level::Warn, text, fields: None }], 0);
        }
    }

    fn closing(&self) {
        self.shared().closing.store(true, Relaxed);
    }

    /// Each run is cancelled as if a caller had asked for it: the root receives it first, and its
    /// end reaches the others.
    fn cancel<P: Port<Self>>(&self, port: &mut P, slot: Slot) {
        port.interrupt(slot, Interrupt::Cancel);
    }

    fn evict(&self, task: &mut Task) -> bool {
        match task.state.body.evict() {
            Eviction::Done => {
                if task.state.tail.is_some() {
                    task.run.save(&mut task.state, SnapshotTrigger::Unloading);
                }
                true
            }
            Eviction::Stays => false,
            Eviction::Ends(problem) => {
                self.with_port(|port| task.fail_between_steps(port, problem.clone()));
                false
            }
        }
    }

    fn evicts_slowly(&self, task: &Task) -> bool {
        task.state.body.evicts_slowly()
    }

    fn admitted(&self, task: &mut Task, allocation: Allocation) {
        task.state.allocation = allocation;
        // A process that only has to end makes no instance.
        if !task.run.parked_hint.load(Relaxed) {
            task.state.body.allocate(allocation);
        }
    }

    fn admits_slowly(&self, task: &Task, allocation: Allocation) -> bool {
        !task.run.parked_hint.load(Relaxed) && task.state.body.allocates_slowly(allocation)
    }

    fn drops_slowly(&self, task: &Task) -> bool {
        task.state.body.drops_slowly()
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Timer>) {
        for timer in timers.drain(..) {
            match timer {
                Timer::Due(id) => match self.in_memory(&id) {
                    Some(run) => run.fired(port),
                    None => self.fired_parked(port, &id),
                },
                Timer::CheckParking(id, serial) => {
                    if let Some(run) = self.in_memory(&id).filter(|run| run.serial == serial) {
                        run.check_parking(port);
                    }
                }
            }
        }
    }
}

impl Task {
    /// Begins a step with a batch.
    fn begin(&mut self, mono: Monotonic, events: &mut Vec<Event>) {
        let Self { run, state } = self;
        if !state.begun {
            state.begun = true;
            if !state.native
                && let Some(entry) = run.inner.lock().state.living_mut(state.pid)
            {
                entry.begun = true;
            }
        }
        let moment = run.moment(mono);
        state.at = moment.at;
        state.mono = moment.mono;
        state.consumed = Consumed::of(events);
        state.retries = 0;
        state.body.begin(state.at, events);
    }

    /// Defers events until the process has a permit for an instance: without one no step begins.
    fn wait_for_permit(&mut self, events: &mut Vec<Event>) -> Next {
        self.state.defer(events);
        self.state.after_step(self.state.next())
    }

    /// Whether no step may begin because the run is paused, or waits for a place in its group. The
    /// scheduler holds a process once it knows of that; this process may be new, recovered or just
    /// admitted, or the scheduler put it into a queue before it knew.
    fn is_held(&mut self, events: &mut Vec<Event>) -> bool {
        // A host that ends lets a paused run take its cancellation. One without a place takes none.
        let is_held =
            self.run.is_held.load(Relaxed) && (!self.run.kernel.is_closing() || self.run.inner.lock().is_queued);
        if is_held {
            self.state.return_batch(events);
        }
        is_held
    }

    /// Whether the process lives: one that was killed ends when its worker next steps it.
    fn is_living(&self) -> bool {
        self.run.inner.lock().state.living(self.state.pid).is_some()
    }

    /// Ends a process that died in its step.
    fn fail<P: Port<Kernel>>(&mut self, port: &mut P, problem: Problem) -> Next {
        let Self { run, state } = self;
        let moment = Moment { at: state.at.max(run.moment(port.monotonic()).at), mono: state.mono };
        run.die(port, state, moment, Ending::Failed(problem.into()));
        Next::Complete
    }

    /// Ends a process between two steps. It gives its slot back when a worker next steps it.
    fn fail_between_steps(&self, port: &mut dyn Port<Kernel>, problem: Problem) {
        let Self { run, state } = self;
        let moment = run.moment(port.monotonic());
        let mut inner = run.inner.lock();
        // The processes of a parked run have left it already.
        if inner.parked {
            return;
        }
        let mut after = AfterUnlock::default();
        inner.state.doomed.push((state.pid, Ending::Failed(problem.into())));
        run.flush(&mut inner, port, moment, &mut after);
        drop(inner);
        run.after_unlock(port, after);
    }

    /// Notifies a run's root that the host is shutting down. Returns whether the process continues:
    /// one that never began has no permit to begin, and ends.
    fn notify_shutdown<P: Port<Kernel>>(&mut self, port: &mut P) -> bool {
        let Self { run, state } = self;
        let reason: Arc<str> = "the host is shutting down".into();
        if run.inner.lock().is_queued {
            // The root's end is that of all its processes: none may take a step.
            let is_root = state.pid == Pid::ROOT;
            return !(is_root && run.kill(port, &reason));
        }
        if !state.begun && !state.native {
            let moment = run.moment(port.monotonic());
            run.die(port, state, moment, Ending::Cancelled(reason));
            return false;
        }
        if state.pid == Pid::ROOT && !std::mem::replace(&mut state.shutdown_notified, true) {
            let _ = run.arrive(port, News::Cancel { pid: state.pid, reason, grace: None });
        }
        true
    }

    /// Tries a step again from the last committed state, if it failed by the host's fault or by
    /// something that is no step of the guest's, and all records are at hand. Ends the process
    /// otherwise.
    fn retry_or_fail<P: Port<Kernel>>(&mut self, port: &mut P, problem: Problem) -> Next {
        if self.state.retries < RETRIES_MAX && self.retry().is_some() {
            self.state.retries += 1;
            return Next::Preempted;
        }
        self.fail(port, problem)
    }

    /// Makes a new body from the records, and begins the step again with its batch.
    fn retry(&mut self) -> Option<()> {
        let read = self.run.inner.lock().reading();
        let records = read()?;
        if records.len() > RETRY_RECORDS_MAX {
            return None;
        }
        let config = &self.run.config;
        let mut rebuild = Rebuild::new(Arc::clone(&config.root), config.programs.clone());
        // The instance is gone and the permit is not: the new instance has the place of the old.
        rebuild = rebuild.only(self.state.pid, self.state.allocation);
        let records = Record::decode_run(records).ok()?;
        Record::recall_from(&records, config.effects.recalls(&config.id));
        for record in records {
            rebuild.apply(&record).ok()?;
        }
        let (body, mut events) = rebuild.into_body(self.state.pid)?;
        events.truncate(self.state.consumed.events as usize);
        self.state.body = body;
        self.state.scratch.get_or_insert_default().output.clear();
        self.state.body.begin(self.state.at, &mut events);
        self.run.inner.lock().state.counts.retried += 1;
        Some(())
    }
}

fn no_instance() -> Problem {
    Problem::new(kind::NO_CAPACITY, "No instance can be had for the guest").with_class(ProblemClass::Retryable).with_detail(
        "Every slot of the pool is held by a guest that waits and cannot be evicted, and the memory for guests outside the pool is used \
         up. Give the host more slots (`--slots`, `EngineOptions::slots`) or more memory outside the pool \
         (`EngineOptions::on_demand_bytes`).",
    )
}
