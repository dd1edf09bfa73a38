//! What leaves the host: it waits until the record that caused it is durable.
//!
//! Calls, outcomes and snapshots stand in the outbox with the number of their record, in its order. They leave when the log says so, after the
//! lock is released, since they reach foreign code: as those do who watch, and the processes that the scheduler does not take.

use super::kernel::Kernel;
use super::observe::Wakers;
use super::reply::CallReply;
use super::run::{Inner, Run};
use super::snapshot_writer::PendingSnapshot;
use super::task::Task;
use crate::base::foreign;
use crate::process::{Pid, Problem, Tag};
use crate::run::record::kinds::Record;
use crate::run::state::config::Fixed;
use crate::run::state::events::Outcome;
use crate::run::state::outstanding::Pending;
use crate::run::state::run_state::{Consequence, Departure};
use crate::run::{Dispatched, Outgoing};
use crate::scheduler::{Pause, Port};
use std::sync::Arc;

/// What leaves the host when its record is durable.
pub(in crate::run) enum Outbound {
    /// A call. One that is not safe to repeat has a `leaving` record, which is durable too.
    Call {
        departure: Box<Departure>,
        is_repeatable: bool,
    },
    Outcome(Box<Outcome>),
    /// A snapshot of what a process was after that step.
    Snapshot(Box<PendingSnapshot>),
}

/// What is done when the lock is released: all that reaches foreign code. Most commits leave
/// nothing, so it is made when it is first needed.
#[derive(Default)]
pub(in crate::run) struct AfterUnlock(Option<Box<UnlockedWork>>);

/// What [`AfterUnlock`] holds.
#[derive(Default)]
pub(in crate::run) struct UnlockedWork {
    pub(in crate::run) outbound: Vec<Outbound>,
    pub(in crate::run) abandoned: Vec<(Pid, Tag)>,
    /// Those who watch.
    pub(in crate::run) wakers: Wakers,
    /// Processes that the scheduler did not take. To drop them drops their bodies.
    pub(in crate::run) refused: Vec<Task>,
}

impl AfterUnlock {
    #[inline]
    pub(in crate::run) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(in crate::run) fn add(&mut self) -> &mut UnlockedWork {
        self.0.get_or_insert_default()
    }

    pub(in crate::run) fn into_outbound(self) -> Vec<Outbound> {
        self.0.map(|after| after.outbound).unwrap_or_default()
    }
}

impl Inner {
    /// Lets something out, now or when the last record is durable. Nobody waits for a snapshot.
    pub(in crate::run) fn send(&mut self, outbound: Outbound, after: &mut AfterUnlock) {
        if self.lost {
            // Nobody knows whether its record ever is.
            return;
        }
        let record = self.state.counts.records;
        if self.durable >= record {
            after.add().outbound.push(outbound);
            return;
        }
        if !matches!(outbound, Outbound::Snapshot(_)) {
            self.log.flush_soon();
        }
        self.outbox.push_back((record, outbound));
    }

    /// Whether somebody still waits for a call's answer.
    fn is_wanted(&self, pid: Pid, tag: Tag) -> bool {
        matches!(self.state.pending(pid, tag), Some(Pending::Call(_)))
    }

    /// Lets out what is neither an event nor a process.
    pub(in crate::run) fn send_consequences<P: Port<Kernel> + ?Sized>(
        &mut self,
        port: &mut P,
        fixed: &Fixed,
        after: &mut AfterUnlock,
    ) {
        for consequence in std::mem::take(&mut self.state.consequences) {
            match consequence {
                Consequence::Call(departure) => {
                    let Departure { pid, tag, call, .. } = &*departure;
                    if !self.is_wanted(*pid, *tag) {
                        continue;
                    }
                    let is_repeatable = fixed.is_repeatable(&call.handler, &call.args);
                    if !is_repeatable {
                        // Beside the record that asks for it, so that both are durable at one time.
                        let (pid, tag) = (*pid, *tag);
                        self.append(&Record::Leaving { pid, tag });
                        self.state.leave(pid, tag);
                    }
                    self.send(Outbound::Call { departure, is_repeatable }, after);
                }
                Consequence::Abandon { pid, tag } => after.add().abandoned.push((pid, tag)),
                Consequence::Pause(pids, paused) => {
                    for slot in pids.into_iter().filter_map(|pid| self.slot_of(pid)) {
                        port.pause(slot, if paused { Pause::On } else { Pause::Off });
                    }
                }
                Consequence::Tell(event) => {
                    self.watchers.retain(|watcher| watcher.push((*event).clone(), &mut after.add().wakers));
                }
            }
        }
    }
}

impl Run {
    /// Records up to this number are durable.
    pub(in crate::run) fn durable<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P, record: u64) {
        let mut after = AfterUnlock::default();
        let mut inner = self.inner.lock();
        if inner.lost {
            return;
        }
        inner.durable = inner.durable.max(record);
        let acknowledged = inner.waiters.durable(record);
        while inner.outbox.front().is_some_and(|(number, _)| *number <= inner.durable) {
            let (_, outbound) = inner.outbox.pop_front().expect("invariant: its front was just seen");
            match &outbound {
                Outbound::Call { departure, .. } if !inner.is_wanted(departure.pid, departure.tag) => {}
                _ => after.add().outbound.push(outbound),
            }
        }
        drop(inner);
        for durable in acknowledged {
            durable.set(Ok(()));
        }
        self.after(port, after);
    }

    /// Does what reaches foreign code.
    pub(in crate::run) fn after<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P, after: AfterUnlock) {
        let Some(after) = after.0 else { return };
        let UnlockedWork { outbound, abandoned, wakers, refused } = *after;
        wakers.wake();
        drop(refused);
        for (pid, tag) in abandoned {
            let _ = foreign::call(|| self.fixed.effects.abandon(&self.fixed.id, pid, tag));
        }
        for outbound in outbound {
            match outbound {
                Outbound::Outcome(outcome) => {
                    self.kernel.unregister(self);
                    self.outcome.set(Arc::new(*outcome));
                }
                // It stays outstanding, and leaves when the run is taken up again. Of one that is not safe to repeat nobody could tell then
                // that it did not leave.
                Outbound::Call { is_repeatable: true, .. } if self.kernel.are_calls_held() => {}
                Outbound::Call { departure, .. } => self.dispatch(port, *departure),
                Outbound::Snapshot(pending) => self.kernel.snapshot_writer().write(pending),
            }
        }
    }

    fn dispatch<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P, departure: Departure) {
        let Departure { pid, tag, call, key, limits, grants } = departure;
        let reply = Arc::new(CallReply::new(Arc::clone(self), pid, tag));
        let outgoing = Outgoing {
            run: Arc::clone(&self.fixed.id),
            pid,
            tag,
            scope: call.placement.map(|placement| Arc::clone(&placement.scope)),
            handler: call.handler,
            args: call.args,
            timeout: call.timeout,
            idempotency_key: key,
            grants,
            limits,
        };
        match foreign::call(|| self.fixed.effects.dispatch(outgoing, Arc::clone(&reply) as _)) {
            // What a panic drops says so, as whatever is dropped without an answer.
            Ok(Dispatched::Pending) | Err(_) => {}
            Ok(Dispatched::Answered(answer)) => {
                reply.disarm();
                self.answer(port, pid, tag, answer);
            }
        }
    }

    /// Nothing of the run will be durable any more. False: it was parked, and whatever is now in its place is to hear it.
    pub(in crate::run) fn abandon(&self, problem: &Problem) -> bool {
        let mut inner = self.inner.lock();
        if inner.parked {
            return false;
        }
        inner.lost = true;
        let (waiters, outbox) = (std::mem::take(&mut inner.waiters), std::mem::take(&mut inner.outbox));
        // Whoever watches sees nothing more either.
        let mut wakers = Wakers::default();
        inner.watchers.drain(..).for_each(|watcher| watcher.close(&mut wakers));
        let counts = inner.state.counts;
        let timers: Vec<_> = inner.disarm().collect();
        drop(inner);
        self.kernel.with_port(|port| {
            for timer in &timers {
                port.unset_timer(*timer);
            }
        });
        // Dropped, the waiters hear it.
        drop((waiters, outbox));
        wakers.wake();
        self.kernel.unregister(self);
        self.outcome.set(Arc::new(Outcome::of_problem(problem.clone(), counts)));
        true
    }
}
