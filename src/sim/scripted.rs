//! A world of processes that do at random all that a process can do, with faults.

use super::ledger::{ActorEvent, Ledger};
use super::{Dice, World};
use crate::base::{Monotonic, VirtualClock};
use crate::process::{Allocation, Budget, Permit};
use crate::scheduler::{Commit, Handle, Interrupt, Next, Pause, Permitted, Port, Slot, Stats, Turn, Wake};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// The id and the slot of a process.
type Address = (u32, Slot);

/// The message of the panics that are injected.
pub const INJECTED: &str = "injected";

/// Spawn trees, messages, timers and calls that are answered late, by processes that are preempted,
/// trapped, cancelled, paused, evicted and made to panic.
#[derive(Debug)]
pub struct Scripted {
    commit: Arc<Script>,
    permits: u32,
    outside: Option<Arc<Budget>>,
    /// Whether some steps take time.
    is_heavy: bool,
}

/// The commit point of a [`Scripted`] world.
#[derive(Debug)]
pub struct Script {
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    ledger: Ledger,
    /// The clock, if some steps take time.
    time: Option<VirtualClock>,
    dice: Dice,
    calm: bool,
    next_id: u32,
    next_number: u64,
    /// Calls that the outside has not yet answered.
    calls: Vec<(Address, u64)>,
}

/// One process.
#[derive(Debug)]
pub struct Actor {
    id: u32,
    dice: Dice,
    role: Role,
    parent: Option<Address>,
    peers: Vec<Address>,
    /// Actions that it may still take.
    budget: u32,
    next_tag: u64,
    outstanding: BTreeSet<u64>,
    children: u32,
    /// Slices left of the step in progress.
    slices: u32,
    cancelled: bool,
    started: bool,
    /// Whether it was evicted before.
    has_yielded: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Takes random actions until its budget is used up.
    Worker,
    /// Answers each message of its partner until the storm ends: two of these never leave a deque
    /// by themselves.
    Player,
}

impl Scripted {
    /// Creates the world of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x00c0_ffee);
        let permits = 1 + dice.below(6) as u32;
        let outside = dice.chance(50).then(|| dice.below(8) as u32);
        let is_heavy = dice.chance(30);
        // A returning process may exceed the budget.
        let ledger = Ledger::new([permits, outside.map_or(0, |instances| instances + SIZE_MAX)]);
        let books = Books { ledger, time: None, dice, calm: false, next_id: 1, next_number: 1, calls: Vec::new() };
        let outside = outside.map(|instances| Arc::new(Budget::new(permit(instances).bytes)));
        Self { commit: Arc::new(Script { books: Mutex::new(books) }), permits, outside, is_heavy }
    }
}

/// Instances that one process takes at most.
const SIZE_MAX: u32 = 3;

/// Draws how many instances a process takes: half of the processes take none.
fn instances(dice: &mut Dice) -> u32 {
    if dice.chance(50) { 0 } else { 1 + dice.below(SIZE_MAX.into()) as u32 }
}

fn permit(instances: u32) -> Permit {
    let bytes = 100 * u64::from(instances);
    Permit { instances, core_instances: 2 * instances, memories: instances, tables: instances, bytes }
}

impl World for Scripted {
    type Commit = Script;

    fn commit(&self) -> (Arc<Script>, Permit) {
        (Arc::clone(&self.commit), permit(self.permits))
    }

    fn outside(&self) -> Option<Arc<Budget>> {
        self.outside.clone()
    }

    fn use_clock(&mut self, time: &VirtualClock) {
        self.commit.books().time = self.is_heavy.then(|| time.clone());
    }

    fn act(&mut self, handle: &mut Handle<Script>, dice: &mut Dice) {
        let (living, ended) = {
            let books = self.commit.books();
            (books.ledger.living(), books.ledger.ended())
        };
        let one = dice.pick(&living).copied();
        match (dice.below(12), one) {
            (0..4, _) | (_, None) => self.commit.start(handle, dice),
            (4..7, _) => self.commit.answer_one(handle, dice),
            (7, Some((id, slot))) => {
                let why = if dice.chance(30) { Interrupt::Visit } else { Interrupt::Cancel };
                self.commit.interrupt(handle, id, slot, why);
            }
            (8, Some((id, slot))) => self.commit.pause(handle, id, slot, Pause::On),
            (9, Some((id, slot))) => self.commit.pause(handle, id, slot, Pause::Off),
            (10, Some(who)) => self.commit.send(handle, 0, who),
            (_, Some(_)) => {
                // To a process that has ended: no other one may receive it.
                if let Some(who) = dice.pick(&ended).copied() {
                    self.commit.send(handle, 0, who);
                    handle.interrupt(who.1, Interrupt::End);
                    handle.pause(who.1, Pause::On);
                }
            }
        }
    }

    fn calm(&mut self, handle: &mut Handle<Script>, _: &mut Dice) {
        let living = {
            let mut books = self.commit.books();
            books.calm = true;
            books.ledger.living()
        };
        for (id, slot) in living {
            self.commit.pause(handle, id, slot, Pause::Off);
        }
    }

    fn settle(&mut self, handle: &mut Handle<Script>) -> bool {
        let has_calls = !self.commit.books().calls.is_empty();
        if has_calls {
            self.commit.answer_one(handle, &mut Dice::new(1));
        }
        has_calls
    }

    fn verify(&self, stats: &Stats) -> Result<(), String> {
        let books = self.commit.books();
        books.ledger.verify()?;
        let dropped = (stats.dropped_events, books.ledger.dropped);
        let left = [stats.global_queue, stats.local_deques, stats.timers, stats.admitting];
        match () {
            () if dropped.0 != dropped.1 => Err(format!("dropped events, counted and found: {dropped:?}")),
            () if stats.spawned != stats.completed => Err(format!("starts and ends do not fit: {stats:?}")),
            () if left != [0; 4] => Err(format!("something is left in a queue: {stats:?}")),
            () => Ok(()),
        }
    }
}

impl Script {
    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        // An injected panic may have happened under the lock; the books are consistent between two
        // entries.
        self.books.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn actor(&self, role: Role, parent: Option<Address>, budget: u32) -> Actor {
        let mut books = self.books();
        let id = books.next_id;
        books.next_id += 1;
        let dice = Dice::new(books.dice.roll());
        Actor {
            id,
            dice,
            role,
            parent,
            peers: parent.into_iter().collect(),
            budget,
            next_tag: 1,
            outstanding: BTreeSet::new(),
            children: 0,
            slices: 0,
            cancelled: false,
            started: false,
            has_yielded: false,
        }
    }

    /// Starts a tree of processes, or a pair of players.
    fn start(&self, handle: &mut Handle<Script>, dice: &mut Dice) {
        if dice.chance(80) {
            let actor = self.actor(Role::Worker, None, 2 + dice.below(20) as u32);
            let _ = self.spawn(handle, actor, instances(dice));
            return;
        }
        let Some(one) = self.spawn(handle, self.actor(Role::Player, None, 0), 0) else { return };
        let mut other = self.actor(Role::Player, None, 0);
        other.peers.push(one);
        let Some(other) = self.spawn(handle, other, 0) else { return };
        // The first message names the one as its sender, so that the other answers it.
        self.send(handle, other.0, one);
    }

    fn spawn<P: Port<Self>>(&self, port: &mut P, actor: Actor, instances: u32) -> Option<Address> {
        let id = actor.id;
        let permit = if instances > 0 { permit(instances) } else { Permit::NONE };
        let slot = port.spawn(actor, permit).ok()?;
        self.books().ledger.born(id, slot, instances);
        Some((id, slot))
    }

    fn post<P: Port<Self>>(&self, port: &mut P, to: Address, event: ActorEvent, wake: Wake) {
        let was_accepted = port.post(to.1, event, wake);
        self.books().ledger.posted(to.0, event, wake, was_accepted);
    }

    fn send<P: Port<Self>>(&self, port: &mut P, from: u32, to: Address) {
        let number = {
            let mut books = self.books();
            books.next_number += 1;
            books.next_number
        };
        self.post(port, to, ActorEvent::Message { from, number }, Wake::Message);
    }

    fn answer_one(&self, handle: &mut Handle<Self>, dice: &mut Dice) {
        let call = {
            let mut books = self.books();
            let which = dice.below(books.calls.len() as u64) as usize;
            (which < books.calls.len()).then(|| books.calls.swap_remove(which))
        };
        if let Some((who, tag)) = call {
            self.post(handle, who, ActorEvent::Answer { tag }, Wake::Event);
        }
    }

    fn interrupt<P: Port<Self>>(&self, port: &mut P, id: u32, slot: Slot, why: Interrupt) {
        port.interrupt(slot, why);
        self.books().ledger.interrupted(id);
    }

    fn pause<P: Port<Self>>(&self, port: &mut P, id: u32, slot: Slot, pause: Pause) {
        port.pause(slot, pause);
        self.books().ledger.paused(id, pause == Pause::On);
    }

    fn end<P: Port<Self>>(&self, port: &mut P, actor: &Actor) {
        self.books().ledger.end(actor.id, Next::Complete);
        if let Some(parent) = actor.parent {
            self.post(port, parent, ActorEvent::Exit { child: actor.id }, Wake::Event);
        }
    }

    fn play<P: Port<Self>>(&self, port: &mut P, actor: &mut Actor, events: &[ActorEvent]) -> Next {
        for event in events {
            if let ActorEvent::Message { from: from @ 1.., .. } = event {
                let partner = self.books().ledger.living().into_iter().find(|(id, _)| id == from);
                let Some(partner) = partner else { return Next::Complete };
                actor.peers = vec![partner];
                self.send(port, actor.id, partner);
            }
        }
        if !actor.cancelled && !self.books().calm {
            return Next::Idle;
        }
        // Without a last message the partner would wait for ever.
        for peer in actor.peers.clone() {
            self.send(port, actor.id, peer);
        }
        Next::Complete
    }

    fn work<P: Port<Self>>(&self, port: &mut P, actor: &mut Actor, me: Slot) {
        for _ in 0..actor.dice.below(5) {
            if actor.budget == 0 || actor.cancelled {
                return;
            }
            actor.budget -= 1;
            match actor.dice.below(10) {
                0..3 => {
                    let budget = actor.budget / 2;
                    actor.budget -= budget;
                    let child = self.actor(Role::Worker, Some((actor.id, me)), budget);
                    if let Some(who) = self.spawn(port, child, instances(&mut actor.dice)) {
                        actor.children += 1;
                        actor.peers.push(who);
                    }
                }
                3..6 => {
                    if let Some(peer) = actor.dice.pick(&actor.peers).copied() {
                        self.send(port, actor.id, peer);
                    }
                }
                6..8 => {
                    let due = Monotonic(port.monotonic().0 + actor.dice.below(5_000));
                    port.timer(due, ((actor.id, me), actor.tag()));
                }
                _ => {
                    let tag = actor.tag();
                    self.books().calls.push(((actor.id, me), tag));
                }
            }
        }
    }

    fn status(&self, actor: &mut Actor) -> Next {
        let faults = !self.books().calm;
        if faults && actor.dice.chance(2) {
            // A trap: the process ends with calls outstanding and children alive.
            return Next::Complete;
        }
        assert!(!(faults && actor.dice.chance(1)), "{INJECTED}");
        if !actor.outstanding.is_empty() || actor.children > 0 {
            return if actor.dice.chance(50) { Next::Blocked } else { Next::Idle };
        }
        if actor.budget == 0 || actor.cancelled { Next::Complete } else { Next::Ready }
    }
}

impl Actor {
    fn tag(&mut self) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.outstanding.insert(tag);
        tag
    }

    fn receive(&mut self, events: &[ActorEvent]) {
        for event in events {
            match event {
                ActorEvent::Answer { tag } => {
                    self.outstanding.remove(tag);
                }
                ActorEvent::Exit { .. } => self.children -= 1,
                ActorEvent::Message { .. } => {}
            }
        }
    }
}

impl Commit for Script {
    type Event = ActorEvent;
    type Process = Actor;
    type Timer = (Address, u64);

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, actor: &mut Actor, events: &mut Vec<ActorEvent>) -> Next {
        {
            let mut books = self.books();
            books.ledger.begin(actor.id, turn, events);
            if let Some(time) = &books.time
                && actor.dice.chance(20)
            {
                time.advance_to(Monotonic(time.now().0 + actor.dice.below(20_000)));
            }
        }
        if turn.permitted == Permitted::Never {
            self.end(port, actor);
            return Next::Complete;
        }
        let never_ran = !std::mem::replace(&mut actor.started, true);
        actor.cancelled |= turn.interrupted == Some(Interrupt::Cancel);
        let next = if never_ran && actor.cancelled && actor.role == Role::Worker {
            Next::Complete
        } else if turn.permitted == Permitted::NotNow {
            actor.receive(events);
            self.status(actor)
        } else if turn.resumed {
            actor.slices -= 1;
            if actor.slices > 0 { Next::Preempted } else { self.status(actor) }
        } else if actor.role == Role::Player {
            self.play(port, actor, events)
        } else {
            actor.receive(events);
            self.work(port, actor, turn.slot);
            actor.slices = if actor.dice.chance(20) { actor.dice.below(4) as u32 } else { 0 };
            if actor.slices > 0 { Next::Preempted } else { self.status(actor) }
        };
        if next == Next::Complete {
            self.end(port, actor);
        } else {
            self.books().ledger.end(actor.id, next);
        }
        next
    }

    fn panicked<P: Port<Self>>(&self, port: &mut P, _: Slot, actor: &mut Actor, message: &str) {
        if message != INJECTED {
            self.books().ledger.breach(format!("{} panicked: {message}", actor.id));
        }
        self.end(port, actor);
    }

    fn cancel<P: Port<Self>>(&self, port: &mut P, slot: Slot) {
        let who = self.books().ledger.living().into_iter().find(|(_, living)| *living == slot);
        match who {
            Some((id, slot)) => self.interrupt(port, id, slot, Interrupt::Cancel),
            None => self.books().ledger.breach(format!("{slot:?} is cancelled, but no process lives there")),
        }
    }

    fn admitted(&self, actor: &mut Actor, allocation: Allocation) {
        self.books().ledger.admitted(actor.id, allocation);
    }

    fn evict(&self, actor: &mut Actor) -> bool {
        // A process that waits for children must yield: they may need its permit to end. So must
        // one that yielded before, which may exceed the budget.
        let yields = actor.has_yielded || actor.children > 0 || actor.dice.chance(90);
        actor.has_yielded |= yields;
        if yields {
            self.books().ledger.evicted(actor.id);
        }
        yields
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Self::Timer>) {
        for (who, tag) in timers.drain(..) {
            self.post(port, who, ActorEvent::Answer { tag }, Wake::Event);
        }
    }
}
