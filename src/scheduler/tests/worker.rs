//! The order in which a worker runs processes, and the wakes that it sends.

use super::super::worker::PATIENT_ROUNDS;
use super::*;

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
