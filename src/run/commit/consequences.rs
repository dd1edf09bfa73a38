//! Consequences of records, applied under the commit lock, so that queues have the order of the
//! log: new processes, events, ends, timers.
//!
//! Work that reaches foreign code waits until the lock is released, and what must be durable first
//! waits for that ([`super::outbox`]).

use super::kernel::{Kernel, Timer};
use super::outbox::AfterUnlock;
use super::run::{Inner, Run};
use super::task::{Scratch, Task};
use crate::process::{Ending, Event, Problem, problem::kind};
use crate::run::state::run_state::{Moment, Post, State};
use crate::run::state::spawn::Newborn;
use crate::scheduler::{Interrupt, Pause, Port, Wake};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Inner {
    /// Passes the posted events to the scheduler.
    #[inline]
    fn post<P: Port<Kernel> + ?Sized>(&mut self, port: &mut P) {
        let State { posts, table, .. } = &mut self.state;
        for Post { pid, event } in posts.drain(..) {
            let wake = if matches!(event, Event::Message(_)) { Wake::Message } else { Wake::Event };
            if let Some(slot) = table.get(pid).and_then(|entry| entry.slot) {
                port.post(slot, event, wake);
            }
        }
    }
}

impl Run {
    /// Sends the consequences of what was recorded, and counts what the run holds now.
    pub(in crate::run) fn flush<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        inner: &mut Inner,
        port: &mut P,
        moment: Moment,
        after: &mut AfterUnlock,
    ) {
        if moment.at.0 > self.last_at.load(Relaxed) {
            self.last_at.store(moment.at.0, Relaxed);
        }
        if inner.state.has_consequences() {
            self.is_held.store(inner.is_held(), Relaxed);
        }
        // Most commits send something, and nothing else follows.
        if inner.state.newborn.is_empty() {
            inner.post(port);
        }
        if inner.state.has_consequences() {
            self.flush_all(inner, port, moment, after);
        }
        inner.share.hold(inner.state.held());
    }

    fn flush_all<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        inner: &mut Inner,
        port: &mut P,
        moment: Moment,
        after: &mut AfterUnlock,
    ) {
        loop {
            // Processes first, so that messages to them find them.
            while let Some(newborn) = inner.state.newborn.pop_front() {
                self.start(inner, port, newborn, after);
            }
            inner.post(port);
            if !inner.is_queued {
                inner.state.release_calls();
            }
            if !inner.state.consequences.is_empty() {
                inner.send_consequences(port, &self.config, after);
            }
            if inner.state.doomed.is_empty() {
                break;
            }
            self.end_doomed(inner, port, moment);
        }
        if let Some(due) = inner.state.timers.arm() {
            let timer = port.timer(self.host_time(due), Timer::Due(Arc::clone(&self.config.id)));
            if let Some(before) = inner.state.timers.armed(due, timer) {
                port.unset_timer(before);
            }
        }
        if !inner.has_ended && inner.state.is_finished() {
            inner.finish(moment.at, after);
            for timer in inner.disarm() {
                port.unset_timer(timer);
            }
            if !inner.outbox.is_empty() {
                self.kernel.retain_ending(self);
            }
        }
    }

    /// Passes a new process to the scheduler.
    fn start<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        inner: &mut Inner,
        port: &mut P,
        newborn: Newborn,
        after: &mut AfterUnlock,
    ) {
        let Newborn { pid, body, program, permit, .. } = newborn;
        let native = permit.is_none();
        let task = Task::new(Arc::clone(self), pid, program, body, native);
        match port.spawn(task, permit) {
            Err(task) => {
                after.add().refused.push(task);
                inner.state.doomed.push((pid, Ending::Failed(no_capacity().into())));
            }
            Ok(slot) => {
                if inner.is_held() {
                    port.pause(slot, Pause::On);
                }
                if let Some(entry) = inner.state.table.get_mut(pid) {
                    entry.slot = Some(slot);
                    entry.begun = native;
                }
            }
        }
    }

    fn end_doomed<P: Port<Kernel> + ?Sized>(&self, inner: &mut Inner, port: &mut P, moment: Moment) {
        for (pid, ending) in std::mem::take(&mut inner.state.doomed) {
            let slot = inner.state.living(pid).and_then(|entry| entry.slot);
            self.end(inner, moment, pid, ending, &mut Scratch::default());
            if let Some(slot) = slot {
                // Nothing would unpause a process that the run no longer knows.
                port.pause(slot, Pause::Off);
                port.interrupt(slot, Interrupt::End);
            }
        }
    }
}

pub(in crate::run) fn no_capacity() -> Problem {
    Problem::new(kind::NO_CAPACITY, "The host cannot take another process")
        .with_detail("It is shutting down, its slots are full, or the component is larger than the pool.")
}
