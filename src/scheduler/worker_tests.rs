//! Workers that are turned by hand, with processes that are closures.

use super::worker::PATIENT_ROUNDS;
use super::*;
use crate::base::{Clock, Monotonic, VirtualClock};
use crate::process::{Budget, Permit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

type Step = Box<dyn FnMut(&mut dyn Port<World>, Turn, &mut Vec<u64>) -> Next + Send>;

/// A process.
pub(super) struct Actor {
    step: Step,
    pub(super) gives_way: bool,
}

#[derive(Default)]
pub(super) struct World {
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

pub(super) fn actor(step: impl FnMut(&mut dyn Port<World>, Turn, &mut Vec<u64>) -> Next + Send + 'static) -> Actor {
    Actor { step: Box::new(step), gives_way: true }
}

/// One that always says the same.
pub(super) fn says(next: Next) -> Actor {
    actor(move |_, _, _| next)
}

pub(super) fn permits(count: u32) -> Permit {
    Permit { instances: count, core_instances: count, memories: count, tables: count, bytes: 0 }
}

pub(super) struct Rig {
    time: VirtualClock,
    pub(super) scheduler: VirtualScheduler<World>,
    pub(super) handle: Handle<World>,
}

impl Rig {
    pub(super) fn new(capacity: u32) -> Self {
        Self::with_workers(1, capacity)
    }

    fn with_workers(workers: usize, capacity: u32) -> Self {
        Self::with(Config { workers, capacity: permits(capacity), ..Config::default() })
    }

    pub(super) fn with(config: Config) -> Self {
        let time = VirtualClock::default();
        let clock = Clock::Virtual(time.clone());
        let config = Config { clock, slice_fuel: 1_000, ..config };
        let scheduler = VirtualScheduler::new(Arc::default(), &config);
        let handle = scheduler.handle();
        Self { time, scheduler, handle }
    }

    pub(super) fn advance(&self) {
        self.time.advance_to(Monotonic(self.handle.monotonic().0 + 1));
    }

    pub(super) fn spawn(&mut self, actor: Actor, permit: Permit) -> Slot {
        self.handle.spawn(actor, permit).unwrap_or_else(|_| panic!("it is open"))
    }

    /// Turns until there is nothing to do.
    pub(super) fn settle(&mut self) {
        while self.scheduler.turn(0) != TurnOutcome::Nothing {}
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

/// Whoever rests gives way to those that compute, and computes as much as it likes are between it
/// and its next step otherwise.
#[test]
fn one_that_comes_back_does_not_wait_for_steps_that_are_long() {
    const BYTES: u64 = 100;
    let one = Permit { bytes: BYTES, ..permits(1) };
    for (room, comes_back) in [(BYTES, true), (BYTES - 1, false)] {
        let (capacity, outside) = (Permit { bytes: 2 * BYTES, ..permits(2) }, Some(Arc::new(Budget::new(room))));
        let mut rig = Rig::with(Config { workers: 1, capacity, outside, ..Config::default() });
        let told = Arc::default();
        let sleeper = rig.spawn(waits(&told), one);
        rig.settle();
        for _ in 0..5 {
            rig.spawn(says(Next::Preempted), one);
        }
        for _ in 0..20 {
            let _ = rig.scheduler.turn(0);
        }
        assert_eq!((rig.scheduler.stats().evictions, told.lock().unwrap().len()), (1, 1));
        assert!(rig.handle.post(sleeper, 0, Wake::Event));
        for _ in 0..6 {
            let _ = rig.scheduler.turn(0);
        }
        assert_eq!(told.lock().unwrap().len() == 2, comes_back, "{room}");
        assert_eq!(rig.scheduler.stats().admitting, if comes_back { 3 } else { 4 });
    }
}

/// Whatever it is interrupted for: nobody else is evicted for it, and it is stepped once, without
/// its permit.
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

/// One that has no permit and goes on as if it had one may have an instance: it is ended, and
/// whoever must know is told.
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

/// Whether the other worker, which sleeps, was woken since this was asked last.
fn wakes_the_other(handle: &Handle<World>) -> bool {
    handle.0.sleep.is_called(1)
}

#[test]
fn a_timer_is_late_by_one_turn_at_most_although_turns_were_short_before() {
    const LONG: u64 = 10_000;
    let mut rig = Rig::new(0);
    let is_long = Arc::new(AtomicBool::new(false));
    for _ in 0..2 {
        let (is_long, time) = (Arc::clone(&is_long), rig.time.clone());
        let step = move |port: &mut dyn Port<World>, _, _: &mut Vec<u64>| {
            if is_long.load(SeqCst) {
                time.advance_to(Monotonic(port.monotonic().0 + LONG));
            }
            Next::Ready
        };
        rig.spawn(actor(step), Permit::NONE);
    }
    let sleeper = rig.spawn(says(Next::Blocked), Permit::NONE);
    for phase in 0..64 {
        is_long.store(false, SeqCst);
        for _ in 0..1_000 + phase {
            let _ = rig.scheduler.turn(0);
        }
        let due = rig.handle.monotonic().0 + 1;
        rig.handle.timer(Monotonic(due), sleeper);
        rig.handle.commit().fired.store(0, SeqCst);
        is_long.store(true, SeqCst);
        while rig.handle.commit().fired.load(SeqCst) == 0 {
            let _ = rig.scheduler.turn(0);
        }
        let late = rig.handle.commit().fired.load(SeqCst) - due;
        assert!(late <= LONG, "late by {late} in phase {phase}");
    }
}

/// What said `ready` while all workers were busy and turns were short is not kept from one that is
/// idle now.
#[test]
fn what_said_ready_is_laid_open_before_a_slice_and_the_idle_are_told() {
    let told: Vec<bool> = (1_000..1_061).filter_map(is_told_of_what_said_ready).collect();
    assert!(!told.is_empty() && told.iter().all(|told| *told), "the other slept while nine were ready: {told:?}");
}

/// After so many short turns. None: the global queue was looked at meanwhile, and all lay open.
fn is_told_of_what_said_ready(turns: u32) -> Option<bool> {
    let mut rig = Rig::with_workers(2, 0);
    let steps = Arc::new(AtomicU64::new(0));
    let told = Arc::new(AtomicBool::new(false));
    let (count, tells, handle) = (Arc::clone(&steps), Arc::clone(&told), rig.handle.clone());
    let mut left = turns;
    rig.spawn(
        actor(move |port, _, _| {
            left -= 1;
            if left > 0 {
                return Next::Ready;
            }
            for _ in 0..10 {
                let (count, tells, handle) = (Arc::clone(&count), Arc::clone(&tells), handle.clone());
                let step = move |_: &mut dyn Port<World>, _, _: &mut Vec<u64>| {
                    // The eleventh step is the first that may be long.
                    if count.fetch_add(1, SeqCst) == 10 {
                        tells.store(wakes_the_other(&handle), SeqCst);
                    }
                    Next::Ready
                };
                assert!(port.spawn(actor(step), Permit::NONE).is_ok());
            }
            Next::Complete
        }),
        Permit::NONE,
    );
    while steps.load(SeqCst) < 10 {
        let _ = rig.scheduler.turn(0);
    }
    if rig.scheduler.turn(1) != TurnOutcome::Nothing || !rig.scheduler.sleep(1) {
        return None;
    }
    let _ = rig.scheduler.turn(0);
    Some(told.load(SeqCst))
}

/// What a worker will take next is left to it for a while, and no longer.
#[test]
fn a_thief_leaves_the_only_job_of_a_deque_for_some_rounds() {
    for jobs in [1, 2] {
        let mut rig = Rig::with_workers(2, 0);
        rig.spawn(
            actor(move |port, _, _| {
                for _ in 0..jobs {
                    assert!(port.spawn(says(Next::Complete), Permit::NONE).is_ok());
                }
                Next::Blocked
            }),
            Permit::NONE,
        );
        let _ = rig.scheduler.turn(0);
        let mut rounds = (0..=PATIENT_ROUNDS).filter(|rounds| {
            rig.scheduler.workers[1].0.has_searched_for(*rounds);
            rig.scheduler.turn(1) != TurnOutcome::Nothing
        });
        assert_eq!(rounds.next(), Some(if jobs == 1 { PATIENT_ROUNDS } else { 0 }));
    }
}

/// A worker does not tell of the one job in its deque, since it takes that next. Where a rule has
/// it take another first, it does.
#[test]
fn a_job_that_another_goes_before_is_told_of() {
    let mut rig = Rig::with_workers(2, 0);
    let (told, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (time, handle, hears, count) = (rig.time.clone(), rig.handle.clone(), Arc::clone(&told), Arc::clone(&steps));
    // Its second step starts one that uses up its slices, so that the global queue is looked at
    // first. Then it wakes itself, for which that look waits three times.
    let sleeper = rig.spawn(
        actor(move |port, turn, _| {
            let steps = count.fetch_add(1, SeqCst);
            if steps > 1 {
                assert!(port.post(turn.slot, 0, Wake::Event));
            }
            if steps == 1 {
                let (time, handle, hears) = (time.clone(), handle.clone(), Arc::clone(&hears));
                let step = move |port: &mut dyn Port<World>, _, _: &mut Vec<u64>| {
                    hears.fetch_or(wakes_the_other(&handle), SeqCst);
                    time.advance_to(Monotonic(port.monotonic().0 + 20));
                    Next::Preempted
                };
                assert!(port.spawn(actor(step), Permit::NONE).is_ok());
            }
            Next::Blocked
        }),
        Permit::NONE,
    );
    let _ = rig.scheduler.turn(0);
    assert!(
        rig.scheduler.turn(1) == TurnOutcome::Nothing && rig.scheduler.sleep(1),
        "there is something for the other"
    );
    // Nobody is woken for timers that are set so.
    let timers = &rig.handle.0.timers;
    let _ = timers.set(Monotonic(0), sleeper);
    let _ = timers.set(Monotonic(50), sleeper);
    while !told.load(SeqCst) {
        let _ = rig.scheduler.turn(0);
        assert!(steps.load(SeqCst) < 6, "it waited for a slice while the other worker slept");
    }
    assert_eq!(steps.load(SeqCst), 5);
}

/// The same for one that said `ready`, and so lies in the global queue, and a timer that goes
/// before it.
#[test]
fn one_that_said_ready_is_told_of_when_a_timer_goes_before_it() {
    let mut rig = Rig::with_workers(2, 0);
    let (told, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (time, handle, hears, count) = (rig.time.clone(), rig.handle.clone(), Arc::clone(&told), Arc::clone(&steps));
    let sleeper = rig.spawn(
        actor(move |port, _, _| {
            match count.fetch_add(1, SeqCst) {
                1 => {
                    let time = time.clone();
                    let step = move |port: &mut dyn Port<World>, _, _: &mut Vec<u64>| {
                        time.advance_to(Monotonic(port.monotonic().0 + 20));
                        Next::Ready
                    };
                    assert!(port.spawn(actor(step), Permit::NONE).is_ok());
                }
                2 => hears.store(wakes_the_other(&handle), SeqCst),
                _ => {}
            }
            Next::Blocked
        }),
        Permit::NONE,
    );
    let _ = rig.scheduler.turn(0);
    assert!(
        rig.scheduler.turn(1) == TurnOutcome::Nothing && rig.scheduler.sleep(1),
        "there is something for the other"
    );
    // Nobody is woken for timers that are set so.
    let timers = &rig.handle.0.timers;
    let _ = timers.set(Monotonic(0), sleeper);
    let _ = timers.set(Monotonic(20), sleeper);
    while steps.load(SeqCst) < 3 {
        let _ = rig.scheduler.turn(0);
    }
    assert!(told.load(SeqCst), "it waited for a slice while the other worker slept");
}

#[test]
fn turns_that_use_a_slice_together_have_the_global_queue_looked_at() {
    let mut rig = Rig::new(0);
    let steps = Arc::new(AtomicU64::new(0));
    // Two that wake each other, and use most of a slice each time.
    let players: Arc<Mutex<Vec<Slot>>> = Arc::default();
    for me in 0..2 {
        let (all, steps) = (Arc::clone(&players), Arc::clone(&steps));
        let step = move |port: &mut dyn Port<World>, _, _: &mut Vec<u64>| {
            steps.fetch_add(1, SeqCst);
            port.used(900);
            let other = all.lock().unwrap().get(1 - me).copied();
            if let Some(other) = other {
                port.post(other, 0, Wake::Event);
            }
            Next::Blocked
        };
        let slot = rig.spawn(actor(step), Permit::NONE);
        players.lock().unwrap().push(slot);
    }
    for _ in 0..100 {
        let _ = rig.scheduler.turn(0);
    }
    let seen = Arc::new(AtomicU64::new(0));
    let (sees, now) = (Arc::clone(&seen), Arc::clone(&steps));
    let before = steps.load(SeqCst);
    rig.spawn(
        actor(move |_, _, _| {
            sees.store(now.load(SeqCst), SeqCst);
            Next::Complete
        }),
        Permit::NONE,
    );
    while seen.load(SeqCst) == 0 {
        let _ = rig.scheduler.turn(0);
    }
    let waited = seen.load(SeqCst) - before;
    assert!(waited <= 4, "it waited for {waited} turns of most of a slice");
}

#[test]
fn one_that_was_stepped_before_takes_no_permit_until_it_hears_something() {
    for (next, permit) in
        [Next::Blocked, Next::Idle].into_iter().flat_map(|next| [(next, permits(1)), (next, Permit::NONE)])
    {
        let (mut rig, told) = (Rig::new(1), Told::default());
        rig.spawn(says(Next::Blocked), permits(1));
        rig.settle();
        let slot = rig.handle.take_up(waits(&told), permit, next).unwrap_or_else(|_| panic!("it is open"));
        rig.settle();
        assert_eq!((told.lock().unwrap().len(), rig.scheduler.stats().evictions), (0, 0), "{next:?}");
        rig.handle.post(slot, 1, Wake::Message);
        rig.settle();
        assert_eq!(told.lock().unwrap().len(), usize::from(next == Next::Idle));
        rig.handle.post(slot, 2, Wake::Event);
        rig.settle();
        let count = if next == Next::Idle { 2 } else { 1 };
        assert_eq!(*told.lock().unwrap(), vec![(Permitted::Yes, None); count]);
        assert_eq!(rig.scheduler.stats().evictions, u64::from(!permit.is_none()));
    }
}

#[test]
fn one_that_was_stepped_before_waits_for_its_permit_as_one_that_was_evicted() {
    let (mut rig, told) = (Rig::new(1), Told::default());
    rig.spawn(Actor { gives_way: false, ..says(Next::Blocked) }, permits(1));
    rig.settle();
    let slot = rig.handle.take_up(waits(&told), permits(1), Next::Ready).unwrap_or_else(|_| panic!("it is open"));
    // Asked to end, a newcomer would not wait any longer.
    rig.handle.interrupt(slot, Interrupt::Cancel);
    rig.settle();
    assert_eq!((told.lock().unwrap().len(), rig.scheduler.stats().admitting), (0, 1));
    rig.handle.interrupt(slot, Interrupt::End);
    rig.settle();
    assert_eq!(*told.lock().unwrap(), [(Permitted::NotNow, Some(Interrupt::End))]);
    assert_eq!(rig.scheduler.stats().completed, 1);
}

/// Stopped without a shutdown, nobody has been asked to end: a step that begins at that moment is
/// refused nothing.
#[test]
fn the_last_turn_of_a_worker_that_leaves_can_start_a_process() {
    for phase in [shared::Phase::Stopped, shared::Phase::Closing] {
        let mut rig = Rig::new(1);
        let accepted = Arc::new(AtomicBool::new(false));
        let says_so = Arc::clone(&accepted);
        rig.spawn(
            actor(move |port, _, _| {
                says_so.store(port.spawn(says(Next::Complete), Permit::NONE).is_ok(), SeqCst);
                Next::Complete
            }),
            Permit::NONE,
        );
        rig.scheduler.shared.advance(phase);
        let _ = rig.scheduler.turn(0);
        assert_eq!(accepted.load(SeqCst), phase == shared::Phase::Stopped);
    }
}
