//! Everything that waits for a time, behind one outstanding sleep.

use super::ItemKey;
use crate::process::{Action, Context, Micros, Tag};
use std::collections::BTreeSet;

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TimerKind {
    /// The attempt has taken as long as it may.
    Timeout,
    /// The backoff is over, or the wait.
    Wake,
}

/// Names a timer, to take it back.
pub(super) type TimerKey = (Micros, ItemKey, TimerKind);

#[derive(Default, Debug)]
pub(super) struct Timers {
    set: BTreeSet<TimerKey>,
    /// The sleep that is outstanding, and when it is due. It is never later than the first timer.
    armed: Option<(Tag, Micros)>,
    /// Sleeps that were taken back: their answers mean nothing.
    abandoned: BTreeSet<Tag>,
    /// Up to when timers are due because the sleep said so, whatever the clock says.
    horizon: Micros,
}

impl Timers {
    pub(super) fn set(&mut self, due: Micros, item: ItemKey, why: TimerKind) -> TimerKey {
        let key = (due, item, why);
        self.set.insert(key);
        key
    }

    pub(super) fn cancel(&mut self, key: TimerKey) {
        self.set.remove(&key);
    }

    /// Takes back what an item waits for.
    pub(super) fn cancel_of(&mut self, item: ItemKey) {
        self.set.retain(|(_, of, _)| *of != item);
    }

    /// Whether an answer was that of a sleep.
    pub(super) fn fired(&mut self, tag: Tag, now: Micros) -> bool {
        match self.armed {
            Some((armed, due)) if armed == tag => {
                self.armed = None;
                self.horizon = self.horizon.max(due).max(now);
                true
            }
            _ => self.abandoned.remove(&tag),
        }
    }

    /// Takes out the next timer that is due, in the order of the due times.
    pub(super) fn next_due(&mut self, now: Micros) -> Option<(ItemKey, TimerKind)> {
        let (at, item, why) = self.set.first().copied()?;
        if at > self.horizon.max(now) {
            return None;
        }
        self.set.pop_first();
        Some((item, why))
    }

    /// Sees to it that a sleep ends no later than the first timer.
    pub(super) fn arm(&mut self, context: &mut Context<'_>) {
        let Some((first, ..)) = self.set.first().copied() else { return };
        if let Some((tag, due)) = self.armed {
            if due <= first {
                return;
            }
            self.abandon(context, tag);
        }
        let tag = context.command(Action::Sleep(Micros(first.0.saturating_sub(context.now.0))));
        self.armed = Some((tag, first));
    }

    /// Takes everything back.
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
