//! Endings: how a process is asked to end, and what its end does to others.

use super::events::RunEvent;
use super::outstanding::Pending;
use super::run_state::{Consequence, Moment, State};
use super::table::Phase;
use super::timers::Alarm;
use crate::process::problem::{cut, kind};
use crate::process::{Answer, Ending, Event, Exit, Micros, Pid, Problem};
use std::sync::Arc;

/// The answer to the spawn of a child that ended like this, without an output.
pub(crate) fn answer_of(ending: &Ending) -> Answer {
    match ending {
        Ending::Completed => Ok(crate::process::Payload::NULL),
        Ending::Failed(problem) => Err(Arc::clone(problem)),
        Ending::Cancelled(reason) => {
            Err(Arc::new(Problem::new(kind::CANCELLED, "It was cancelled").with_detail(&**reason)))
        }
    }
}

/// Bytes of the reason given to a linked process. Along a chain of links each process adds a few
/// words to the reason before; the texts of a single problem are never cut. Arbitrary.
const REASON_BYTES_MAX: usize = 8 << 10;

/// Why the processes linked to a process are to end with it.
fn reason_of(pid: Pid, ending: &Ending) -> Option<Arc<str>> {
    let mut reason = match ending {
        Ending::Completed => return None,
        Ending::Failed(problem) => format!("the linked process {pid} failed: {problem}"),
        Ending::Cancelled(reason) => format!("the linked process {pid} was cancelled: {reason}"),
    };
    cut(&mut reason, REASON_BYTES_MAX);
    Some(reason.into())
}

impl State {
    /// Asks a process to end: it gets a cancel event, and is killed when its grace has passed.
    /// Asked again it gets no further event, but a shorter grace counts. A process that has never
    /// begun is killed at once.
    pub(in crate::run) fn cancel(
        &mut self,
        moment: Moment,
        pid: Pid,
        reason: impl Into<Arc<str>>,
        grace: Option<Micros>,
    ) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let grace = grace.unwrap_or(entry.limits.grace);
        let (due, ends) = (moment.mono.saturating_add(grace), moment.at.saturating_add(grace));
        match &mut entry.phase {
            Phase::Ended(_) => {}
            Phase::Cancelling { grace: before, deadline, until, .. } => {
                *before = grace.min(*before);
                *until = ends.min(*until);
                if due < deadline.0 {
                    self.timers.unset(*deadline);
                    *deadline = self.timers.set(due, pid, Alarm::Grace);
                }
            }
            Phase::Live => {
                let reason: Arc<str> = reason.into();
                let deadline = self.timers.set(due, pid, Alarm::Grace);
                let is_taken = false;
                entry.phase = Phase::Cancelling { reason: Arc::clone(&reason), grace, deadline, until: ends, is_taken };
                self.cancels_not_taken += 1;
                // A process that never began has nothing to clean up. (In a rebuild it has no slot;
                // its end is the next record.)
                let waits = entry.slot.is_some() && !entry.begun;
                self.post(pid, Event::Cancel { reason, grace });
                if waits {
                    self.kill(pid);
                }
            }
        }
    }

    /// How long the grace of the root has been over, if it was asked to end.
    pub(in crate::run) fn grace_over_for(&self, moment: Moment) -> Option<Micros> {
        let Phase::Cancelling { deadline, .. } = &self.table.get(Pid::ROOT)?.phase else { return None };
        // While the run is paused it stands still.
        (self.paused.is_none() && deadline.0 <= moment.mono).then(|| moment.mono.since(deadline.0))
    }

    /// Lets the grace of the root begin anew, if it was asked to end. It gets the event again.
    pub(in crate::run) fn grace_again(&mut self, moment: Moment) {
        let Some(entry) = self.table.get_mut(Pid::ROOT) else { return };
        let Phase::Cancelling { reason, grace, deadline, until, .. } = &mut entry.phase else { return };
        self.timers.unset(*deadline);
        *deadline = self.timers.set(moment.mono.saturating_add(*grace), Pid::ROOT, Alarm::Grace);
        *until = moment.at.saturating_add(*grace);
        let event = Event::Cancel { reason: Arc::clone(reason), grace: *grace };
        self.post(Pid::ROOT, event);
    }

    /// Restarts the grace of the root when a step takes the event: a busy host may run that step
    /// late. If no step takes it, the grace counts from the request.
    pub(in crate::run) fn begin_grace(&mut self, moment: Moment, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid).filter(|_| pid == Pid::ROOT) else { return };
        let Phase::Cancelling { grace, deadline, until, .. } = &mut entry.phase else { return };
        let due = moment.mono.saturating_add(*grace);
        if due > deadline.0 {
            self.timers.unset(*deadline);
            *deadline = self.timers.set(due, pid, Alarm::Grace);
            *until = moment.at.saturating_add(*grace);
        }
    }

    /// Kills a process whose grace has passed. It ends here and now, even if a worker is stepping
    /// it or it waits for an instance: nothing that it still does becomes visible.
    pub(in crate::run) fn kill(&mut self, pid: Pid) {
        if let Some(Phase::Cancelling { reason, .. }) = self.table.get(pid).map(|entry| &entry.phase) {
            self.doomed.push((pid, Ending::Cancelled(Arc::clone(reason))));
        }
    }

    /// Ends a process. Its answer reaches its parent when its attached descendants are gone too.
    pub(in crate::run) fn exit(&mut self, moment: Moment, pid: Pid, ending: Ending, answer: Answer) {
        let Some(entry) = self.living(pid) else { return };
        // The root's answer is the run's: it is not lost because others take up its room.
        let waits = pid != Pid::ROOT && entry.family.attached > 0;
        let answer = if waits { self.fitting(answer) } else { answer };
        self.bytes += self.weight_of_waiting(&answer);
        let entry = self.table.get_mut(pid).expect("invariant: it was just there");
        let phase = std::mem::replace(&mut entry.phase, Phase::Ended(answer));
        let left = match phase {
            Phase::Cancelling { deadline, until, is_taken, .. } => {
                self.timers.unset(deadline);
                self.cancels_not_taken -= u32::from(!is_taken);
                Some(until.since(moment.at))
            }
            _ => None,
        };
        self.living -= 1;
        self.endings.remember(pid, &ending);
        if pid == Pid::ROOT {
            self.root_ending = Some(ending.clone());
        }
        self.promised.end(pid);
        self.drop_outstanding(pid, &ending);
        self.notify_others(moment, pid, &ending);
        self.cancel_attached(moment, pid, left);
        self.report(|| RunEvent::Ended { pid, ending });
        self.settle(moment, pid);
    }

    fn drop_outstanding(&mut self, pid: Pid, ending: &Ending) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        self.bytes -= std::mem::take(&mut entry.queued_bytes);
        entry.outstanding_bytes = 0;
        if entry.outstanding.is_empty() {
            return;
        }
        let outstanding = std::mem::take(&mut entry.outstanding);
        self.caching.forget_all(pid);
        for (tag, pending) in outstanding.iter() {
            self.bytes -= self.weight_of_pending(pending);
            match pending {
                Pending::Sleep(timer) => self.timers.unset(*timer),
                Pending::Spawn { .. } => {}
                Pending::Signal(signal) => {
                    if let Some(timer) = signal.timer {
                        self.timers.unset(timer);
                    }
                    self.signals.forget(signal);
                }
                Pending::Call(call) => {
                    if let Some(timer) = call.timer {
                        self.timers.unset(timer);
                    }
                    self.consequences.push(Consequence::Abandon { pid, tag });
                    if *ending == Ending::Completed {
                        self.abandon(pid, tag, call);
                    }
                }
            }
        }
    }

    /// Releases its names, and notifies linked and monitoring processes.
    fn notify_others(&mut self, moment: Moment, pid: Pid, ending: &Ending) {
        let Some(ties) = self.table.get_mut(pid).and_then(|entry| entry.ties.take()) else { return };
        for name in &ties.names {
            self.bytes -= self.weight_of_name(name);
            self.names.remove(name);
        }
        self.ties -= (ties.watches.len() + ties.watchers.len()) as u64;
        let reason = reason_of(pid, ending);
        for ((other, by), link) in ties.watchers {
            if let Some(entry) = self.table.get_mut(other) {
                entry.ties_mut().watches.remove(&(pid, by));
            }
            self.post(other, Event::Exited(Box::new(Exit { pid, by, ending: ending.clone() })));
            if let (true, Some(reason)) = (link, &reason) {
                self.cancel(moment, other, Arc::clone(reason), None);
            }
        }
        for ((other, by), link) in ties.watches {
            if let Some(entry) = self.table.get_mut(other) {
                entry.ties_mut().watchers.remove(&(pid, by));
            }
            if let (true, Some(reason)) = (link, &reason) {
                self.cancel(moment, other, Arc::clone(reason), None);
            }
        }
    }

    /// Asks the attached children of a process that has ended to end. If the process was asked to
    /// end itself, they have at most what is left of its grace: a tree of processes that ignore the
    /// request ends with the grace of its top, however deep it is.
    fn cancel_attached(&mut self, moment: Moment, pid: Pid, left: Option<Micros>) {
        let Some(entry) = self.table.get(pid) else { return };
        if entry.family.attached == 0 {
            return;
        }
        // The oldest first, as they were spawned.
        for child in self.attached(entry).into_iter().rev() {
            let own = self.table[child].limits.grace;
            self.cancel(moment, child, "its parent has ended", left.map(|left| left.min(own)));
        }
    }

    /// Removes an ended process without attached descendants, answers its parent, and continues
    /// with the parent if it waited for nothing else.
    fn settle(&mut self, moment: Moment, mut pid: Pid) {
        while let Some(entry) = self.table.get(pid)
            && !entry.lives()
            && entry.family.attached == 0
        {
            let mut entry = self.table.remove(pid).expect("invariant: it was just looked up");
            let (parent, detached) = (entry.parent, entry.detached);
            let Phase::Ended(answer) = std::mem::replace(&mut entry.phase, Phase::Live) else {
                unreachable!("invariant: it does not live");
            };
            self.bytes -= self.weight_of_waiting(&answer);
            let Some((parent, tag)) = parent else {
                self.root_is_gone(moment, answer);
                return;
            };
            if !detached {
                self.detach(parent, &entry.family);
            }
            let waits = self.living(parent).and_then(|entry| entry.outstanding.get(tag));
            if matches!(waits, Some(Pending::Spawn { .. })) {
                self.settle_tag(parent, tag);
                self.keep_outcome(moment.at, parent, tag, &answer);
                self.post_answer(parent, tag, answer);
            }
            if detached {
                return;
            }
            pid = parent;
        }
    }

    /// The run has its result. Detached processes have lived as long as they may.
    fn root_is_gone(&mut self, moment: Moment, answer: Answer) {
        self.result = Some(answer);
        let left: Vec<Pid> = self.table.iter().filter(|(_, entry)| entry.detached).map(|(pid, _)| pid).collect();
        for pid in left {
            self.cancel(moment, pid, "the run has ended", None);
        }
    }
}
