//! What comes to a run from outside its steps: news, answers, due timers.

use super::kernel::Kernel;
use super::outbox::AfterUnlock;
use super::run::{Inner, Run};
use crate::process::{Answer, Pid, Tag};
use crate::run::record::kinds::{ActId, Arrived, News, Record};
use crate::run::state::news::Rejected;
use crate::run::state::outstanding::Pending;
use crate::run::state::run_state::Moment;
use crate::scheduler::Port;
use std::sync::Arc;

impl Inner {
    /// Records and applies news. Fails if the news does not count.
    pub(in crate::run) fn record_news(
        &mut self,
        moment: Moment,
        news: News,
        act: Option<ActId>,
    ) -> Result<(), Rejected> {
        let state = &mut self.state;
        let wants = state.wants(&news);
        // An act that changes nothing is recorded all the same if it has an id, so that its id
        // is taken.
        if let Err(rejected) = wants
            && !(rejected == Rejected::Idle && act.is_some())
        {
            state.counts.dropped += u64::from(rejected != Rejected::Idle);
            return Err(rejected);
        }
        if let Some(act) = &act {
            self.log.consume(&super::mail::of_act(act, &news));
        }
        let news = match news {
            News::Answered { pid, tag, answer } => News::Answered { pid, tag, answer: state.bounded(pid, tag, answer) },
            news => news,
        };
        // The process that receives it steps at once, and what it asks for then leaves when both
        // records are durable: one commit and not two. If the answer were lost, the call would be
        // repeated under its key; an answer to a call that must not be repeated is committed at
        // once.
        let is_awaited = match &news {
            News::Answered { pid, tag, .. } => {
                !matches!(state.pending(*pid, *tag), Some(Pending::Call(call)) if !call.sending.is_leaving())
            }
            News::Due { .. } => false,
            _ => true,
        };
        let record = Record::Arrived(Box::new(Arrived { at: moment.at, act, news }));
        self.append(&record);
        if is_awaited {
            self.log.flush_soon();
        }
        let Record::Arrived(arrived) = record else { unreachable!("invariant: it was just made") };
        if let Some(act) = arrived.act {
            self.state.acts.remember(act, self.state.counts.records);
        }
        self.state.apply_news(moment, arrived.news);
        Ok(())
    }
}

impl Run {
    /// Records news from within the host, of calls and processes; a run that is parked has none of
    /// these. Fails if the news does not count.
    pub(in crate::run) fn arrive<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        port: &mut P,
        news: News,
    ) -> Result<(), Rejected> {
        self.try_arrive(port, &mut Some(news)).unwrap_or(Err(Rejected::Late))
    }

    /// Records news. `None` if the run was parked: the news is then still there.
    pub(in crate::run) fn try_arrive<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        port: &mut P,
        news: &mut Option<News>,
    ) -> Option<Result<(), Rejected>> {
        let moment = self.moment(port.monotonic());
        let mut inner = self.inner.lock();
        if inner.parked {
            return None;
        }
        let mut after = AfterUnlock::default();
        let taken = inner.record_news(moment, news.take()?, None);
        self.flush(&mut inner, port, moment, &mut after);
        drop(inner);
        self.after_unlock(port, after);
        Some(taken)
    }

    /// Fires the run's due timers. The run may have been parked since it was found in memory, and
    /// its timers are then no longer armed.
    pub(in crate::run) fn fired<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P) {
        let moment = self.moment(port.monotonic());
        let mut inner = self.inner.lock();
        if inner.parked {
            drop(inner);
            return self.kernel.fired_parked(port, &self.config.id);
        }
        let mut after = AfterUnlock::default();
        inner.state.timers.fired(moment.mono);
        while let Some((pid, alarm)) = inner.state.timers.pop(moment.mono) {
            if let Some(news) = inner.state.alarm(moment, pid, alarm) {
                let _ = inner.record_news(moment, news, None);
            }
        }
        self.flush(&mut inner, port, moment, &mut after);
        drop(inner);
        self.after_unlock(port, after);
    }

    pub(in crate::run) fn answer<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        port: &mut P,
        pid: Pid,
        tag: Tag,
        answer: Answer,
    ) {
        // A late answer is counted where it is dropped.
        let _ = self.arrive(port, News::Answered { pid, tag, answer });
    }
}
