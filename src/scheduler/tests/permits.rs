//! Processes that wait for their permits, and are interrupted meanwhile.

use super::*;

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
