//! The transitions of the state word.

use super::{ANY, Asked, Before, Claim, END, Eviction, FRESH, Finished, HELD, Heard, INTERRUPTED, MAIL};
use super::{PAUSED, QUEUED, Started, State, Value, WAKE, bit_of};
use crate::base::sync::{AtomicU64, Ordering};
use crate::scheduler::{Interrupt, Next, Pause, Permitted, Wake};

/// The state word.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// The word of a place that had no tenant yet.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Value::new(0, State::Complete, 0).0))
    }

    /// The current word. Acquire: sees what its last writer published.
    pub(crate) fn load(&self) -> Value {
        Value(self.0.load(Ordering::Acquire))
    }

    /// One read-modify-write: `change` returns the new value and the result. Nothing is written if
    /// the value is the old one.
    ///
    /// `AcqRel`, its partners are all other transitions: the thread that takes the process sees
    /// what the one before did with it.
    fn update<R>(&self, mut change: impl FnMut(Value) -> (Value, R)) -> R {
        let mut old = Value(self.0.load(Ordering::Relaxed));
        loop {
            let (new, result) = change(old);
            if new == old {
                return result;
            }
            match self.0.compare_exchange_weak(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return result,
                Err(now) => old = Value(now),
            }
        }
    }

    /// Puts a tenant into a free place, with its permit or without. A store is enough: no other
    /// thread changes the word of a free place, since every other transition leaves Complete
    /// unchanged. Release: its partner is any thread that gets the slot.
    pub(crate) fn occupy(&self, permitted: Permitted, before: Before) {
        let old = Value(self.0.load(Ordering::Relaxed));
        debug_assert_eq!(old.state(), State::Complete, "an occupied place was given away");
        let generation = old.generation().wrapping_add(1);
        let has_permit = permitted == Permitted::Yes;
        let (state, bits) = match before {
            Before::Step(Next::Blocked) if has_permit => (State::Blocked, 0),
            Before::Step(Next::Blocked) => (State::Evicted, 0),
            Before::Step(Next::Idle) if has_permit => (State::Idle, 0),
            Before::Step(Next::Idle) => (State::Evicted, ANY),
            _ if has_permit => (State::Ready, 0),
            _ => (State::Admitting, QUEUED),
        };
        let fresh = if before == Before::Nothing { FRESH } else { 0 };
        self.0.store(Value::new(generation, state, bits | fresh).0, Ordering::Release);
    }

    /// The fast path of a post: wakes a process that waits with an empty event queue. Needs no
    /// lock, since it does not change WAKE and MAIL.
    pub(crate) fn claim(&self, generation: u32, wake: Wake) -> Claim {
        self.update(|old| match old.state() {
            _ if !old.is_of(generation) => (old, Claim::Gone),
            _ if old.has(WAKE | MAIL | INTERRUPTED | PAUSED) => (old, Claim::Queue),
            State::Idle => (old.to(State::Ready), Claim::Woken),
            State::Blocked if wake == Wake::Event => (old.to(State::Ready), Claim::Woken),
            _ => (old, Claim::Queue),
        })
    }

    /// Marks an event that is put into the event queue, whose lock the caller holds.
    pub(crate) fn notify(&self, generation: u32, wake: Wake) -> Heard {
        let bit = match wake {
            Wake::Event => WAKE,
            Wake::Message => MAIL,
        };
        self.update(|old| if old.is_of(generation) { old.with(bit).heard() } else { (old, Heard::Gone) })
    }

    /// Sets the bit of the reason. A process that must end stops waiting for its permit, and one
    /// that is asked to end stops waiting for its first.
    pub(crate) fn interrupt(&self, generation: u32, why: Interrupt) -> Heard {
        let leaves_if = match why {
            Interrupt::Visit => 0,
            Interrupt::Cancel => FRESH,
            Interrupt::End => QUEUED,
        };
        self.update(|old| match old.state() {
            _ if !old.is_of(generation) => (old, Heard::Gone),
            State::Admitting if old.has(leaves_if) => {
                (old.to(State::Ready).without(QUEUED).with(bit_of(why)), Heard::Left)
            }
            _ => old.with(bit_of(why)).heard(),
        })
    }

    /// Sets or clears PAUSED.
    pub(crate) fn pause(&self, generation: u32, pause: Pause) -> Heard {
        self.update(|old| match pause {
            _ if !old.is_of(generation) => (old, Heard::Gone),
            Pause::On => (old.with(PAUSED), Heard::Pending),
            Pause::Off => old.without(PAUSED).heard(),
        })
    }

    /// Called when the thread that woke an evicted process has finished with its body: the process
    /// joins the admission queue, or is enqueued if it must end.
    pub(crate) fn queue(&self) -> Heard {
        self.update(|old| {
            debug_assert!(old.state() == State::Admitting && !old.has(QUEUED), "queued twice: {old:?}");
            if old.has(END) { (old.to(State::Ready), Heard::Woken) } else { (old.with(QUEUED), Heard::Admit) }
        })
    }

    /// A worker takes the process, without the lock of its event queue. `None` if there are events:
    /// then the lock is needed.
    pub(crate) fn start_quiet(&self) -> Option<Started> {
        self.update(|old| {
            if old.state() == State::Ready && old.has(WAKE | MAIL) {
                return (old, None);
            }
            let (new, started) = Self::started(old);
            (new, Some(started))
        })
    }

    /// A worker takes the process while it holds the lock of the event queue; it takes the queue
    /// before it releases the lock.
    pub(crate) fn start(&self) -> Started {
        self.update(Self::started)
    }

    fn started(old: Value) -> (Value, Started) {
        let interrupted = old.interrupt();
        match old.state() {
            State::Preempted => (old.to(State::Running), Started { resumed: true, interrupted }),
            state => {
                debug_assert_eq!(state, State::Ready, "taken from a queue where it should not be");
                let new = old.to(State::Running).without(WAKE | MAIL | INTERRUPTED | FRESH | ANY);
                (new, Started { resumed: false, interrupted })
            }
        }
    }

    /// The slice has ended, the step's output is visible, and the process has not ended.
    pub(crate) fn finish(&self, next: Next) -> Finished {
        self.update(|old| {
            debug_assert_eq!(old.state(), State::Running, "a process that is not running was put back");
            let requeue = |state| {
                if old.has(PAUSED) {
                    (old.to(state).with(HELD), Finished::Held)
                } else {
                    (old.to(state), Finished::Requeue)
                }
            };
            let wait = |state| match old.to(state).heard() {
                (new, Heard::Woken) => (new, Finished::Woken),
                (new, _) => (new, Finished::Waits),
            };
            match next {
                Next::Preempted => requeue(State::Preempted),
                Next::Ready => requeue(State::Ready),
                Next::Blocked => wait(State::Blocked),
                Next::Idle => wait(State::Idle),
                Next::Complete => unreachable!("an end is reported by `complete`"),
            }
        })
    }

    /// The same for a process that was stepped without its permit.
    pub(crate) fn finish_without_permit(&self, next: Next) -> Heard {
        self.update(|old| {
            debug_assert_eq!(old.state(), State::Running, "a process that is not running was put back");
            match next {
                Next::Blocked => old.to(State::Evicted).heard(),
                Next::Idle => old.to(State::Evicted).with(ANY).heard(),
                Next::Ready => old.to(State::Evicted).with(HELD).heard(),
                Next::Preempted => unreachable!("a step begins with a permit"),
                Next::Complete => unreachable!("an end is reported by `complete`"),
            }
        })
    }

    /// The process has ended. Returns `false` if its event queue is not empty: then the lock is
    /// needed.
    #[must_use]
    pub(crate) fn complete_quiet(&self) -> bool {
        self.update(|old| if old.has(WAKE | MAIL) { (old, false) } else { (old.ended(), true) })
    }

    /// The process has ended, and the caller holds the lock of its event queue, which it empties.
    pub(crate) fn complete(&self) {
        self.update(|old| (old.ended(), ()));
    }

    /// The process has got its permit. Returns `false` if it no longer waits for one.
    #[must_use]
    pub(crate) fn admit(&self, generation: u32) -> bool {
        self.update(|old| {
            let waits = old.waits_for_permit(generation);
            (if waits { old.to(State::Ready).without(QUEUED) } else { old }, waits)
        })
    }

    /// Asks the process to give up its permit.
    pub(crate) fn evict(&self, generation: u32) -> Asked {
        self.update(|old| match old.state() {
            _ if !old.is_of(generation) => (old, Asked::Moves),
            State::Blocked => (old.to(State::Evicting), Asked::Yields),
            State::Idle => (old.to(State::Evicting).with(ANY), Asked::Yields),
            State::Ready if old.has(HELD) => (old.to(State::Evicting), Asked::Yields),
            State::Preempted if old.has(HELD) => (old, Asked::Stays),
            _ => (old, Asked::Moves),
        })
    }

    /// Ends an eviction: the permit was taken away, or could not be.
    pub(crate) fn evicted(&self, eviction: Eviction) -> Heard {
        self.update(|old| {
            debug_assert_eq!(old.state(), State::Evicting, "an eviction ended that had not begun");
            match eviction {
                Eviction::Done => old.to(State::Evicted),
                Eviction::Refused if old.has(HELD) => old.to(State::Ready),
                Eviction::Refused if old.has(ANY) => old.to(State::Idle).without(ANY),
                Eviction::Refused => old.to(State::Blocked),
            }
            .heard()
        })
    }
}
