//! Recovering a run from its records, when the host that owned it is gone.
//!
//! No process is stepped for it: queues, names, links, timers and outstanding calls come from the
//! records, and a process replays its steps when it is next stepped ([`ReplayingBody`]). A process
//! that waits needs no instance until then, and none is refused one: it had one before. Timers are
//! due at their time by the wall clock, past ones at once.
//!
//! A call without an answer is sent again, under its key, unless a `leaving` record says that it
//! may have happened and must not be repeated: such a call is *uncertain*. It waits, without a
//! timeout, until it is resolved ([`RunHandle::resolve`]); the rest of the run continues.
//!
//! Acts from the inbox are applied first, in their order, before any caller finds the run: later
//! acts come after them. No call is sent again while a process has yet to take the event that it is
//! to end, since its end takes its calls back.

use super::rebuild::{Rebuild, RebuildError, Recovered};
use super::replay::check_programs;
use super::replaying::{History, ReplayingBody, SnapshotChain};
use super::saved::Snapshots;
use crate::base::brief::BriefGuard;
use crate::process::{Ending, Pid, Program, Tag};
use crate::run::commit::acts::{Act, Resolution};
use crate::run::commit::consequences::no_capacity;
use crate::run::commit::handle::{Refused, RunHandle};
use crate::run::commit::kernel::Kernel;
use crate::run::commit::observe::{Once, Watcher};
use crate::run::commit::outbox::AfterUnlock;
use crate::run::commit::parking::stopped;
use crate::run::commit::parking::waking::FromParked;
use crate::run::commit::run::{Inner, Run};
use crate::run::commit::task::Task;
use crate::run::record::kinds::{News, Record};
use crate::run::seam::effects::{Effects, OutgoingCall};
use crate::run::seam::log::{Log, LogSink, Mail};
use crate::run::state::config::{Programs, RunConfig};
use crate::run::state::events::Outcome;
use crate::run::state::outstanding::Pending;
use crate::run::state::projection::Uncertain;
use crate::run::state::run_state::{Post, State};
use crate::scheduler::{Pause, Port};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a run is recovered with.
pub struct RecoverySpec {
    /// The program of its root process.
    pub root: Arc<dyn Program>,
    /// The programs that its processes may spawn.
    pub programs: Programs,
    /// Acts from its inbox, in their order: they are applied before anything else happens in it.
    /// Mail that is not an act is skipped.
    pub left: Vec<Mail>,
    /// Whether to leave the run alone if it is paused once those acts are applied.
    pub unless_paused: bool,
    /// Where its further records go.
    pub log: Box<dyn Log>,
    /// What carries out its calls.
    pub effects: Arc<dyn Effects>,
    /// What receives its log lines.
    pub sink: Option<Arc<dyn LogSink>>,
    /// Watches the run from the end of its records on: it misses nothing that they do not contain.
    pub watcher: Option<Watcher>,
}

/// Why a run cannot be recovered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// There is an unfinished run with that id.
    #[error("the run {0:?} is already running")]
    Exists(Arc<str>),
    /// The run has ended.
    #[error("the run {0:?} has ended")]
    Ended(Arc<str>),
    /// The run is paused, and `unless_paused` was given.
    #[error("the run {0:?} is paused")]
    Paused(Arc<str>),
    /// There is no first record.
    #[error("the run has no records")]
    Empty,
    /// The scheduler takes no more processes. The run is unchanged, and no host owns it.
    #[error("the host is shutting down or full")]
    Refused,
    /// The records are not those of a run of these programs.
    #[error(transparent)]
    Records(#[from] RebuildError),
}

impl Kernel {
    /// Recovers a run from its records, all of them from the first on.
    ///
    /// # Errors
    /// Fails if the run is running already or has ended, if the scheduler refuses it, or if the
    /// records are not those of a run of these programs.
    pub fn recover(&self, spec: RecoverySpec, records: &[Record]) -> Result<RunHandle, RecoveryError> {
        self.recover_as(spec, records, None, None).map(RunHandle::new)
    }

    /// Recovers a run and ends it at once: the acts from its inbox are applied, then all its
    /// processes are cancelled without a grace. None of them is stepped, so their programs are
    /// never asked for a body.
    ///
    /// # Errors
    /// Fails like [`Self::recover`].
    pub fn end(&self, spec: RecoverySpec, records: &[Record], reason: &str) -> Result<RunHandle, RecoveryError> {
        self.recover_as(spec, records, None, Some(reason.into())).map(RunHandle::new)
    }

    /// Like [`Self::recover`], and if a reason is given like [`Self::end`]; for a run that was
    /// parked if what remained of it is given.
    pub(in crate::run) fn recover_as(
        &self,
        spec: RecoverySpec,
        records: &[Record],
        from_parked: Option<FromParked>,
        ends: Option<Arc<str>>,
    ) -> Result<Arc<Run>, RecoveryError> {
        let RecoverySpec { root, programs, left, unless_paused, mut log, effects, sink, watcher } = spec;
        let rebuild = Rebuild::new(Arc::clone(&root), programs.clone()).retaining().apply_all(records)?;
        let ended = rebuild.is_finished();
        let (started, state, recovered) = rebuild.into_run().ok_or(RecoveryError::Empty)?;
        if ended {
            // Its host died between writing the last record and reporting the end.
            if let Some(end) = state.end(recovered.at) {
                let _ = log.ended(&end);
            }
            return Err(RecoveryError::Ended(started.run));
        }
        if unless_paused && state.is_paused_after(&left) {
            return Err(RecoveryError::Paused(started.run));
        }
        if state.table.iter().any(|(pid, entry)| entry.lives() && !recovered.pasts.contains_key(&pid)) {
            let record = state.counts.records;
            return Err(RebuildError::Incoherent { record, why: "a process lives that was never made" }.into());
        }
        check_programs(&started.programs, &programs)?;
        let config = RunConfig::new(&started, root, programs, effects, sink);
        let mut snapshots = Snapshots::of(&*log, &state, &recovered.pasts);
        let is_woken = from_parked.is_some();
        let is_restless = from_parked.as_ref().is_some_and(|parked| parked.is_restless);
        let (outcome, clock_offset) = from_parked.map(|parked| (parked.outcome, parked.clock_offset)).unzip();
        // Of a run that was parked and left nothing here, some may wait for the outcome.
        let outcome = outcome.or_else(|| self.gone_outcome(&started.run));
        let was_parked = outcome.is_some();
        let outcome = outcome.unwrap_or_else(|| Arc::new(Once::new()));
        let mut rest = Some((config, state, recovered, log, watcher));
        let mut result = Err(RecoveryError::Refused);
        self.with_port(|port| {
            let Some((config, state, mut recovered, log, watcher)) = rest.take() else { return };
            let times = (recovered.at, port.monotonic(), clock_offset);
            let run = Arc::new(Run::recovered(config, self.clone(), times, state, log, Arc::clone(&outcome)));
            // A caller that finds the run in the list waits until its processes are there.
            let mut inner = run.inner.lock();
            let Some(registered) = self.register(&run, is_woken) else {
                result = Err(RecoveryError::Exists(started.run.clone()));
                return;
            };
            let mut after = AfterUnlock::default();
            let is_taken = run.recover_processes(&mut inner, port, &mut recovered.pasts, &mut snapshots, &mut after);
            if is_taken {
                inner.watched_by(watcher, &mut after.add().wakers);
                snapshots.report(&run);
                run.start_recovered(port, inner, recovered, &left, ends.as_ref(), &mut after);
            } else {
                run.return_refused((was_parked, is_restless), inner, port);
            }
            run.after_unlock(port, after);
            self.registered(&run, registered);
            if is_taken {
                self.came_back(&run.config.id);
                self.sweep(port, Some(&run));
                result = Ok(run);
            }
        });
        if let Some((_, state, ..)) = rest {
            // The scheduler is gone.
            outcome.set(Arc::new(Outcome::of_problem(stopped(), state.counts)));
        }
        result
    }
}

impl Run {
    /// Hands all processes to the scheduler. Returns whether it accepted all: if not, the run
    /// cannot be recovered.
    fn recover_processes<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        inner: &mut Inner,
        port: &mut P,
        pasts: &mut BTreeMap<Pid, History>,
        snapshots: &mut Snapshots,
        after: &mut AfterUnlock,
    ) -> bool {
        let living: Vec<Pid> =
            inner.state.table.iter().filter(|(_, entry)| entry.lives()).map(|(pid, _)| pid).collect();
        living.into_iter().all(|pid| {
            let history = pasts.remove(&pid).expect("invariant: a living process was made");
            let snapshots = snapshots.take(pid, &self.remarks);
            let refused = self.recover_process(inner, port, pid, (history, snapshots), after).err();
            let is_taken = refused.is_none();
            after.add().refused.extend(refused);
            is_taken
        })
    }

    /// Posts the events that processes have not taken, applies the acts from the inbox, and sends
    /// the calls that have no answer. A caller that finds the run waits for the lock until all that
    /// is done.
    fn start_recovered<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        port: &mut P,
        mut inner: BriefGuard<'_, Inner>,
        recovered: Recovered,
        left: &[Mail],
        ends: Option<&Arc<str>>,
        after: &mut AfterUnlock,
    ) {
        let Recovered { queues, calls, .. } = recovered;
        let moment = self.moment(port.monotonic());
        for (pid, events) in queues {
            inner.state.posts.extend(events.into_iter().map(|event| Post { pid, event }));
        }
        for (pid, tag) in inner.state.resend_calls(calls, &self.config) {
            let _ = inner.record_news(moment, News::Again { pid, tag }, None);
        }
        // Its grace is time in which it could act.
        if ends.is_none() && inner.state.grace_over_for(moment).is_some() {
            let _ = inner.record_news(moment, News::GraceAgain, None);
        }
        for mail in left {
            // An act that cannot be applied stays in the inbox: there may be room for it when the
            // run is next recovered, else it goes with the run.
            if let Ok(act) = Act::of_mail(mail) {
                let _ = inner.act(moment, act, Some(&mail.id));
            }
        }
        if let Some(reason) = ends {
            inner.kill_all(moment, reason);
        }
        self.flush(&mut inner, port, moment, after);
        self.schedule_first_check(&mut inner, port);
    }

    fn recover_process<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        inner: &mut Inner,
        port: &mut P,
        pid: Pid,
        (history, snapshots): (History, Option<SnapshotChain>),
        after: &mut AfterUnlock,
    ) -> Result<(), Task> {
        let is_held = inner.is_held();
        let entry = inner.state.living_mut(pid).expect("invariant: a living process is in the table");
        let program = Arc::clone(&history.program);
        let permit = program.permit().within(&entry.limits);
        let native = permit.is_none();
        let is_fresh = entry.steps == 0;
        let last_saved = snapshots.as_ref().and_then(|snapshots| snapshots.steps.last()).map_or(0, |(step, _)| *step);
        let tail_steps = history.steps.iter().filter(|step| step.number > last_saved).count() as u64;
        let mut task =
            Task::new(Arc::clone(self), pid, program, Box::new(ReplayingBody::new(history, snapshots)), native);
        if let Some(tail) = &mut task.state.tail {
            tail.steps = tail_steps;
        }
        task.state.begun = !is_fresh;
        task.state.steps = entry.steps;
        task.state.wait_state = entry.waits;
        entry.begun = native || !is_fresh;
        let next = task.state.next();
        let slot = if is_fresh { port.spawn(task, permit) } else { port.take_up(task, permit, next) };
        let slot = match slot {
            Ok(slot) => slot,
            Err(task) if port.can_ever_admit(permit) => return Err(task),
            Err(task) => {
                // It was refused before, and its host died before that was durable; or this host's
                // pool is smaller.
                after.add().refused.push(task);
                inner.state.doomed.push((pid, Ending::Failed(no_capacity().into())));
                return Ok(());
            }
        };
        entry.slot = Some(slot);
        if is_held {
            port.pause(slot, Pause::On);
        }
        Ok(())
    }
}

impl State {
    /// Returns whether the run is paused once these acts have been applied, in their order.
    fn is_paused_after(&self, left: &[Mail]) -> bool {
        let acts = left.iter().filter(|mail| !self.acts.knows(&mail.id)).map(Act::of_mail);
        acts.fold(self.paused.is_some(), |paused, act| match act {
            Ok(Act::Pause) => true,
            // A process that is paused could not end.
            Ok(Act::Resume | Act::Cancel { .. } | Act::TimeOut { .. }) => false,
            _ => paused,
        })
    }

    /// Has calls without an answer sent again; the uncertain ones stay, without their timeouts.
    /// Returns the calls whose time begins now, for a record to say so.
    fn resend_calls(&mut self, calls: BTreeMap<(Pid, Tag), Box<OutgoingCall>>, config: &RunConfig) -> Vec<(Pid, Tag)> {
        let mut begin = Vec::new();
        for ((pid, tag), call) in calls {
            let Some(Pending::Call(pending)) =
                self.table.get_mut(pid).filter(|entry| entry.lives()).and_then(|entry| entry.outstanding.get_mut(tag))
            else {
                continue;
            };
            if pending.sending.is_leaving() {
                if let Some(timer) = pending.timer.take() {
                    self.timers.unset(timer);
                }
                self.uncertain.insert((pid, tag), call);
            } else {
                if pending.is_untimed() {
                    begin.push((pid, tag));
                }
                // If it were not safe to repeat, there would be a `leaving` record.
                if config.is_repeatable(&call.handler, &call.args) {
                    pending.sending = pending.sending.resent();
                }
                self.withheld.insert((pid, tag), call);
            }
        }
        begin
    }
}

impl RunHandle {
    /// The calls whose outcome is unknown, in the order of their processes and tags.
    #[must_use]
    pub fn uncertain(&self) -> Vec<Uncertain> {
        let uncertain = |inner: &Inner| {
            let open = inner.state.uncertain.iter().filter_map(|(&(pid, tag), call)| {
                let Some(Pending::Call(pending)) = inner.state.pending(pid, tag) else { return None };
                let (handler, key) = (Arc::clone(&call.handler), Arc::clone(&call.idempotency_key));
                Some(Uncertain { pid, tag, handler, key, since: pending.since })
            });
            open.collect()
        };
        self.with(|_, inner| uncertain(inner)).unwrap_or_default()
    }

    /// Settles an uncertain call.
    ///
    /// # Errors
    /// Fails if there is no such call, or no longer.
    pub fn resolve(&self, pid: Pid, tag: Tag, resolution: Resolution) -> Result<(), Refused> {
        self.act(Act::Resolve { pid, tag, resolution }, None).map(drop)
    }
}
