//! Arrivals from outside a step.

use super::decide::{NAME_BYTES_MAX, too_large};
use super::outstanding::Pending;
use super::run_state::{Consequence, Elapsed, Moment, State};
use super::table::Phase;
use super::timers::{Alarm, TimerKey};
use super::weight::message_bytes;
use crate::process::handler::CACHE;
use crate::process::{Answer, Event, Micros, Payload, Pid, Problem, ProblemClass, Tag, problem::kind};
use crate::run::record::kinds::News;
use std::sync::Arc;

/// If the timer of a grace fires this late, the host was stopped, and the root could not act in
/// time. Arbitrary: much later than a busy host fires it.
const AWAY_MIN: Micros = Micros(1_000_000);

/// The reason of the cancel of a run that takes longer than its timeout.
pub(crate) const TIMEOUT_REASON: &str = "the run took longer than its timeout";

/// Why an arrival is rejected. Nothing is recorded then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::run) enum Rejected {
    /// No process waits for it, or not any more.
    Late,
    /// There is no room for it.
    Full,
    /// It is larger than allowed.
    TooLarge,
    /// It changes nothing.
    Idle,
}

impl State {
    /// Checks that an arrival counts: then it is recorded and applied.
    pub(in crate::run) fn wants(&self, news: &News) -> Result<(), Rejected> {
        if self.is_finished() {
            return Err(Rejected::Late);
        }
        match news {
            News::Answered { pid, tag, .. } => match self.pending(*pid, *tag) {
                Some(Pending::Call(_) | Pending::Signal(_)) => Ok(()),
                _ => Err(Rejected::Late),
            },
            News::Due { pid, tag } => match self.pending(*pid, *tag) {
                Some(Pending::Sleep(_)) => Ok(()),
                _ => Err(Rejected::Late),
            },
            News::Message { pid, message } => {
                let entry = self.living(*pid).ok_or(Rejected::Late)?;
                if self.takes_message(entry, message_bytes(&message.topic, &message.body)) {
                    Ok(())
                } else {
                    Err(Rejected::Full)
                }
            }
            News::Cancel { pid, .. } => self.living(*pid).map(|_| ()).ok_or(Rejected::Late),
            News::TimedOut { .. } => self.living(Pid::ROOT).map(|_| ()).ok_or(Rejected::Late),
            News::Signal { name, body } => self.wants_signal(name, body),
            News::Paused(paused) if *paused == self.paused.is_some() => Err(Rejected::Idle),
            News::Paused(_) => Ok(()),
            News::GraceAgain => self.living(Pid::ROOT).map(|_| ()).ok_or(Rejected::Late),
            News::Again { pid, tag } => match self.pending(*pid, *tag) {
                Some(Pending::Call(call)) if call.sending.is_leaving() || call.is_untimed() => Ok(()),
                _ => Err(Rejected::Late),
            },
        }
    }

    fn wants_signal(&self, name: &str, body: &Payload) -> Result<(), Rejected> {
        // No process of the run may carry more than the root may: the sender is refused, not the
        // receiver.
        let limit = self.table.get(Pid::ROOT).map_or(0, |root| root.limits.payload_bytes);
        if self.result.is_some() {
            Err(Rejected::Late)
        } else if name.len() > NAME_BYTES_MAX || body.size() as u64 > limit {
            Err(Rejected::TooLarge)
        } else if self.takes_signal(name, body) {
            Ok(())
        } else {
            Err(Rejected::Full)
        }
    }

    /// Applies an arrival that counts.
    pub(in crate::run) fn apply_news(&mut self, moment: Moment, news: News) {
        match news {
            News::Answered { pid, tag, answer } => {
                if self.uncertain.remove(&(pid, tag)).is_some() {
                    // What a person found out is the answer to this call alone.
                    self.caching.forget(pid, tag);
                }
                if let Some(pending) = self.settle_tag(pid, tag) {
                    if !pending.is_lookup() {
                        self.answered(pid, tag, &answer);
                    }
                    self.keep_outcome(moment.at, pid, tag, &answer);
                    self.post_answer(pid, tag, answer);
                }
            }
            News::Due { pid, tag } => {
                if self.settle_tag(pid, tag).is_some() {
                    self.post(pid, Event::Completed { tag, answer: Ok(Payload::NULL) });
                }
            }
            News::Message { pid, message } => self.post_message(pid, Box::new(message)),
            News::Cancel { pid, reason, grace } => {
                // A paused process could not end.
                if pid == Pid::ROOT {
                    self.pause(moment, false);
                }
                self.cancel(moment, pid, reason, grace);
            }
            News::TimedOut { after } => {
                self.pause(moment, false);
                // A run that was asked to end before ends for that reason.
                if matches!(self.table.get(Pid::ROOT).map(|root| &root.phase), Some(Phase::Live)) {
                    self.late = Some(after);
                }
                self.cancel(moment, Pid::ROOT, TIMEOUT_REASON, None);
            }
            News::Signal { name, body } => self.deliver_signal(name, body),
            News::Paused(paused) => self.pause(moment, paused),
            News::GraceAgain => self.grace_again(moment),
            News::Again { pid, tag } => self.resend(moment, pid, tag),
        }
    }

    /// Has a call sent again: from here on it counts as not sent. (A rebuild does not know that the
    /// call was uncertain: the recovery sends it.)
    fn resend(&mut self, moment: Moment, pid: Pid, tag: Tag) {
        if let Some(Pending::Call(call)) = self.table.get_mut(pid).and_then(|entry| entry.outstanding.get_mut(tag)) {
            call.sending = call.sending.resent();
            if let Some(timer) = call.timer.take() {
                self.timers.unset(timer);
            }
            // The call has its whole timeout again.
            let set = |timeout| self.timers.set(moment.mono.saturating_add(timeout), pid, Alarm::Timeout(tag));
            call.timer = call.timeout.map(set);
        }
        if let Some(call) = self.uncertain.remove(&(pid, tag)) {
            self.withheld.insert((pid, tag), call);
        }
    }

    /// Cuts the run where it was forked: calls in flight are in flight in the other run, and may
    /// happen there. They are held here, or are to be sent again: their time begins when they are.
    pub(in crate::run) fn fork(&mut self, held: bool) {
        let pids: Vec<Pid> = self.table.iter().filter(|(_, entry)| entry.lives()).map(|(pid, _)| pid).collect();
        for pid in pids {
            let Some(entry) = self.table.get_mut(pid) else { continue };
            for (_, pending) in entry.outstanding.iter_mut() {
                if let Pending::Call(call) = pending {
                    // A lookup has no effect that could happen in the other run.
                    let held = held && &*call.handler != CACHE;
                    call.sending = if held { call.sending.hold() } else { call.sending.resent() };
                    if let Some(timer) = call.timer.take() {
                        self.timers.unset(timer);
                    }
                }
            }
        }
    }

    /// Notes a `leaving` record: from now on the call may have happened.
    pub(in crate::run) fn mark_leaving(&mut self, pid: Pid, tag: Tag) {
        if let Some(Pending::Call(call)) = self.table.get_mut(pid).and_then(|entry| entry.outstanding.get_mut(tag)) {
            call.sending = call.sending.leaving();
        }
    }

    pub(in crate::run) fn pending(&self, pid: Pid, tag: Tag) -> Option<&Pending> {
        self.living(pid)?.outstanding.get(tag)
    }

    /// The arrival that a timer causes when it is due, if any: killing a process has a record of
    /// its own.
    pub(in crate::run) fn alarm(&mut self, moment: Moment, pid: Pid, alarm: Alarm) -> Option<News> {
        match alarm {
            Alarm::Sleep(tag) => Some(News::Due { pid, tag }),
            Alarm::Timeout(tag) => {
                let call = match self.pending(pid, tag) {
                    Some(Pending::Call(call)) => call,
                    Some(Pending::Signal(signal)) => {
                        return Some(News::Answered { pid, tag, answer: Err(signal.timed_out().into()) });
                    }
                    _ => return None,
                };
                let problem = Problem::new(kind::TIMED_OUT, "The call took longer than its timeout")
                    .with_unknown_outcome(!call.sending.is_leaving());
                self.consequences.push(Consequence::Abandon { pid, tag });
                Some(News::Answered { pid, tag, answer: Err(problem.into()) })
            }
            Alarm::Grace if pid == Pid::ROOT && self.grace_over_for(moment) >= Some(AWAY_MIN) => Some(News::GraceAgain),
            Alarm::Grace => {
                self.kill(pid);
                None
            }
        }
    }

    /// Bounds an answer to what the process may get: one that is too large becomes a problem.
    /// Whether the call happened is then not known to the process.
    pub(in crate::run) fn bounded(&self, pid: Pid, tag: Tag, mut answer: Answer) -> Answer {
        let Some(entry) = self.living(pid) else { return answer };
        if let (Err(problem), Some(Pending::Call(call))) = (&mut answer, entry.outstanding.get(tag))
            // A caller who settles an uncertain call settles all its sendings.
            && !self.uncertain.contains_key(&(pid, tag))
        {
            call.doubt(Arc::make_mut(problem));
        }
        match &answer {
            Ok(payload) if payload.size() as u64 > entry.limits.payload_bytes => {
                let class = match entry.outstanding.get(tag) {
                    Some(Pending::Call(call)) if call.sending.is_leaving() => ProblemClass::Uncertain,
                    _ => ProblemClass::Definite,
                };
                let problem = too_large("The answer", payload.size() as u64, entry.limits.payload_bytes);
                Err(problem.with_class(class).into())
            }
            _ => answer,
        }
    }

    /// Pauses or unpauses the run. While it is paused its processes are not stepped, and the time
    /// of calls and of graces stands still. Sleeps continue: they end at a fixed time, and their
    /// events wait in the queue.
    fn pause(&mut self, moment: Moment, paused: bool) {
        if paused == self.paused.is_some() {
            return;
        }
        let pids: Vec<Pid> = self.table.iter().filter(|(_, entry)| entry.lives()).map(|(pid, _)| pid).collect();
        let since = if paused { self.paused.replace(moment) } else { self.paused.take() };
        for pid in &pids {
            match since {
                None => self.hold_timers(*pid),
                Some(since) => self.shift_timers(*pid, moment.since(since)),
            }
        }
        self.consequences.push(Consequence::Pause(pids, paused));
    }

    /// Removes a process's timers from the queue; the process retains their keys.
    fn hold_timers(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if let Phase::Cancelling { deadline, .. } = &entry.phase {
            self.timers.unset(*deadline);
        }
        for (_, pending) in entry.outstanding.iter_mut() {
            if let Some(timer) = pending.timeout() {
                self.timers.unset(*timer);
            }
        }
    }

    /// Sets the removed timers again, later by this time.
    fn shift_timers(&mut self, pid: Pid, by: Elapsed) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let timers = &mut self.timers;
        let mut shift = |key: &mut TimerKey, alarm| {
            timers.unset(*key);
            *key = timers.set(key.0.saturating_add(by.mono), pid, alarm);
        };
        if let Phase::Cancelling { deadline, until, .. } = &mut entry.phase {
            *until = until.saturating_add(by.at);
            shift(deadline, Alarm::Grace);
        }
        for (tag, pending) in entry.outstanding.iter_mut() {
            if let Some(timer) = pending.timeout() {
                shift(timer, Alarm::Timeout(tag));
            }
        }
    }
}
