//! The seam between the scheduler and whoever decides what a step's output means.

use super::TimerId;
use crate::base::Monotonic;
use crate::process::{Allocation, Micros, Permit};

/// A place in the slot table: what the scheduler knows a process by. In memory only; it never mixes
/// with a pid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// The place.
    pub index: u32,
    /// How often the place was given anew: a late event for a former tenant is dropped and counted.
    pub generation: u32,
}

/// What kind of event is posted: it decides whom it wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// An answer, an exit or cancel: wakes a blocked process as well as an idle one.
    Event,
    /// A message: wakes an idle process only; a blocked one hears it with its next batch.
    Message,
}

/// Why a process is interrupted, the weakest reason first. A process that is interrupted for
/// several is told the strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Interrupt {
    /// Somebody wants to see it between two steps. One that waits for a permit is seen when it has
    /// it.
    Visit,
    /// It is asked to end. One that waits for its first permit does not wait any longer to hear of
    /// it.
    Cancel,
    /// It has ended in everybody else's eyes: what is left of it is to go. The answer is
    /// [`Next::Complete`].
    End,
}

/// What an operator does with a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// It is not stepped any more. Between two steps it gives its permit to others as one does that
    /// waits.
    On,
    /// It goes on.
    Off,
}

/// Whether a process may do in a slice what its permit is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permitted {
    /// It has its permit, or needs none.
    Yes,
    /// It has none now, and is stepped to hear that it was interrupted. What has come for it is for
    /// it to keep: where it wants to be stepped with that, it says [`Next::Ready`]. It gets its
    /// permit before it is stepped again.
    NotNow,
    /// None can come: it is to end. The answer is [`Next::Complete`].
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
    /// It has ended, and everybody has been told.
    Complete,
}

/// What a slice is told beside its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The process that is stepped.
    pub slot: Slot,
    /// The slice before ended in [`Next::Preempted`]: the batch is empty and the step goes on.
    pub resumed: bool,
    /// Somebody called [`Port::interrupt`] since the step began, for this reason. Where the step
    /// has more slices, each one from then on is told; and when it is over, another step follows
    /// that is told, unless it was complete.
    pub interrupted: Option<Interrupt>,
    /// Whether it has its permit.
    pub permitted: Permitted,
    /// The monotonic time at the slice's start, as of [`Port::monotonic`]; zero where
    /// [`Commit::TIMED`] is false.
    pub now: Monotonic,
}

impl Turn {
    /// Whether the process may go on so after this slice.
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
/// the state and honour what woke the process meanwhile.
pub trait Commit: Send + Sync + Sized + 'static {
    /// What is posted to a process.
    type Event: Send + 'static;
    /// What is stepped, with all that the commit point keeps beside it.
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

    /// The step panicked. Everybody who must know is told here; the process is then dropped.
    fn panicked<P: Port<Self>>(&self, port: &mut P, slot: Slot, process: &mut Self::Process, message: &str);

    /// A slice took more than 10 ms. It has been counted; here it can be named.
    fn slow(&self, slot: Slot, process: &Self::Process, took: Micros) {
        let _ = (slot, process, took);
    }

    /// The scheduler shuts down or stops. This is said before it refuses the first process for
    /// that, on the thread of whoever ends it, and perhaps once more.
    fn closing(&self) {}

    /// The scheduler shuts down and this process is alive: asks it to end, once.
    fn cancel<P: Port<Self>>(&self, port: &mut P, slot: Slot) {
        port.interrupt(slot, Interrupt::Cancel);
    }

    /// Gives the process's pool resources back and keeps what it needs to go on. False: it cannot,
    /// and nothing has changed.
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
    /// process that did not have to wait is made in the pool. Whatever takes long before it can be
    /// stepped is best done here, where [`Commit::admits_slowly`] said so.
    fn admitted(&self, process: &mut Self::Process, allocation: Allocation) {
        let _ = (process, allocation);
    }

    /// Whether [`Commit::admitted`] may take longer than a turn may: it is then called on another
    /// thread than a worker's.
    fn admits_slowly(&self, process: &Self::Process, allocation: Allocation) -> bool {
        let _ = (process, allocation);
        false
    }

    /// Whether to drop the process, which has ended, may take longer than a turn may: it is then
    /// dropped on another thread.
    fn drops_slowly(&self, process: &Self::Process) -> bool {
        let _ = process;
        false
    }

    /// These timers are due, in the order of their due times: one batch.
    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Self::Timer>);
}

/// What may be asked of the scheduler, from a worker within a step or from any other thread.
pub trait Port<C: Commit> {
    /// Starts a process. Where its permit cannot be had at once it waits for admission, in order.
    ///
    /// # Errors
    /// The process itself, where the scheduler is shutting down, the slot table is full, or the
    /// permit is more than the whole pool and there is nothing outside it.
    fn spawn(&mut self, process: C::Process, permit: Permit) -> Result<Slot, C::Process>;

    /// Starts a process that was stepped before, in another place: it goes on as after a step that
    /// ended so, in [`Next::Ready`], [`Next::Blocked`] or [`Next::Idle`]. One that waits is not
    /// stepped and takes no permit before it has something to hear. As one that was evicted it is
    /// never refused its permit.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    fn take_up(&mut self, process: C::Process, permit: Permit, next: Next) -> Result<Slot, C::Process>;

    /// Whether a process with this permit can be had at all, now or later: it is no more than the
    /// whole pool, or there is room outside it.
    fn can_ever_admit(&self, permit: Permit) -> bool;

    /// Puts an event on a process's queue and wakes it where that kind of event does. FIFO per
    /// poster. False: the process has ended; the event is dropped and counted.
    fn post(&mut self, slot: Slot, event: C::Event, wake: Wake) -> bool;

    /// Interrupts the process: a step in the middle is told when its slice is over, and one that
    /// waits for an event is stepped with an empty batch. Nobody gives up a permit for it: one that
    /// was evicted is stepped without its permit ([`Permitted::NotNow`]), and so is one that waits
    /// for its permit, where it is to end or has never been stepped and is asked to end.
    fn interrupt(&mut self, slot: Slot, why: Interrupt);

    /// Pauses the process, or lets it go on: takes effect at the next slice's or step's end.
    fn pause(&mut self, slot: Slot, pause: Pause);

    /// Calls [`Commit::fired`] with `timer` when the monotonic clock reaches `due`.
    fn timer(&mut self, due: Monotonic, timer: C::Timer) -> TimerId;

    /// Takes a timer back, where it has not fired yet. One that fires at this moment may still
    /// reach [`Commit::fired`].
    fn unset_timer(&mut self, timer: TimerId);

    /// The step has used so much fuel in all, of which a slice has
    /// [`Config::slice_fuel`](super::Config::slice_fuel).
    fn used(&mut self, fuel: u64) {
        let _ = fuel;
    }

    /// The monotonic time that `timer` is measured by: microseconds since the scheduler started.
    fn monotonic(&self) -> Monotonic;
}
