//! The state word of a place: who has the process, and which events are pending.
//!
//! ```text
//!  63        32 31       8 7      0
//! | generation |   bits   | state  |
//! ```
//! Each transition is one successful read-modify-write, and returns the duty of its caller. The
//! generation is in the same word, so an event for a former tenant fails in that very operation.
//!
//! | from | on | to | duty of the caller |
//! |---|---|---|---|
//! | — | spawn, no permit needed or one is free | Ready | enqueue |
//! | — | spawn, no permit is free | Admitting | join the admission queue |
//! | — | recovered after `blocked`, `idle` | Blocked, Idle, or Evicted if it needs a permit | none |
//! | Admitting | permit | Ready | enqueue in the global queue |
//! | Admitting, never started | cancel | Ready + CANCEL | enqueue, and serve the queue behind it |
//! | Admitting | end | Ready + END | the same |
//! | Ready | a worker takes it | Running − WAKE − MAIL − VISIT − CANCEL − END | take the event queue |
//! | Running | slice used up | Preempted | to the back of the global queue |
//! | Preempted | a worker takes it | Running, nothing cleared | go on with the step |
//! | Running | `ready` | Ready | to the back of the global queue |
//! | Running | `blocked` | Blocked, or Ready if WAKE or an interrupt was set | enqueue if Ready |
//! | Running | `idle` | Idle, or Ready if WAKE, MAIL or an interrupt was set | enqueue if Ready |
//! | Running, no permit | `ready` | Admitting, or Evicted + HELD if PAUSED | join the admission queue if Admitting |
//! | Running, no permit | `blocked`, `idle` | Evicted, or further as from there | as from there |
//! | Running | `complete` | Complete | empty the event queue, free the place |
//! | Blocked | event, interrupt | Ready | enqueue |
//! | Blocked | message | Blocked + MAIL | none |
//! | Idle | anything | Ready | enqueue |
//! | Blocked, Idle, Ready + HELD | eviction | Evicting | take a snapshot, pass the permit on |
//! | Preempted + HELD | eviction | unchanged: it is in a step | count it among those that stay |
//! | Evicting | anything | + its bit | none |
//! | Evicting | evicted | Evicted, or further as from there | as from there |
//! | Evicting | eviction refused | as before, or Ready − HELD if a bit that wakes it was set or it was resumed | enqueue if Ready − HELD |
//! | Evicted | event, or message if it was Idle | Admitting | join it to the admission queue |
//! | Evicted | interrupt | Ready | enqueue without a permit |
//! | Running, Preempted, Ready, Admitting | anything | + its bit | none |
//! | any but Complete | pause | + PAUSED | none: it holds at the end of the slice or step |
//! | Ready + HELD, Preempted + HELD | resume | − PAUSED − HELD | enqueue |
//! | Evicted + HELD | resume | Admitting − PAUSED − HELD, or Ready if END was set | join it to the admission queue, or enqueue |
//! | any other but Complete | resume | − PAUSED | enqueue, or join the admission queue, if an event or interrupt is pending |
//! | Complete | anything | unchanged | drop it and count |
//!
//! An interrupt sets the bit of its reason: VISIT, CANCEL or END.
//!
//! While PAUSED is set nothing wakes: Blocked, Idle and Evicted keep their state and collect bits,
//! and a slice or step that ends in Preempted or Ready gets HELD instead of being enqueued. HELD
//! means that the process goes on once it is resumed, whether or not anything has come for it. It
//! outlasts an eviction, and is set without PAUSED only while one is under way.
//!
//! **WAKE and MAIL say that the event queue is not empty.** They are set and cleared only under the
//! lock of the event queue (see [`Place`](super::place::Place)), so even without the lock a word
//! without them proves an empty queue at that moment. Every other transition may happen without the
//! lock.

mod word;

use super::{Interrupt, Next};

pub(crate) use word::Word;

/// Who has the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// No thread or queue: the process has ended, and the place is free or about to be.
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
    /// The thread that takes its permit away.
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

/// Bits of the state, the lowest of the word.
const STATE_BITS: u32 = 8;
const STATE: u64 = (1 << STATE_BITS) - 1;
/// The generation begins at this bit.
const GENERATION_BITS: u32 = 32;

/// Declares the bits between the state and the generation, from the lowest on.
macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[allow(clippy::upper_case_acronyms, reason = "only its order counts")]
        #[derive(Clone, Copy)]
        enum Bit { $($name,)* }

        $($(#[$doc])* pub(crate) const $name: u64 = 1 << (STATE_BITS + Bit::$name as u32);)*

        /// All of them, with their names.
        const BITS: &[(u64, &str)] = &[$(($name, stringify!($name)),)*];
    };
}

bits! {
    /// The queue holds an answer, an exit or cancel.
    WAKE,
    /// The queue holds a message.
    MAIL,
    /// The process was interrupted since its step began: [`Interrupt::Visit`].
    VISIT,
    /// The same: [`Interrupt::Cancel`].
    CANCEL,
    /// The same: [`Interrupt::End`].
    END,
    /// An operator has paused the process.
    PAUSED,
    /// It is Ready or Preempted but in no queue, because it is paused; or it was Ready so when it
    /// was evicted.
    HELD,
    /// Evicting or Evicted from Idle and not from Blocked.
    ANY,
    /// It was never stepped.
    FRESH,
    /// It is Admitting, and the thread that made it so has finished with its body.
    QUEUED,
}

const _: () = assert!(STATE_BITS as usize + BITS.len() <= GENERATION_BITS as usize && STATES.len() <= 1 << STATE_BITS);

const INTERRUPTED: u64 = VISIT | CANCEL | END;

fn bit_of(why: Interrupt) -> u64 {
    match why {
        Interrupt::Visit => VISIT,
        Interrupt::Cancel => CANCEL,
        Interrupt::End => END,
    }
}

/// What ends the wait of a process, beside an interrupt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// It is held, and waits only for the end of the pause.
    Nothing,
    Event,
    Anything,
}

/// One value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value(u64);

impl Value {
    fn new(generation: u32, state: State, bits: u64) -> Self {
        Self(u64::from(generation) << GENERATION_BITS | bits | state as u64)
    }

    pub(crate) fn state(self) -> State {
        STATES[(self.0 & STATE) as usize]
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> GENERATION_BITS) as u32
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
        Self(self.0 & !STATE | state as u64)
    }

    /// The end of this tenant: only the generation remains in the word.
    fn ended(self) -> Self {
        Self::new(self.generation(), State::Complete, 0)
    }

    /// Whether the process has its permit but is with no thread and in no queue.
    pub(crate) fn rests(self) -> bool {
        match self.state() {
            State::Blocked | State::Idle => true,
            State::Ready | State::Preempted => self.has(HELD),
            _ => false,
        }
    }

    /// Whether the place has this tenant, and it has not ended.
    fn is_of(self, generation: u32) -> bool {
        self.generation() == generation && self.state() != State::Complete
    }

    /// Whether this tenant is in the admission queue.
    pub(crate) fn waits_for_permit(self, generation: u32) -> bool {
        self.generation() == generation && self.state() == State::Admitting && self.has(QUEUED)
    }

    fn interrupt(self) -> Option<Interrupt> {
        [Interrupt::End, Interrupt::Cancel, Interrupt::Visit].into_iter().find(|why| self.has(bit_of(*why)))
    }

    /// Whether the pending bits end a wait for this.
    fn is_ended(self, waits_for: WaitsFor) -> bool {
        match waits_for {
            WaitsFor::Nothing => true,
            WaitsFor::Event => self.has(WAKE),
            WaitsFor::Anything => self.has(WAKE | MAIL),
        }
    }

    /// The state after bits changed, for a process that may be waiting; and the duty of the thread
    /// that changed them.
    fn heard(self) -> (Self, Heard) {
        let state = self.state();
        let waits_for = match state {
            State::Blocked => WaitsFor::Event,
            State::Idle => WaitsFor::Anything,
            State::Ready | State::Preempted | State::Evicted if self.has(HELD) => WaitsFor::Nothing,
            State::Evicted if self.has(ANY) => WaitsFor::Anything,
            State::Evicted => WaitsFor::Event,
            _ => return (self, Heard::Pending),
        };
        if self.has(PAUSED) {
            return (self, Heard::Pending);
        }
        let is_ended = self.is_ended(waits_for);
        let next = self.without(HELD);
        match state {
            State::Preempted => (next, Heard::Woken),
            // A process that is stepped for an event gets the interrupt in the same step, and one
            // that must end needs no permit.
            State::Evicted if is_ended && !self.has(END) => (next.to(State::Admitting), Heard::Admit),
            _ if is_ended || self.has(INTERRUPTED) => (next.to(State::Ready), Heard::Woken),
            _ => (self, Heard::Pending),
        }
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.state())?;
        for (_, name) in BITS.iter().filter(|(bit, _)| self.has(*bit)) {
            write!(f, " + {name}")?;
        }
        write!(f, " of {}", self.generation())
    }
}

/// The history of a process that is put into a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// It was never stepped.
    Nothing,
    /// A step that ended so.
    Step(Next),
}

/// The answer of a holder that is asked to give up its permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Asked {
    /// It is Evicting: the caller takes its permit away.
    Yields,
    /// It is held in the middle of a step, where it cannot be evicted.
    Stays,
    /// It does not rest, or no longer does.
    Moves,
}

/// The outcome of an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Eviction {
    /// The permit was taken away.
    Done,
    /// It could not be.
    Refused,
}

/// The duty that follows from an event, an interrupt, a resume or an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Heard {
    /// The process has ended: drop the event and count it.
    Gone,
    /// Nothing: the process will get what has come in time.
    Pending,
    /// The caller woke it and enqueues it.
    Woken,
    /// The caller woke it and joins it to the admission queue.
    Admit,
    /// The caller took it out of the admission queue, enqueues it, and serves the queue behind it.
    Left,
}

/// The outcome of [`Word::claim`].
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

/// How a worker that took a process goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) struct Started {
    /// The step goes on: there are no events to take.
    pub(crate) resumed: bool,
    /// The reason of an interrupt, if there was one.
    pub(crate) interrupted: Option<Interrupt>,
}

/// What follows the end of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Finished {
    /// To the back of the global queue.
    Requeue,
    /// Something came meanwhile: enqueue the process as if it were woken now.
    Woken,
    /// It waits; the thread that wakes it enqueues it.
    Waits,
    /// It is paused; the thread that resumes it enqueues it.
    Held,
}
