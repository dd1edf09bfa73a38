//! The smallest scheduler that keeps the seam's promises: one thread, virtual time, and a seed that chooses who is next. Commit is
//! tested against it, so that a failing test is a fault of this room.

use crate::process::{Event, Home, Micros, Permit};
use crate::run::{Clock, Kernel, Ports, Task, Timer};
use crate::scheduler::{Commit, Interrupt, Next, Pause, Permitted, Port, Slot, TimerId, Turn, Wake};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

struct Place {
    task: Option<Task>,
    queue: Vec<Event>,
    state: Next,
    wake: bool,
    mail: bool,
    interrupted: Option<Interrupt>,
    paused: bool,
}

#[derive(Default)]
struct World {
    places: Vec<Option<Place>>,
    ready: VecDeque<u32>,
    timers: BTreeMap<TimerId, Timer>,
    next_timer: u64,
    places_max: usize,
    home: Home,
}

/// The desk at which processes are stepped.
#[derive(Clone)]
pub(super) struct Desk {
    world: Arc<Mutex<World>>,
    now: Arc<AtomicU64>,
    /// What the wall clock is ahead of where it should be.
    jump: Arc<AtomicI64>,
    seed: Arc<AtomicU64>,
    pub(super) kernel: Kernel,
}

/// When the virtual wall clock starts.
pub(super) const EPOCH: u64 = 1_700_000_000_000_000;

impl Desk {
    pub(super) fn new(seed: u64) -> Self {
        let now = Arc::new(AtomicU64::new(0));
        let wall = Arc::clone(&now);
        let jump = Arc::new(AtomicI64::new(0));
        let jumped = Arc::clone(&jump);
        let kernel = Kernel::new(Clock::new(move || {
            Micros((EPOCH + wall.load(Relaxed)).saturating_add_signed(jumped.load(Relaxed)))
        }));
        let world = World { places_max: 100_000, ..World::default() };
        let desk = Self {
            world: Arc::new(Mutex::new(world)),
            now,
            jump,
            seed: Arc::new(AtomicU64::new(seed.wrapping_mul(2).wrapping_add(1))),
            kernel: kernel.clone(),
        };
        kernel.attach(desk.clone());
        desk
    }

    /// A number below `bound`, from the seed (xorshift64*).
    pub(super) fn pick(&self, bound: usize) -> usize {
        let mut x = self.seed.load(Relaxed);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.seed.store(x, Relaxed);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    pub(super) fn now(&self) -> Micros {
        Micros(self.now.load(Relaxed))
    }

    pub(super) fn advance(&self, by: Micros) {
        self.now.fetch_add(by.0, Relaxed);
    }

    /// Sets the wall clock: so many microseconds from where it should be.
    pub(super) fn set_wall(&self, jump: i64) {
        self.jump.store(jump, Relaxed);
    }

    pub(super) fn limit_places(&self, places_max: usize) {
        self.world.lock().places_max = places_max;
    }

    /// Where the processes are admitted that are spawned from now on.
    pub(super) fn admit_to(&self, home: Home) {
        self.world.lock().home = home;
    }

    /// Steps whoever the seed chooses among those that are ready. False: nobody is.
    pub(super) fn turn(&mut self) -> bool {
        let index = {
            let mut world = self.world.lock();
            let candidates: Vec<usize> = (0..world.ready.len())
                .filter(|at| world.places[world.ready[*at] as usize].as_ref().is_some_and(|place| !place.paused))
                .collect();
            if candidates.is_empty() {
                return false;
            }
            let at = candidates[self.pick(candidates.len())];
            world.ready.remove(at).unwrap()
        };
        self.step(index);
        true
    }

    fn step(&mut self, index: u32) {
        let slot = Slot { index, generation: 0 };
        let (mut task, mut events, turn) = {
            let mut world = self.world.lock();
            let place = world.places[index as usize].as_mut().unwrap();
            let resumed = place.state == Next::Preempted;
            let mut events = Vec::new();
            if !resumed {
                (place.wake, place.mail) = (false, false);
                events = std::mem::take(&mut place.queue);
            }
            let interrupted = std::mem::take(&mut place.interrupted);
            let turn = Turn { slot, resumed, interrupted, permitted: Permitted::Yes, now: self.now() };
            (place.task.take().unwrap(), events, turn)
        };
        let kernel = self.kernel.clone();
        let next = kernel.step(self, turn, &mut task, &mut events);
        let mut world = self.world.lock();
        if next == Next::Complete {
            world.places[index as usize] = None;
            drop(world);
            drop(task);
            return;
        }
        let place = world.places[index as usize].as_mut().unwrap();
        place.task = Some(task);
        place.state = next;
        let ready = match next {
            Next::Blocked => place.wake || place.interrupted.is_some(),
            Next::Idle => place.wake || place.mail || place.interrupted.is_some(),
            _ => true,
        };
        if ready {
            if next != Next::Preempted {
                place.state = Next::Ready;
            }
            world.ready.push_back(index);
        }
    }

    /// Fires the timers that are due; where none is and nobody is ready, time goes to the next one. False: there is none.
    pub(super) fn fire(&mut self) -> bool {
        let mut due = Vec::new();
        {
            let mut world = self.world.lock();
            let Some(first) = world.timers.first_key_value().map(|(timer, _)| timer.due()) else { return false };
            self.now.fetch_max(first.0, Relaxed);
            while let Some(entry) = world.timers.first_entry()
                && entry.key().due() <= self.now()
            {
                due.push(entry.remove());
            }
        }
        let kernel = self.kernel.clone();
        kernel.fired(self, &mut due);
        true
    }

    /// Takes the earliest timer out, as a worker does for which it is due, and says when that is.
    pub(super) fn take_timer(&mut self) -> Micros {
        let (timer, _) = self.world.lock().timers.pop_first().expect("a timer is set");
        timer.due()
    }

    /// Goes on until nothing is left to do.
    pub(super) fn settle(&mut self) {
        loop {
            while self.turn() {}
            if !self.fire() {
                return;
            }
        }
    }

    /// Steps until nobody is ready; timers stay.
    pub(super) fn drain(&mut self) {
        while self.turn() {}
    }

    pub(super) fn timers(&self) -> usize {
        self.world.lock().timers.len()
    }

    pub(super) fn living(&self) -> usize {
        self.world.lock().places.iter().flatten().count()
    }
}

impl Ports for Desk {
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>)) {
        act(&mut self.clone());
    }
}

impl Port<Kernel> for Desk {
    fn spawn(&mut self, mut process: Task, _: Permit) -> Result<Slot, Task> {
        let mut world = self.world.lock();
        if world.places.iter().flatten().count() >= world.places_max {
            return Err(process);
        }
        self.kernel.admitted(&mut process, world.home);
        let index = world.places.len() as u32;
        world.places.push(Some(Place {
            task: Some(process),
            queue: Vec::new(),
            state: Next::Ready,
            wake: false,
            mail: false,
            interrupted: None,
            paused: false,
        }));
        world.ready.push_back(index);
        Ok(Slot { index, generation: 0 })
    }

    fn post(&mut self, slot: Slot, event: Event, wake: Wake) -> bool {
        let mut world = self.world.lock();
        let Some(place) = world.places[slot.index as usize].as_mut() else { return false };
        place.queue.push(event);
        let wakes = match wake {
            Wake::Event => {
                place.wake = true;
                matches!(place.state, Next::Blocked | Next::Idle)
            }
            Wake::Message => {
                place.mail = true;
                place.state == Next::Idle
            }
        };
        if wakes && place.task.is_some() {
            place.state = Next::Ready;
            world.ready.push_back(slot.index);
        }
        true
    }

    fn interrupt(&mut self, slot: Slot, why: Interrupt) {
        let mut world = self.world.lock();
        let Some(place) = world.places[slot.index as usize].as_mut() else { return };
        place.interrupted = place.interrupted.max(Some(why));
        if matches!(place.state, Next::Blocked | Next::Idle) && place.task.is_some() {
            place.state = Next::Ready;
            world.ready.push_back(slot.index);
        }
    }

    fn pause(&mut self, slot: Slot, pause: Pause) {
        if let Some(place) = self.world.lock().places[slot.index as usize].as_mut() {
            place.paused = pause == Pause::On;
        }
    }

    fn timer(&mut self, due: Micros, timer: Timer) -> TimerId {
        let mut world = self.world.lock();
        world.next_timer += 1;
        let id = TimerId::new(due, world.next_timer);
        world.timers.insert(id, timer);
        id
    }

    fn unset_timer(&mut self, timer: TimerId) {
        self.world.lock().timers.remove(&timer);
    }

    fn monotonic(&self) -> Micros {
        self.now()
    }
}
