//! The commands of a process that wait for their answer.

use super::signals::PendingSignal;
use super::timers::TimerKey;
use crate::process::handler::CACHE;
use crate::process::{Micros, Pid, Problem, ProblemClass, Tag, Timestamp};
use std::sync::Arc;

/// What an unanswered command waits for.
pub(in crate::run) enum Pending {
    /// A timer.
    Sleep(TimerKey),
    /// The end of a child, and of its attached descendants.
    Spawn { child: Pid, bytes: u64 },
    /// A handler.
    Call(Box<PendingCall>),
    /// A signal.
    Signal(Box<PendingSignal>),
}

impl Pending {
    /// Bytes of the command's input or arguments.
    pub(in crate::run) fn bytes(&self) -> u64 {
        match self {
            Self::Sleep(_) => 0,
            Self::Spawn { bytes, .. } => *bytes,
            Self::Call(call) => call.bytes,
            Self::Signal(signal) => signal.bytes,
        }
    }

    /// Whether it is a lookup in the cache of steps, which is no call for observers.
    pub(in crate::run) fn is_lookup(&self) -> bool {
        matches!(self, Self::Call(call) if &*call.handler == CACHE)
    }

    /// The timer of a timeout, which stands still while the run is paused.
    pub(in crate::run) fn timeout(&mut self) -> Option<&mut TimerKey> {
        match self {
            Self::Call(call) => call.timer.as_mut(),
            Self::Signal(signal) => signal.timer.as_mut(),
            Self::Sleep(_) | Self::Spawn { .. } => None,
        }
    }
}

/// A call without an answer.
pub(in crate::run) struct PendingCall {
    pub(in crate::run) handler: Arc<str>,
    pub(in crate::run) key: Arc<str>,
    /// The recorded time of the step that made the call.
    pub(in crate::run) since: Timestamp,
    pub(in crate::run) timeout: Option<Micros>,
    pub(in crate::run) timer: Option<TimerKey>,
    pub(in crate::run) bytes: u64,
    pub(in crate::run) sending: Sending,
}

/// How far a call has got on its way out, and what is known of its earlier sendings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::run) enum Sending {
    /// It is sent for the first time, and there is no `leaving` record: repeating it does no harm.
    First,
    /// There is a `leaving` record: it may have happened, and is not safe to repeat.
    Leaving,
    /// An earlier sending may have happened; repeating it does no harm.
    Repeated,
    /// It is sent again although an earlier sending may have happened and it is not safe to repeat.
    Risked,
    /// As `Risked`, and there is a `leaving` record of the new sending.
    RiskedLeaving,
    /// It is in flight in the run that this one was forked from, and is held back here.
    Held,
}

impl Sending {
    /// Returns whether the call may have happened, and must not be sent again unless that is asked
    /// for.
    pub(in crate::run) fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving | Self::RiskedLeaving | Self::Held)
    }

    /// Returns whether there has never been a `leaving` record.
    fn is_repeatable(self) -> bool {
        matches!(self, Self::First | Self::Repeated | Self::Held)
    }

    /// Returns whether an earlier sending may have happened: then a failure of this one says
    /// nothing about that one.
    fn has_earlier(self) -> bool {
        !matches!(self, Self::First | Self::Leaving)
    }

    /// A `leaving` record was written.
    #[must_use]
    pub(in crate::run) fn leaving(self) -> Self {
        if self.has_earlier() { Self::RiskedLeaving } else { Self::Leaving }
    }

    /// The call is to be sent again.
    #[must_use]
    pub(in crate::run) fn resent(self) -> Self {
        if self.is_repeatable() { Self::Repeated } else { Self::Risked }
    }

    /// The run is forked, and the call is held back in the fork.
    #[must_use]
    pub(in crate::run) fn hold(self) -> Self {
        if self.is_repeatable() { Self::Held } else { Self::RiskedLeaving }
    }
}

impl PendingCall {
    /// Returns whether the timeout does not run: the call was in flight when the run was forked,
    /// and is to be sent again.
    pub(in crate::run) fn is_untimed(&self) -> bool {
        self.timeout.is_some() && self.timer.is_none()
    }

    /// Adds to a problem that an earlier sending may have happened, if one may have, so that a
    /// repetition retains the key. A server's answer (with a status) is passed on unchanged. Any
    /// other failure says only that an earlier attempt may have taken effect.
    pub(in crate::run) fn doubt(&self, problem: &mut Problem) {
        if !self.sending.has_earlier() || problem.may_have_happened {
            return;
        }
        problem.may_have_happened = true;
        if problem.status != 0 {
            return;
        }
        if !self.sending.is_repeatable() {
            problem.class = ProblemClass::Uncertain;
        }
        let said = problem.detail.take().map_or_else(String::new, |detail| format!("{detail}; "));
        problem.detail = Some(format!("{said}an earlier sending may have happened"));
    }
}

/// Pending commands by tag. Tags only grow, so they are added at the end and found by bisection; an
/// answered one leaves a hole, and holes are removed when they are the majority: each operation
/// takes amortised constant time beside the bisection.
#[derive(Default)]
pub(in crate::run) struct Outstanding {
    items: Vec<(Tag, Option<Pending>)>,
    live: usize,
}

impl Outstanding {
    pub(in crate::run) fn len(&self) -> usize {
        self.live
    }

    pub(in crate::run) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(in crate::run) fn push(&mut self, tag: Tag, pending: Pending) {
        debug_assert!(self.items.last().is_none_or(|(last, _)| *last < tag), "tags only grow");
        self.items.push((tag, Some(pending)));
        self.live += 1;
    }

    fn find(&self, tag: Tag) -> Option<usize> {
        self.items.binary_search_by_key(&tag, |(tag, _)| *tag).ok()
    }

    pub(in crate::run) fn get(&self, tag: Tag) -> Option<&Pending> {
        self.items[self.find(tag)?].1.as_ref()
    }

    pub(in crate::run) fn get_mut(&mut self, tag: Tag) -> Option<&mut Pending> {
        let place = self.find(tag)?;
        self.items[place].1.as_mut()
    }

    pub(in crate::run) fn remove(&mut self, tag: Tag) -> Option<Pending> {
        let place = self.find(tag)?;
        let pending = self.items[place].1.take()?;
        self.live -= 1;
        if self.live == 0 {
            self.items.clear();
        } else if self.live * 2 < self.items.len() {
            self.items.retain(|(_, pending)| pending.is_some());
        }
        Some(pending)
    }

    /// All of them in the order of their tags.
    pub(in crate::run) fn iter(&self) -> impl Iterator<Item = (Tag, &Pending)> {
        self.items.iter().filter_map(|(tag, pending)| pending.as_ref().map(|pending| (*tag, pending)))
    }

    pub(in crate::run) fn iter_mut(&mut self) -> impl Iterator<Item = (Tag, &mut Pending)> {
        self.items.iter_mut().filter_map(|(tag, pending)| pending.as_mut().map(|pending| (*tag, pending)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn is_a_map(operations in proptest::collection::vec((any::<bool>(), 0_u64..60), 0..200)) {
            let mut ours = Outstanding::default();
            let mut model = BTreeMap::new();
            let mut next = 0;
            for (add, number) in operations {
                if add {
                    next += 1 + number % 3;
                    ours.push(Tag(next), Pending::Spawn { child: Pid(number), bytes: 0 });
                    model.insert(Tag(next), Pid(number));
                } else {
                    let removed = match ours.remove(Tag(number)) {
                        Some(Pending::Spawn { child, .. }) => Some(child),
                        _ => None,
                    };
                    prop_assert_eq!(removed, model.remove(&Tag(number)));
                }
                prop_assert_eq!(ours.len(), model.len());
                prop_assert!(ours.iter().map(|(tag, _)| tag).eq(model.keys().copied()));
            }
        }
    }
}
