//! Acts: operations on a run from outside, and when they are certain.
//!
//! An act can have an id. The same id with the same act again is the same act: it is applied once,
//! and answered as it was the first time. The same id with another act is a conflict. The ids stand
//! in the records, and a run retains the last [`ACTS_MAX`](crate::run::ACTS_MAX) of them.
//!
//! An acknowledged act has a durable record: [`Acknowledged`] waits for that.

use super::handle::{Refused, RunHandle};
use super::kernel::Kernel;
use super::observe::Once;
use super::outbox::AfterUnlock;
use super::run::{Inner, Run};
use crate::process::{Answer, Micros, Payload, Pid, Tag};
use crate::run::record::arrived::{ActId, News};
use crate::run::record::kinds::Digest;
use crate::run::record::wire::Wire;
use crate::run::state::act_ids::Conflict;
use crate::run::state::decide::NAME_BYTES_MAX;
use crate::run::state::news::Rejected;
use crate::run::state::run_state::Moment;
use crate::scheduler::Port;
use std::sync::Arc;
use std::time::Duration;

/// An operation on a run from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Sends it a signal: [`RunHandle::signal`].
    Signal {
        /// Its name, which receivers wait for.
        name: Arc<str>,
        /// Its payload.
        body: Payload,
    },
    /// Asks it to end: [`RunHandle::cancel`].
    Cancel {
        /// The reason that its processes receive.
        reason: Arc<str>,
        /// How long it may continue; `None` applies the root's own limit.
        grace: Option<Micros>,
    },
    /// Asks it to end because it takes longer than it may: [`RunHandle::time_out`].
    TimeOut {
        /// The time that it was allowed.
        after: Micros,
    },
    /// Pauses it: its processes begin no step.
    Pause,
    /// Continues it after a pause.
    Resume,
    /// Settles a call whose outcome is unknown: [`RunHandle::uncertain`].
    Resolve {
        /// The process that made the call.
        pid: Pid,
        /// The call's tag.
        tag: Tag,
        /// The call's outcome.
        resolution: Resolution,
    },
}

/// The outcome of an uncertain call, as found out afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// The call has this answer.
    Answered(Answer),
    /// The call is to be sent again under its key.
    Again,
}

/// What news that came with an id are recognised by.
fn identity(news: &News, id: &str) -> ActId {
    let mut bytes = Vec::new();
    news.put(&mut bytes);
    ActId { id: id.into(), digest: Digest::of(&bytes) }
}

impl Act {
    /// What it is recognised by in a record, if it is asked for with this id.
    #[must_use]
    pub fn identity(&self, id: &str) -> ActId {
        identity(&self.clone().into_news(), id)
    }

    pub(in crate::run) fn into_news(self) -> News {
        match self {
            Self::Signal { name, body } => News::Signal { name, body },
            Self::Cancel { reason, grace } => News::Cancel { pid: Pid::ROOT, reason, grace },
            Self::TimeOut { after } => News::TimedOut { after },
            Self::Pause => News::Paused(true),
            Self::Resume => News::Paused(false),
            Self::Resolve { pid, tag, resolution: Resolution::Answered(answer) } => News::Answered { pid, tag, answer },
            Self::Resolve { pid, tag, resolution: Resolution::Again } => News::Again { pid, tag },
        }
    }
}

/// The record will never be reported durable: the journal has failed, or the host has released the
/// run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("whether it is durable is not known: the run's journal is written no more")]
pub struct NotDurable;

pub(in crate::run) type Durable = Arc<Once<Result<(), NotDurable>>>;

/// An act that a run has accepted.
#[must_use = "an act is certain only when it is durable"]
pub struct Acknowledged {
    record: u64,
    durable: Option<Durable>,
}

impl std::fmt::Debug for Acknowledged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acknowledged").field("record", &self.record).finish_non_exhaustive()
    }
}

impl Acknowledged {
    /// Returns the number of the record that it depends on, counted from 1.
    #[must_use]
    pub fn record(&self) -> u64 {
        self.record
    }

    /// Returns whether it is durable already.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.durable.as_ref().is_none_or(|durable| durable.get() == Some(Ok(())))
    }

    /// Waits until it is durable.
    ///
    /// # Errors
    /// Fails if that will never be known.
    pub async fn durable(self) -> Result<(), NotDurable> {
        match &self.durable {
            None => Ok(()),
            Some(durable) => durable.future().await,
        }
    }

    /// Waits on this thread until it is durable. `None` if the timeout comes first.
    ///
    /// # Errors
    /// Fails if that will never be known.
    pub fn wait_for(&self, timeout: Duration) -> Result<Option<()>, NotDurable> {
        match &self.durable {
            None => Ok(Some(())),
            Some(durable) => durable.wait(Some(timeout)).transpose(),
        }
    }
}

/// Callers that wait for a record to be durable, with its number.
#[derive(Default)]
pub(in crate::run) struct Waiters(Vec<(u64, Durable)>);

impl Waiters {
    /// Removes and returns those whose record is durable: all up to this number.
    pub(in crate::run) fn durable(&mut self, record: u64) -> Vec<Durable> {
        if self.0.is_empty() {
            return Vec::new();
        }
        self.0.extract_if(.., |(number, _)| *number <= record).map(|(_, durable)| durable).collect()
    }
}

impl Drop for Waiters {
    /// No further record will be durable.
    fn drop(&mut self) {
        for (_, durable) in self.0.drain(..) {
            durable.set(Err(NotDurable));
        }
    }
}

impl Inner {
    /// Returns the acknowledgement of a record; those before it are durable then too.
    pub(in crate::run) fn acknowledge(&mut self, record: u64) -> Acknowledged {
        if self.is_durable(record) {
            return Acknowledged { record, durable: None };
        }
        if self.is_lost() {
            return Acknowledged { record, durable: Some(Arc::new(Once::of(Err(NotDurable)))) };
        }
        let durable = Arc::new(Once::new());
        self.log.flush_soon();
        self.waiters.0.push((record, Arc::clone(&durable)));
        Acknowledged { record, durable: Some(durable) }
    }

    pub(in crate::run) fn act(&mut self, moment: Moment, act: Act, id: Option<&str>) -> Result<Acknowledged, Refused> {
        if id.is_some_and(|id| id.len() > NAME_BYTES_MAX) {
            return Err(Refused::TooLarge);
        }
        let news = act.into_news();
        let act = id.map(|id| identity(&news, id));
        if let Some(done) = act.as_ref().and_then(|act| self.state.acts.of(act)) {
            return match done {
                Ok(record) => Ok(self.acknowledge(record)),
                Err(Conflict) => Err(Refused::Conflict),
            };
        }
        match &news {
            // A call that is not uncertain has its own answer.
            News::Answered { pid, tag, .. } | News::Again { pid, tag }
                if !self.state.uncertain.contains_key(&(*pid, *tag)) =>
            {
                return Err(Refused::Ended);
            }
            _ => {}
        }
        // A run without a place takes no step, so it cannot end by itself.
        let ended = match &news {
            News::Cancel { reason, .. } if self.is_queued => Some(Arc::clone(reason)),
            News::TimedOut { .. } if self.is_queued => Some("it waited longer than the run's timeout".into()),
            _ => None,
        };
        let acted = self.record_news(moment, news, act);
        if let (Ok(()), Some(reason)) = (&acted, ended) {
            if self.state.living > 1 {
                // A fork.
                self.kill_all(moment, &reason);
            } else {
                self.state.kill(Pid::ROOT);
            }
        }
        match acted {
            Ok(()) | Err(Rejected::Idle) => Ok(self.acknowledge(self.state.counts.records)),
            Err(Rejected::Late) => Err(Refused::Ended),
            Err(Rejected::Full) => Err(Refused::Full),
            Err(Rejected::TooLarge) => Err(Refused::TooLarge),
        }
    }
}

impl Inner {
    /// Cancels all processes without a grace.
    pub(in crate::run) fn kill_all(&mut self, moment: Moment, reason: &Arc<str>) {
        // Parents come first, so that fewer are notified of their children's end.
        let living = self.state.table.iter().filter(|(_, entry)| entry.lives());
        let pids: Vec<Pid> = living.map(|(pid, _)| pid).collect();
        for &pid in &pids {
            let cancel = News::Cancel { pid, reason: Arc::clone(reason), grace: Some(Micros(0)) };
            let _ = self.record_news(moment, cancel, None);
        }
        for pid in pids {
            self.state.kill(pid);
        }
    }
}

impl Run {
    /// Ends all processes in one go, so that none is left that could start another. Returns whether
    /// it did: not if the run was parked.
    pub(in crate::run) fn kill<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P, reason: &Arc<str>) -> bool {
        let moment = self.moment(port.monotonic());
        let mut inner = self.inner.lock();
        if inner.parked {
            return false;
        }
        inner.kill_all(moment, reason);
        let mut after = AfterUnlock::default();
        self.flush(&mut inner, port, moment, &mut after);
        drop(inner);
        self.after_unlock(port, after);
        true
    }

    /// Applies an act. `None` if the run was parked: the act is then still there.
    fn act<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        port: &mut P,
        act: &mut Option<Act>,
        id: Option<&str>,
    ) -> Option<Result<Acknowledged, Refused>> {
        let moment = self.moment(port.monotonic());
        let mut inner = self.inner.lock();
        if inner.parked {
            return None;
        }
        let mut after = AfterUnlock::default();
        let acted = inner.act(moment, act.take()?, id);
        self.flush(&mut inner, port, moment, &mut after);
        drop(inner);
        self.after_unlock(port, after);
        Some(acted)
    }
}

impl RunHandle {
    /// Applies an act to the run. With an id it is applied once however often it is asked for: see
    /// [`Act`].
    ///
    /// # Errors
    /// Fails if the run, or the act's target, has ended; if there is no room for the act, or it is
    /// too large; or if the id was that of another act. Such an act is not remembered.
    pub fn act(&self, act: Act, id: Option<&str>) -> Result<Acknowledged, Refused> {
        let mut act = Some(act);
        loop {
            let run = self.run().ok_or(Refused::Ended)?;
            let mut acted = Some(Err(Refused::Ended));
            run.kernel.with_port(|port| acted = run.act(port, &mut act, id));
            match acted {
                Some(acted) => return acted,
                None => self.was_parked(&run),
            }
        }
    }

    /// Waits for everything that the run has recorded so far to be durable.
    pub fn acknowledged(&self) -> Acknowledged {
        let acknowledge = |inner: &mut Inner| {
            let record = inner.state.counts.records;
            inner.acknowledge(record)
        };
        // A run that has ended or was abandoned waits for nothing.
        let over = Acknowledged { record: 0, durable: None };
        self.with(|_, inner| acknowledge(inner)).unwrap_or(over)
    }
}
