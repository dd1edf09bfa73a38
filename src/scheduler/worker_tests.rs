//! Workers that are turned by hand, with processes that are closures.

use super::*;
use crate::process::Permit;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

type Step = Box<dyn FnMut(&mut dyn Port<World>, Turn, &mut Vec<u64>) -> Next + Send>;

/// A process.
struct Actor {
    step: Step,
    gives_way: bool,
}

#[derive(Default)]
struct World {
    panics: AtomicU64,
    fired: AtomicU64,
}

impl Commit for World {
    type Event = u64;
    type Process = Actor;
    type Timer = Slot;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, actor: &mut Actor, events: &mut Vec<u64>) -> Next {
        (actor.step)(port, turn, events)
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, _: Slot, _: &mut Actor, _: &str) {
        self.panics.fetch_add(1, SeqCst);
    }

    fn evict(&self, actor: &mut Actor) -> bool {
        actor.gives_way
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Slot>) {
        self.fired.store(port.monotonic().0, SeqCst);
        for slot in timers.drain(..) {
            port.post(slot, 0, Wake::Event);
        }
    }
}

fn actor(step: impl FnMut(&mut dyn Port<World>, Turn, &mut Vec<u64>) -> Next + Send + 'static) -> Actor {
    Actor { step: Box::new(step), gives_way: true }
}

/// One that always says the same.
fn says(next: Next) -> Actor {
    actor(move |_, _, _| next)
}

fn permits(count: u32) -> Permit {
    Permit { instances: count, core_instances: count, memories: count, tables: count, bytes: 0 }
}

struct Rig {
    scheduler: VirtualScheduler<World>,
    handle: Handle<World>,
}

impl Rig {
    fn new(capacity: u32) -> Self {
        let config = Config { workers: 1, capacity: permits(capacity), ..Config::default() };
        let scheduler = VirtualScheduler::new(Arc::default(), &config);
        let handle = scheduler.handle();
        Self { scheduler, handle }
    }

    fn spawn(&mut self, actor: Actor, permit: Permit) -> Slot {
        self.handle.spawn(actor, permit).unwrap_or_else(|_| panic!("it is open"))
    }

    /// Turns until there is nothing to do.
    fn settle(&mut self) {
        while self.scheduler.turn(0) != Turned::Nothing {}
    }

    fn panics(&self) -> u64 {
        self.handle.commit().panics.load(SeqCst)
    }
}

/// What processes were told of their permits and of interrupts.
type Told = Arc<Mutex<Vec<(Permitted, Option<Interrupt>)>>>;

/// A process that waits, and what it was told of its permit and of interrupts.
fn waits(told: &Told) -> Actor {
    let told = Arc::clone(told);
    actor(move |_, turn, _| {
        told.lock().unwrap().push((turn.permitted, turn.interrupted));
        if turn.allows(Next::Blocked) { Next::Blocked } else { Next::Complete }
    })
}

#[test]
fn those_behind_a_newcomer_that_is_interrupted_get_what_is_free() {
    for why in [Interrupt::Cancel, Interrupt::End] {
        let mut rig = Rig::new(2);
        rig.spawn(Actor { gives_way: false, ..says(Next::Blocked) }, permits(1));
        let large = rig.spawn(says(Next::Complete), permits(2));
        rig.spawn(says(Next::Complete), permits(1));
        rig.settle();
        assert_eq!((rig.scheduler.stats().completed, rig.scheduler.stats().admitting), (0, 2), "{why:?}");
        rig.handle.interrupt(large, why);
        rig.settle();
        assert_eq!((rig.scheduler.stats().completed, rig.scheduler.stats().admitting), (2, 0), "{why:?}");
    }
}

#[test]
fn a_visit_does_not_take_a_newcomer_out_of_the_queue() {
    let mut rig = Rig::new(1);
    let told = Arc::default();
    let holder = rig.spawn(Actor { gives_way: false, ..waits(&Arc::default()) }, permits(1));
    let newcomer = rig.spawn(waits(&told), permits(1));
    rig.handle.interrupt(newcomer, Interrupt::Visit);
    rig.settle();
    assert_eq!(*told.lock().unwrap(), []);
    rig.handle.interrupt(holder, Interrupt::End);
    rig.settle();
    assert_eq!(*told.lock().unwrap(), [(Permitted::Yes, Some(Interrupt::Visit))]);
}

/// Whatever it is interrupted for: nobody else is evicted for it, and it is stepped once, without its permit.
#[test]
fn an_interrupt_brings_nobody_back_who_was_evicted() {
    for why in [Interrupt::Visit, Interrupt::Cancel, Interrupt::End] {
        let mut rig = Rig::new(1);
        let told = Arc::default();
        let evicted = rig.spawn(waits(&told), permits(1));
        rig.settle();
        rig.spawn(says(Next::Blocked), permits(1));
        rig.settle();
        assert_eq!(rig.scheduler.stats().evictions, 1);
        rig.handle.interrupt(evicted, why);
        rig.settle();
        assert_eq!(*told.lock().unwrap(), [(Permitted::Yes, None), (Permitted::NotNow, Some(why))]);
        assert_eq!(rig.scheduler.stats().evictions, 1, "{why:?}");
        assert_eq!(rig.scheduler.stats().completed, u64::from(why == Interrupt::End));
        if why != Interrupt::End {
            // It is where it was, and comes back for an event.
            rig.handle.post(evicted, 1, Wake::Event);
            rig.settle();
            assert_eq!(told.lock().unwrap()[2..], [(Permitted::Yes, None)]);
        }
    }
}

#[test]
fn what_comes_for_one_without_a_permit_is_heard_when_it_has_one() {
    let mut rig = Rig::new(1);
    let (heard, sum) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (steps, total) = (Arc::clone(&heard), Arc::clone(&sum));
    let mut kept = Vec::new();
    let holder = rig.spawn(Actor { gives_way: false, ..waits(&Arc::default()) }, permits(1));
    let newcomer = rig.spawn(
        actor(move |_, turn, events| {
            kept.append(events);
            if turn.permitted == Permitted::NotNow {
                return Next::Ready;
            }
            steps.fetch_add(1, SeqCst);
            total.fetch_add(kept.drain(..).sum(), SeqCst);
            Next::Blocked
        }),
        permits(1),
    );
    rig.settle();
    rig.handle.post(newcomer, 7, Wake::Event);
    rig.handle.interrupt(newcomer, Interrupt::Cancel);
    rig.settle();
    assert_eq!((heard.load(SeqCst), rig.scheduler.stats().admitting), (0, 1), "it waits again");
    rig.handle.interrupt(holder, Interrupt::End);
    rig.settle();
    assert_eq!((heard.load(SeqCst), sum.load(SeqCst)), (1, 7));
}

/// One that has no permit and goes on as if it had one may have an instance: it is ended, and whoever must know is told.
#[test]
fn who_goes_on_where_it_may_not_is_ended() {
    let mut rig = Rig::new(1);
    rig.spawn(Actor { gives_way: false, ..says(Next::Blocked) }, permits(1));
    let newcomer = rig.spawn(says(Next::Preempted), permits(1));
    rig.handle.interrupt(newcomer, Interrupt::Cancel);
    let deaf = rig.spawn(says(Next::Idle), Permit::NONE);
    rig.settle();
    rig.handle.interrupt(deaf, Interrupt::End);
    rig.settle();
    let stats = rig.scheduler.stats();
    assert_eq!((stats.completed, stats.panics, rig.panics()), (2, 2, 2));
}
