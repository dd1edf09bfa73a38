//! The state word of a place: who has the process, and what it has not heard yet.
//!
//! ```text
//!  63        32 31       8 7      0
//! | generation |   bits   | state  |
//! ```
//! Each transition is one successful read-modify-write, and returns what its caller must do. The generation stands in the same word,
//! so that an event for a former tenant fails in that very operation.
//!
//! | from | on | to | duty of the caller |
//! |---|---|---|---|
//! | — | spawn, no permit needed or one is free | Ready | enqueue |
//! | — | spawn, no permit is free | Admitting | join the admission queue |
//! | Admitting | permit | Ready | enqueue in the global queue |
//! | Admitting, never started | interrupt | Ready + CANCEL | enqueue: it is stepped without a permit, to end |
//! | Ready | a worker takes it | Running − WAKE − MAIL − CANCEL | take the event queue |
//! | Running | slice used up | Preempted | to the back of the global queue |
//! | Preempted | a worker takes it | Running, nothing cleared | go on with the step |
//! | Running | `ready` | Ready | to the back of the global queue |
//! | Running | `blocked` | Blocked, or Ready if WAKE or CANCEL was set meanwhile | enqueue if Ready |
//! | Running | `idle` | Idle, or Ready if any of WAKE, MAIL, CANCEL was set meanwhile | enqueue if Ready |
//! | Running | `complete` | Complete | empty the event queue, free the place |
//! | Blocked | event, interrupt | Ready | who woke it enqueues it |
//! | Blocked | message | Blocked + MAIL | none |
//! | Idle | anything | Ready | who woke it enqueues it |
//! | Blocked, Idle | eviction | Evicting | take a snapshot, give the permit on |
//! | Evicting | anything | + WAKE, MAIL or CANCEL | none |
//! | Evicting | evicted | Evicted, or Admitting if a bit that wakes it was set | join the admission queue if Admitting |
//! | Evicting | it cannot be | Blocked or Idle as before, or Ready if a bit that wakes it was set | enqueue if Ready |
//! | Evicted | what would wake it | Admitting | who woke it joins it to the admission queue |
//! | Running, Preempted, Ready, Admitting | anything | + WAKE, MAIL or CANCEL | none |
//! | any but Complete | pause | + PAUSED | none: it holds at the end of the slice or step |
//! | any but Complete | resume | − PAUSED | enqueue, or join the admission queue, if there is anything to hear |
//! | Complete | anything | unchanged | drop it and count |
//!
//! While PAUSED is set nothing wakes: Blocked, Idle and Evicted keep their state and collect bits, and a slice or step that ends in
//! Preempted or Ready gets HELD instead of being enqueued.
//!
//! **WAKE and MAIL say that the event queue is not empty.** They are set and cleared only under the lock of the event queue (see
//! [`Place`](super::place::Place)), so outside of it a word without them proves an empty queue at that moment. Every other
//! transition may happen without the lock.

use super::{Next, Wake};
use crate::base::sync::{AtomicU64, Ordering};

/// Who has the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Nobody: it has ended, and the place is free or about to be.
    Complete,
    /// A run queue.
    Ready,
    /// A worker.
    Running,
    /// A run queue, in the middle of a step.
    Preempted,
    /// It waits for an answer, an exit or cancel.
    Blocked,
    /// It waits for anything.
    Idle,
    /// The admission queue.
    Admitting,
    /// Whoever takes its permit away.
    Evicting,
    /// As Blocked or Idle (the ANY bit says which), without a permit.
    Evicted,
}

const STATES: [State; 9] = [
    State::Complete,
    State::Ready,
    State::Running,
    State::Preempted,
    State::Blocked,
    State::Idle,
    State::Admitting,
    State::Evicting,
    State::Evicted,
];

/// The queue holds an answer, an exit or cancel.
pub(crate) const WAKE: u64 = 1 << 8;
/// The queue holds a message.
pub(crate) const MAIL: u64 = 1 << 9;
/// Somebody interrupted the process since its step began.
pub(crate) const CANCEL: u64 = 1 << 10;
/// An operator holds the process.
pub(crate) const PAUSED: u64 = 1 << 11;
/// It is Ready or Preempted but in no queue, because it is paused.
pub(crate) const HELD: u64 = 1 << 12;
/// Evicting or Evicted from Idle and not from Blocked.
pub(crate) const ANY: u64 = 1 << 13;
/// It was never stepped.
pub(crate) const FRESH: u64 = 1 << 14;

/// One value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value(u64);

impl Value {
    fn new(generation: u32, state: State, bits: u64) -> Self {
        Self(u64::from(generation) << 32 | bits | state as u64)
    }

    pub(crate) fn state(self) -> State {
        STATES[(self.0 & 0xf) as usize]
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    fn with(self, bits: u64) -> Self {
        Self(self.0 | bits)
    }

    fn without(self, bits: u64) -> Self {
        Self(self.0 & !bits)
    }

    fn to(self, state: State) -> Self {
        Self(self.0 & !0xff | state as u64)
    }

    /// Whether what the process has not heard ends its waiting, given what it waits for.
    fn is_woken(self, waits_for_any: bool) -> bool {
        !self.has(PAUSED) && (self.has(WAKE | CANCEL) || waits_for_any && self.has(MAIL))
    }

    /// The state after bits were set, for a process that may be waiting; and what follows for whoever set them.
    fn heard(self) -> (Self, Heard) {
        match self.state() {
            State::Blocked if self.is_woken(false) => (self.to(State::Ready), Heard::Woken),
            State::Idle if self.is_woken(true) => (self.to(State::Ready), Heard::Woken),
            State::Evicted if self.is_woken(self.has(ANY)) => (self.to(State::Admitting), Heard::Admit),
            _ => (self, Heard::Pending),
        }
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:#x} of {}", self.state(), self.0 & 0xff00, self.generation())
    }
}

/// What follows from an event, an interrupt or a resume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Heard {
    /// The process has ended: drop the event and count it.
    Gone,
    /// It will hear of it in time.
    Pending,
    /// The caller woke it and enqueues it.
    Woken,
    /// The caller woke it and joins it to the admission queue.
    Admit,
}

/// What [`Word::claim`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Claim {
    /// The process has ended.
    Gone,
    /// The caller woke it; its event queue is empty, so the event may go along with the process.
    Woken,
    /// The event must go through the event queue.
    Queue,
}

/// What a worker that took a process is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) struct Started {
    /// The step goes on: there is nothing to take.
    pub(crate) resumed: bool,
    /// CANCEL was set.
    pub(crate) interrupted: bool,
}

/// What follows the end of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Finished {
    /// To the back of the global queue.
    Requeue,
    /// Something came meanwhile: enqueue it as if it were woken now.
    Woken,
    /// It waits; whoever wakes it enqueues it.
    Waits,
    /// It is paused; whoever resumes it enqueues it.
    Held,
}

/// What follows the end of an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Evicted {
    /// It waits, without or still with its permit.
    Waits,
    /// Something came meanwhile: join the admission queue.
    Admit,
    /// It kept its permit and something came meanwhile: enqueue it.
    Woken,
}

/// The state word.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// The word of a place that had no tenant yet.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Value::new(0, State::Complete, 0).0))
    }

    /// The word now. Acquire, so that what its last writer published is seen.
    pub(crate) fn load(&self) -> Value {
        Value(self.0.load(Ordering::Acquire))
    }

    /// One read-modify-write: `change` gives the new value and the result. Nothing is written where it gives back the old value.
    ///
    /// `AcqRel`, its partners are all other transitions: whoever takes the process sees what the one before did with it.
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

    /// A free place gets a tenant, Ready or Admitting. A store is enough: nobody changes the word of a free place, since every other
    /// transition leaves Complete alone. Release: its partner is whoever hears of the slot.
    pub(crate) fn occupy(&self, admitting: bool) {
        let old = Value(self.0.load(Ordering::Relaxed));
        debug_assert_eq!(old.state(), State::Complete, "an occupied place was given away");
        let generation = old.generation().wrapping_add(1);
        let state = if admitting { State::Admitting } else { State::Ready };
        self.0.store(Value::new(generation, state, FRESH).0, Ordering::Release);
    }

    /// The quick way to post: wakes a process that waits and has nothing in its event queue. Needs no lock, since it leaves WAKE
    /// and MAIL alone.
    pub(crate) fn claim(&self, generation: u32, wake: Wake) -> Claim {
        self.update(|old| match old.state() {
            _ if old.generation() != generation => (old, Claim::Gone),
            State::Complete => (old, Claim::Gone),
            _ if old.has(WAKE | MAIL | CANCEL | PAUSED) => (old, Claim::Queue),
            State::Idle => (old.to(State::Ready), Claim::Woken),
            State::Blocked if wake == Wake::Event => (old.to(State::Ready), Claim::Woken),
            _ => (old, Claim::Queue),
        })
    }

    /// An event is put into the event queue, whose lock the caller holds.
    pub(crate) fn notify(&self, generation: u32, wake: Wake) -> Heard {
        let bit = match wake {
            Wake::Event => WAKE,
            Wake::Message => MAIL,
        };
        self.set(generation, bit)
    }

    fn set(&self, generation: u32, bit: u64) -> Heard {
        self.update(|old| {
            if old.generation() != generation || old.state() == State::Complete {
                return (old, Heard::Gone);
            }
            old.with(bit).heard()
        })
    }

    /// Sets CANCEL. One that waits for its first admission does not wait any longer.
    pub(crate) fn interrupt(&self, generation: u32) -> Heard {
        self.update(|old| match old.state() {
            _ if old.generation() != generation => (old, Heard::Gone),
            State::Complete => (old, Heard::Gone),
            State::Admitting if old.has(FRESH) => (old.to(State::Ready).with(CANCEL), Heard::Woken),
            _ => old.with(CANCEL).heard(),
        })
    }

    /// Sets PAUSED, or takes it back.
    pub(crate) fn pause(&self, generation: u32, paused: bool) -> Heard {
        self.update(|old| match old.state() {
            _ if old.generation() != generation => (old, Heard::Gone),
            State::Complete => (old, Heard::Gone),
            _ if paused => (old.with(PAUSED), Heard::Pending),
            _ if old.has(HELD) => (old.without(PAUSED | HELD), Heard::Woken),
            _ => old.without(PAUSED).heard(),
        })
    }

    /// A worker takes the process, without the lock of its event queue. Nothing: there are events, the lock is needed.
    pub(crate) fn start_quiet(&self) -> Option<Started> {
        self.update(|old| {
            if old.state() == State::Ready && old.has(WAKE | MAIL) {
                return (old, None);
            }
            let (new, started) = Self::started(old);
            (new, Some(started))
        })
    }

    /// A worker takes the process and holds the lock of its event queue, which it takes before it gives the lock up.
    pub(crate) fn start(&self) -> Started {
        self.update(Self::started)
    }

    fn started(old: Value) -> (Value, Started) {
        let interrupted = old.has(CANCEL);
        match old.state() {
            State::Preempted => (old.to(State::Running), Started { resumed: true, interrupted }),
            state => {
                debug_assert_eq!(state, State::Ready, "taken from a queue where it should not be");
                let new = old.to(State::Running).without(WAKE | MAIL | CANCEL | FRESH | ANY);
                (new, Started { resumed: false, interrupted })
            }
        }
    }

    /// The slice is over, the step's output is visible, and the process has not ended.
    pub(crate) fn finish(&self, next: Next) -> Finished {
        self.update(|old| {
            debug_assert_eq!(old.state(), State::Running, "a process that nobody runs was put back");
            let requeue = |state| {
                if old.has(PAUSED) {
                    (old.to(state).with(HELD), Finished::Held)
                } else {
                    (old.to(state), Finished::Requeue)
                }
            };
            let wait = |state, any| {
                if old.is_woken(any) {
                    (old.to(State::Ready), Finished::Woken)
                } else {
                    (old.to(state), Finished::Waits)
                }
            };
            match next {
                Next::Preempted => requeue(State::Preempted),
                Next::Ready => requeue(State::Ready),
                Next::Blocked => wait(State::Blocked, false),
                Next::Idle => wait(State::Idle, true),
                Next::Complete => unreachable!("an end is told by `complete`"),
            }
        })
    }

    /// The process has ended, and its event queue is empty. False: it is not; take the lock.
    #[must_use]
    pub(crate) fn complete_quiet(&self) -> bool {
        self.update(
            |old| {
                if old.has(WAKE | MAIL) { (old, false) } else { (old.to(State::Complete).without(0xff00), true) }
            },
        )
    }

    /// The process has ended, and the caller holds the lock of its event queue, which it empties.
    pub(crate) fn complete(&self) {
        self.update(|old| (old.to(State::Complete).without(0xff00), ()));
    }

    /// The process has got its permit. False: it does not wait for one any more.
    #[must_use]
    pub(crate) fn admit(&self, generation: u32) -> bool {
        self.update(|old| match old.state() {
            State::Admitting if old.generation() == generation => (old.to(State::Ready), true),
            _ => (old, false),
        })
    }

    /// Its permit is to be taken away. False: it does not wait, or not any more.
    #[must_use]
    pub(crate) fn evict(&self, generation: u32) -> bool {
        self.update(|old| match old.state() {
            _ if old.generation() != generation => (old, false),
            State::Blocked => (old.to(State::Evicting), true),
            State::Idle => (old.to(State::Evicting).with(ANY), true),
            _ => (old, false),
        })
    }

    /// Its permit was taken away, or could not be.
    pub(crate) fn evicted(&self, evicted: bool) -> Evicted {
        self.update(|old| {
            debug_assert_eq!(old.state(), State::Evicting, "an eviction ended that had not begun");
            let any = old.has(ANY);
            match (evicted, old.is_woken(any)) {
                (true, true) => (old.to(State::Admitting), Evicted::Admit),
                (true, false) => (old.to(State::Evicted), Evicted::Waits),
                (false, true) => (old.to(State::Ready), Evicted::Woken),
                (false, false) if any => (old.to(State::Idle).without(ANY), Evicted::Waits),
                (false, false) => (old.to(State::Blocked), Evicted::Waits),
            }
        })
    }
}
