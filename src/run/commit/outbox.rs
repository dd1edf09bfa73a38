//! What leaves the host: it waits until the record that caused it is durable.
//!
//! Calls, outcomes and snapshots stand in the outbox with the number of their record, in its order.
//! They leave when the log reports it durable, after the lock is released, since they reach foreign
//! code: as wakers of watchers do, and processes that the scheduler refuses.

use super::kernel::Kernel;
use super::observe::Wakers;
use super::reply::CallReply;
use super::run::{Inner, Run};
use super::snapshot_writer::PendingSnapshot;
use super::task::Task;
use crate::base::foreign;
use crate::process::handler::CACHE;
use crate::process::{Pid, Problem, Tag};
use crate::run::record::kinds::Record;
use crate::run::state::config::RunConfig;
use crate::run::state::events::Outcome;
use crate::run::state::outstanding::Pending;
use crate::run::state::run_state::Consequence;
use crate::run::{CachedOutcome, Dispatched, OutgoingCall};
use crate::scheduler::{Pause, Port};
use std::sync::Arc;

/// What leaves the host when its record is durable.
pub(in crate::run) enum Outbound {
    /// A call. One that is not safe to repeat has a `leaving` record, which is durable too.
    Call {
        call: Box<OutgoingCall>,
        is_repeatable: bool,
    },
    Outcome(Box<Outcome>),
    /// An outcome for others.
    Keep(Box<CachedOutcome>),
    /// A snapshot of a process as it was after that step.
    Snapshot(Box<PendingSnapshot>),
}

/// Work for when the lock is released: all that reaches foreign code. Most commits have none, so it
/// is made when it is first needed.
#[derive(Default)]
pub(in crate::run) struct AfterUnlock(Option<Box<UnlockedWork>>);

/// What [`AfterUnlock`] holds.
#[derive(Default)]
pub(in crate::run) struct UnlockedWork {
    pub(in crate::run) outbound: Vec<Outbound>,
    pub(in crate::run) abandoned: Vec<(Pid, Tag)>,
    /// Wakers of watchers.
    pub(in crate::run) wakers: Wakers,
    /// Processes that the scheduler refused. Dropping them drops their bodies.
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
    /// Sends something, now or when the last record is durable. Nothing waits for a snapshot,
    /// or for an outcome to be kept.
    pub(in crate::run) fn send(&mut self, outbound: Outbound, after: &mut AfterUnlock) {
        if self.lost {
            // Whether its record will ever be durable is unknown.
            return;
        }
        let record = self.state.counts.records;
        if self.durable >= record {
            after.add().outbound.push(outbound);
            return;
        }
        if !matches!(outbound, Outbound::Snapshot(_) | Outbound::Keep(_)) {
            self.log.flush_soon();
        }
        self.outbox.push_back((record, outbound));
    }

    /// Whether the answer of a call is still awaited.
    fn is_wanted(&self, pid: Pid, tag: Tag) -> bool {
        matches!(self.state.pending(pid, tag), Some(Pending::Call(_)))
    }

    /// Whether an outcome is on its way to the cache.
    fn gives_to_cache(&self) -> bool {
        self.outbox.iter().any(|(_, sent)| matches!(sent, Outbound::Keep(_)))
    }

    /// Sends all consequences that are neither events nor processes.
    pub(in crate::run) fn send_consequences<P: Port<Kernel> + ?Sized>(
        &mut self,
        port: &mut P,
        config: &RunConfig,
        after: &mut AfterUnlock,
    ) {
        let mut gives = None;
        for consequence in std::mem::take(&mut self.state.consequences) {
            match consequence {
                Consequence::Call(call) => {
                    let (pid, tag) = (call.pid, call.tag);
                    if !self.is_wanted(pid, tag) {
                        continue;
                    }
                    // A question to the cache has no effect, so it need not wait for its record,
                    // but it finds what the run itself has given to the cache before.
                    if &*call.handler == CACHE && !*gives.get_or_insert_with(|| self.gives_to_cache()) {
                        if !self.lost {
                            after.add().outbound.push(Outbound::Call { call, is_repeatable: true });
                        }
                        continue;
                    }
                    let is_repeatable = config.is_repeatable(&call.handler, &call.args);
                    if !is_repeatable {
                        // Beside the record that asks for the call, so that both become durable
                        // together.
                        self.append(&Record::Leaving { pid, tag });
                        self.state.mark_leaving(pid, tag);
                    }
                    self.send(Outbound::Call { call, is_repeatable }, after);
                }
                Consequence::Keep(outcome) => {
                    self.send(Outbound::Keep(outcome), after);
                    gives = None;
                }
                Consequence::Abandon { pid, tag } => after.add().abandoned.push((pid, tag)),
                // One that waits for a place in its group is held anyway.
                Consequence::Pause(..) if self.is_queued => {}
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
    /// Notes that records up to this number are durable, and sends what waited for them.
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
                Outbound::Call { call, .. } if !inner.is_wanted(call.pid, call.tag) => {}
                _ => after.add().outbound.push(outbound),
            }
        }
        drop(inner);
        for durable in acknowledged {
            durable.set(Ok(()));
        }
        self.after_unlock(port, after);
    }

    /// Does the work that reaches foreign code.
    pub(in crate::run) fn after_unlock<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P, after: AfterUnlock) {
        let Some(after) = after.0 else { return };
        let UnlockedWork { outbound, abandoned, wakers, refused } = *after;
        wakers.wake();
        drop(refused);
        for (pid, tag) in abandoned {
            let _ = foreign::call(|| self.config.effects.abandon(&self.config.id, pid, tag));
        }
        for outbound in outbound {
            match outbound {
                Outbound::Outcome(outcome) => {
                    self.kernel.unregister(self);
                    self.outcome.set(Arc::new(*outcome));
                }
                // The call stays outstanding, and is sent when the run is recovered. One that is
                // not safe to repeat is sent now: nothing could tell then that it was not sent.
                Outbound::Call { is_repeatable: true, .. } if self.kernel.are_calls_held() => {}
                Outbound::Call { call, .. } => self.dispatch(port, *call),
                Outbound::Keep(outcome) => {
                    let _ = foreign::call(|| self.config.effects.keep(*outcome));
                }
                Outbound::Snapshot(pending) => self.kernel.snapshot_writer().write(pending),
            }
        }
    }

    fn dispatch<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P, call: OutgoingCall) {
        let (pid, tag) = (call.pid, call.tag);
        let reply = Arc::new(CallReply::new(Arc::clone(self), pid, tag));
        match foreign::call(|| self.config.effects.dispatch(call, Arc::clone(&reply) as _)) {
            // A reply that a panic drops reports that, like any that is dropped without an answer.
            Ok(Dispatched::Pending) | Err(_) => {}
            Ok(Dispatched::Answered(answer)) => {
                reply.disarm();
                self.answer(port, pid, tag, answer);
            }
        }
    }

    /// Ends a run whose further records will never be durable. Returns whether it did: not if the
    /// run was parked, and its successor has to be abandoned.
    pub(in crate::run) fn abandon(&self, problem: &Problem) -> bool {
        let mut inner = self.inner.lock();
        if inner.parked {
            return false;
        }
        inner.lost = true;
        let waiters = std::mem::take(&mut inner.waiters);
        let outbox = std::mem::take(&mut inner.outbox);
        // Watchers receive nothing more either.
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
        // Dropped, the waiters are notified.
        drop((waiters, outbox));
        wakers.wake();
        self.kernel.unregister(self);
        self.outcome.set(Arc::new(Outcome::of_problem(problem.clone(), counts)));
        true
    }
}
