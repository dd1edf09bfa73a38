//! The seam between the scheduler and the room that decides what a step's output means.

use super::TimerId;
use crate::base::Monotonic;
use crate::process::{Allocation, Micros, Permit};

/// A place in the slot table, by which the scheduler knows a process. In memory only; never mixed
/// with a pid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// The index of the place.
    pub index: u32,
    /// How many tenants the place has had: a late event for a former one is dropped and counted.
    pub generation: u32,
}

/// The kind of a posted event, which decides whether it wakes a waiting process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// An answer, an exit or cancel: wakes a blocked or an idle process.
    Event,
    /// A message: wakes an idle process only; a blocked one gets it with its next batch.
    Message,
}

/// Why a process is interrupted, the weakest reason first. A process that is interrupted for
/// several reasons gets the strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Interrupt {
    /// The commit point wants to see it between two steps; if it waits for a permit, when it has
    /// that.
    Visit,
    /// It is asked to end. If it waits for its first permit, it stops waiting.
    Cancel,
    /// It has ended for everyone else: what is left of it must go. The answer is
    /// [`Next::Complete`].
    End,
}

/// What an operator does with a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// It is no longer stepped. Between two steps it gives up its permit as a waiting process does.
    On,
    /// It goes on.
    Off,
}

/// Whether a process has the permit that it needs in a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permitted {
    /// It has its permit, or needs none.
    Yes,
    /// It has none now, and is stepped because it was interrupted. It must store the events that
    /// have come: to be stepped with them, it returns [`Next::Ready`], and gets its permit before
    /// it is stepped again.
    NotNow,
    /// It can have none and must end. The answer is [`Next::Complete`].
    Never,
}

/// How a process goes on after a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The slice is used up with the step half done: to the back of the global queue.
    Preempted,
    /// Step again without waiting, behind the others.
    Ready,
    /// Waits for an answer, an exit or cancel.
    Blocked,
    /// Waits for anything.
    Idle,
    /// It has ended, and all who wait for that have been notified.
    Complete,
}

/// The circumstances of a slice, beside its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The process that is stepped.
    pub slot: Slot,
    /// The slice before ended in [`Next::Preempted`]: the batch is empty and the step goes on.
    pub resumed: bool,
    /// The reason of a [`Port::interrupt`] since the step began. If the step has more slices, each
    /// one from then on has it; and when the step has ended, another step follows that has it,
    /// unless the process has ended.
    pub interrupted: Option<Interrupt>,
    /// Whether it has its permit.
    pub permitted: Permitted,
    /// The monotonic time at the slice's start, as of [`Port::monotonic`]; zero if
    /// [`Commit::TIMED`] is false.
    pub now: Monotonic,
}

impl Turn {
    /// Whether the process may go on with `next` after this slice.
    #[inline]
    #[must_use]
    pub fn allows(&self, next: Next) -> bool {
        if self.permitted == Permitted::Yes && self.interrupted.is_none() {
            return true;
        }
        match next {
            Next::Complete => true,
            _ if self.permitted == Permitted::Never || self.interrupted == Some(Interrupt::End) => false,
            Next::Preempted => self.permitted == Permitted::Yes,
            Next::Ready | Next::Blocked | Next::Idle => true,
        }
    }
}

/// Steps processes and makes the outcome visible. The order at the end of a step is: commit, then
/// commands are dispatched, and only when [`Commit::step`] has returned does the scheduler publish
/// the state and act on wakes that came meanwhile.
pub trait Commit: Send + Sync + Sized + 'static {
    /// What is posted to a process.
    type Event: Send + 'static;
    /// What is stepped, with all that the commit point stores beside it.
    type Process: Send + 'static;
    /// What a timer carries.
    type Timer: Send + 'static;

    /// Whether the clock is read once a slice (about 25 ns): [`Turn::now`] and [`Commit::slow`]
    /// depend on it.
    const TIMED: bool = true;

    /// Runs one slice of a step, and commits the step if that was its last. `events` is taken from
    /// the front; what is left in it is dropped. Only one thread at a time has a given process.
    ///
    /// The port is a type parameter so that a post costs no virtual call; `let port: &mut dyn
    /// Port<Self> = port` erases it.
    fn step<P: Port<Self>>(
        &self,
        port: &mut P,
        turn: Turn,
        process: &mut Self::Process,
        events: &mut Vec<Self::Event>,
    ) -> Next;

    /// The step panicked. Here the commit point notifies all who wait for the process, which is
    /// then dropped.
    fn panicked<P: Port<Self>>(&self, port: &mut P, slot: Slot, process: &mut Self::Process, message: &str);

    /// A slice took more than 10 ms. It has been counted; here it can be reported.
    fn slow(&self, slot: Slot, process: &Self::Process, took: Micros) {
        let _ = (slot, process, took);
    }

    /// The name of a process in a recording of what the workers do.
    fn name(&self, process: &Self::Process) -> String {
        let _ = process;
        String::new()
    }

    /// The scheduler shuts down or stops. Called before it refuses the first process for that, on
    /// the thread that ends it, and perhaps once more.
    fn closing(&self) {}

    /// The scheduler shuts down and this process is alive: asks it to end, once.
    fn cancel<P: Port<Self>>(&self, port: &mut P, slot: Slot) {
        port.interrupt(slot, Interrupt::Cancel);
    }

    /// Gives the process's pool resources back and stores what it needs to go on. Returns `false`
    /// if it cannot; then nothing has changed.
    fn evict(&self, process: &mut Self::Process) -> bool {
        let _ = process;
        false
    }

    /// Whether [`Commit::evict`] may take longer than a turn may: it is then called on another
    /// thread than a worker's.
    fn evicts_slowly(&self, process: &Self::Process) -> bool {
        let _ = process;
        false
    }

    /// The process, which waited for a permit, has got one: its next instance is made there. A
    /// process that did not have to wait is made in the pool. Slow work before its step is best
    /// done here, if [`Commit::admits_slowly`] said so.
    fn admitted(&self, process: &mut Self::Process, allocation: Allocation) {
        let _ = (process, allocation);
    }

    /// Whether [`Commit::admitted`] may take longer than a turn may: it is then called on another
    /// thread than a worker's.
    fn admits_slowly(&self, process: &Self::Process, allocation: Allocation) -> bool {
        let _ = (process, allocation);
        false
    }

    /// Whether dropping the process, which has ended, may take longer than a turn may: it is then
    /// dropped on another thread.
    fn drops_slowly(&self, process: &Self::Process) -> bool {
        let _ = process;
        false
    }

    /// These timers are due, in the order of their due times: one batch.
    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Self::Timer>);
}

/// The requests to the scheduler, from a worker within a step or from any other thread.
pub trait Port<C: Commit> {
    /// Starts a process. If its permit is not free, it waits for admission, in order.
    ///
    /// # Errors
    /// The process itself, if the scheduler is shutting down, the slot table is full, or the permit
    /// is more than the whole pool and there is nothing outside it.
    fn spawn(&mut self, process: C::Process, permit: Permit) -> Result<Slot, C::Process>;

    /// Starts a process that was stepped before, in another place: it goes on as after a step that
    /// ended in `next`, which is [`Next::Ready`], [`Next::Blocked`] or [`Next::Idle`]. A waiting
    /// one is not stepped and takes no permit before an event has come for it. Like an evicted
    /// process it is never refused its permit.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    fn take_up(&mut self, process: C::Process, permit: Permit, next: Next) -> Result<Slot, C::Process>;

    /// Whether a process with this permit can be admitted at all, now or later: it is no more than
    /// the whole pool, or there is room outside it.
    fn can_ever_admit(&self, permit: Permit) -> bool;

    /// Puts an event on a process's queue and wakes it if that kind of event does. FIFO per poster.
    /// Returns `false` if the process has ended; the event is then dropped and counted.
    fn post(&mut self, slot: Slot, event: C::Event, wake: Wake) -> bool;

    /// Interrupts the process: a step in the middle gets the reason in its next slice, and a
    /// process that waits for an event is stepped with an empty batch. No holder gives up a permit
    /// for it: an evicted process is stepped without its permit ([`Permitted::NotNow`]), and so is
    /// one that waits for its permit, if it must end, or is asked to end and was never stepped.
    fn interrupt(&mut self, slot: Slot, why: Interrupt);

    /// Pauses or unpauses the process: takes effect at the end of the next slice or step.
    fn pause(&mut self, slot: Slot, pause: Pause);

    /// Calls [`Commit::fired`] with `timer` when the monotonic clock reaches `due`.
    fn timer(&mut self, due: Monotonic, timer: C::Timer) -> TimerId;

    /// Unsets a timer that has not fired yet. One that fires at this moment may still reach
    /// [`Commit::fired`].
    fn unset_timer(&mut self, timer: TimerId);

    /// Reports the fuel of the whole step; a slice has
    /// [`Config::slice_fuel`](super::Config::slice_fuel).
    fn used(&mut self, fuel: u64) {
        let _ = fuel;
    }

    /// The monotonic time that timers are measured by: microseconds since the scheduler started.
    fn monotonic(&self) -> Monotonic;
}
