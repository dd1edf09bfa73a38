//! The kernel in a simulated host: unchanged, except for a moment at which another thread may
//! intervene.
//!
//! A timer of a run fires in two steps: the run is looked up, and its lock is acquired. A worker of
//! another thread can park the run between the two. The simulation has no other thread; but the
//! commit point asks for the time just before it acquires the lock, and the world acts then.

use crate::base::Monotonic;
use crate::process::{Allocation, Event, Micros, Permit};
use crate::run::{Kernel, Ports, Task, Timer};
use crate::scheduler::{Commit, Handle, Interrupt, Next, Pause, Port, Slot, TimerId, Turn, Wake};
use std::sync::Arc;

/// The commit point of simulated runs.
pub struct Hosted {
    pub(super) kernel: Kernel,
    /// Called between the two steps of a timer.
    pub(super) between: Arc<dyn Fn() + Send + Sync>,
    /// Called when the host shuts down.
    pub(super) closes: Arc<dyn Fn() + Send + Sync>,
}

/// Adapts a port of the simulated scheduler to the kernel.
struct KernelPort<'a, P> {
    port: &'a mut P,
    between: std::cell::Cell<Option<&'a (dyn Fn() + Send + Sync)>>,
}

impl<'a, P> KernelPort<'a, P> {
    fn of(port: &'a mut P) -> Self {
        Self { port, between: None.into() }
    }
}

impl<P: Port<Hosted>> Port<Kernel> for KernelPort<'_, P> {
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

/// The port of threads that are not workers of the simulated scheduler.
pub(super) struct SchedulerPort(pub(super) Handle<Hosted>);

impl Ports for SchedulerPort {
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>)) {
        act(&mut KernelPort::of(&mut self.0.clone()));
    }
}

impl Commit for Hosted {
    type Event = Event;
    type Process = Task;
    type Timer = Timer;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, task: &mut Task, events: &mut Vec<Event>) -> Next {
        self.kernel.step(&mut KernelPort::of(port), turn, task, events)
    }

    fn panicked<P: Port<Self>>(&self, port: &mut P, slot: Slot, task: &mut Task, message: &str) {
        self.kernel.panicked(&mut KernelPort::of(port), slot, task, message);
    }

    fn slow(&self, slot: Slot, task: &Task, took: Micros) {
        self.kernel.slow(slot, task, took);
    }

    fn closing(&self) {
        (self.closes)();
        self.kernel.closing();
    }

    fn cancel<P: Port<Self>>(&self, port: &mut P, slot: Slot) {
        self.kernel.cancel(&mut KernelPort::of(port), slot);
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
            self.kernel.fired(&mut KernelPort { port, between: between.into() }, &mut vec![timer]);
        }
    }
}
