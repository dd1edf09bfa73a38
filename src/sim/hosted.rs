//! The kernel in a simulated host: as it is, but for a moment in which another thread may come between.
//!
//! A timer of a run fires in two steps: the run is looked up, and its lock is taken. A worker of another thread can park the run between
//! the two. Here no other thread is; but the commit point asks for the time just before it takes the lock, and the world is let act then.

use crate::base::Monotonic;
use crate::process::{Allocation, Event, Micros, Permit};
use crate::run::{Kernel, Ports, Task, Timer};
use crate::scheduler::{Commit, Handle, Interrupt, Next, Pause, Port, Slot, TimerId, Turn, Wake};
use std::sync::Arc;

/// The commit point of simulated runs.
pub struct Hosted {
    pub(super) kernel: Kernel,
    /// Comes between the two steps of a timer.
    pub(super) between: Arc<dyn Fn() + Send + Sync>,
    /// Somebody shuts it down.
    pub(super) closes: Arc<dyn Fn() + Send + Sync>,
}

/// A port of the simulated scheduler as a port of the kernel's.
struct Seam<'a, P> {
    port: &'a mut P,
    between: std::cell::Cell<Option<&'a (dyn Fn() + Send + Sync)>>,
}

impl<'a, P> Seam<'a, P> {
    fn of(port: &'a mut P) -> Self {
        Self { port, between: None.into() }
    }
}

impl<P: Port<Hosted>> Port<Kernel> for Seam<'_, P> {
    fn spawn(&mut self, process: Task, permit: Permit) -> Result<Slot, Task> {
        self.port.spawn(process, permit)
    }

    fn take_up(&mut self, process: Task, permit: Permit, next: Next) -> Result<Slot, Task> {
        self.port.take_up(process, permit, next)
    }

    fn can_ever_admit(&self, permit: Permit) -> bool {
        self.port.can_ever_admit(permit)
    }

    fn post(&mut self, slot: Slot, event: Event, wake: Wake) -> bool {
        self.port.post(slot, event, wake)
    }

    fn interrupt(&mut self, slot: Slot, why: Interrupt) {
        self.port.interrupt(slot, why);
    }

    fn pause(&mut self, slot: Slot, pause: Pause) {
        self.port.pause(slot, pause);
    }

    fn timer(&mut self, due: Monotonic, timer: Timer) -> TimerId {
        self.port.timer(due, timer)
    }

    fn unset_timer(&mut self, timer: TimerId) {
        self.port.unset_timer(timer);
    }

    fn used(&mut self, fuel: u64) {
        self.port.used(fuel);
    }

    fn monotonic(&self) -> Monotonic {
        if let Some(between) = self.between.take() {
            between();
        }
        self.port.monotonic()
    }
}

/// The way to the simulated scheduler for whoever is on none of its workers.
pub(super) struct SchedulerPort(pub(super) Handle<Hosted>);

impl Ports for SchedulerPort {
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>)) {
        act(&mut Seam::of(&mut self.0.clone()));
    }
}

impl Commit for Hosted {
    type Event = Event;
    type Process = Task;
    type Timer = Timer;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, task: &mut Task, events: &mut Vec<Event>) -> Next {
        self.kernel.step(&mut Seam::of(port), turn, task, events)
    }

    fn panicked<P: Port<Self>>(&self, port: &mut P, slot: Slot, task: &mut Task, message: &str) {
        self.kernel.panicked(&mut Seam::of(port), slot, task, message);
    }

    fn slow(&self, slot: Slot, task: &Task, took: Micros) {
        self.kernel.slow(slot, task, took);
    }

    fn closing(&self) {
        (self.closes)();
        self.kernel.closing();
    }

    fn cancel<P: Port<Self>>(&self, port: &mut P, slot: Slot) {
        self.kernel.cancel(&mut Seam::of(port), slot);
    }

    fn evict(&self, task: &mut Task) -> bool {
        self.kernel.evict(task)
    }

    fn admitted(&self, task: &mut Task, allocation: Allocation) {
        self.kernel.admitted(task, allocation);
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Timer>) {
        for timer in timers.drain(..) {
            let between = matches!(timer, Timer::Due(_)).then_some(&*self.between);
            self.kernel.fired(&mut Seam { port, between: between.into() }, &mut vec![timer]);
        }
    }
}
