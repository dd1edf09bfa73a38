//! All timers of the process, behind one outstanding sleep.

use super::ItemKey;
use crate::process::{Action, Context, Tag, Timestamp};
use std::collections::BTreeSet;

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TimerKind {
    /// The attempt has run out of time.
    Timeout,
    /// The backoff or the wait has ended.
    Wake,
    /// The grace of a cancelled run is over; of no item.
    Grace,
}

/// Identifies a timer, to cancel it.
pub(super) type TimerKey = (Timestamp, ItemKey, TimerKind);

#[derive(Default, Debug)]
pub(super) struct Timers {
    set: BTreeSet<TimerKey>,
    /// The outstanding sleep and when it is due: never later than the first timer.
    armed: Option<(Tag, Timestamp)>,
    /// Cancelled sleeps: their answers are ignored.
    abandoned: BTreeSet<Tag>,
    /// Timers up to this time are due, since a sleep has ended, even if the clock is behind.
    horizon: Timestamp,
}

impl Timers {
    pub(super) fn set(&mut self, due: Timestamp, item: ItemKey, why: TimerKind) -> TimerKey {
        let key = (due, item, why);
        self.set.insert(key);
        key
    }

    pub(super) fn cancel(&mut self, key: TimerKey) {
        self.set.remove(&key);
    }

    /// Cancels all timers of an item.
    pub(super) fn cancel_of(&mut self, item: ItemKey) {
        self.set.retain(|(_, of, _)| *of != item);
    }

    /// Returns whether an answer was that of a sleep.
    pub(super) fn fired(&mut self, tag: Tag, now: Timestamp) -> bool {
        match self.armed {
            Some((armed, due)) if armed == tag => {
                self.armed = None;
                self.horizon = self.horizon.max(due).max(now);
                true
            }
            _ => self.abandoned.remove(&tag),
        }
    }

    /// Takes out the next due timer, in the order of due times.
    pub(super) fn next_due(&mut self, now: Timestamp) -> Option<(ItemKey, TimerKind)> {
        let (at, item, why) = self.set.first().copied()?;
        if at > self.horizon.max(now) {
            return None;
        }
        self.set.pop_first();
        Some((item, why))
    }

    /// Ensures that a sleep ends no later than the first timer.
    pub(super) fn arm(&mut self, context: &mut Context<'_>) {
        let Some((first, ..)) = self.set.first().copied() else { return };
        if let Some((tag, due)) = self.armed {
            if due <= first {
                return;
            }
            self.abandon(context, tag);
        }
        let tag = context.command(Action::Sleep(first.since(context.now)));
        self.armed = Some((tag, first));
    }

    /// Cancels everything.
    pub(super) fn clear(&mut self, context: &mut Context<'_>) {
        self.set.clear();
        if let Some((tag, _)) = self.armed.take() {
            self.abandon(context, tag);
        }
    }

    fn abandon(&mut self, context: &mut Context<'_>, tag: Tag) {
        context.command(Action::Cancel(tag));
        self.abandoned.insert(tag);
    }
}
