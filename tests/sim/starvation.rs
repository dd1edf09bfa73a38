//! No ready process starves, whatever else runs: pairs that wake each other for ever, processes
//! that are always ready, and hogs that use up every slice.

use std::sync::{Arc, Mutex};
use wfhost::process::Permit;
use wfhost::scheduler::{Commit, Config, Next, Port, Slot, Turn, TurnOutcome, VirtualScheduler, Wake};
use wfhost::sim::Dice;

/// Notes since when each process is ready, in turns of all workers, and how long one of each kind
/// has waited at most.
#[derive(Default)]
struct Clock {
    now: u64,
    ready: Vec<Option<u64>>,
    kinds: Vec<Kind>,
    longest: [u64; 4],
}

#[derive(Default)]
struct Crowd {
    clock: Mutex<Clock>,
}

#[derive(Clone, Copy)]
enum Kind {
    Player,
    Yielder,
    Hog,
    /// Hears something from outside now and then.
    Listener,
}

struct Member {
    number: usize,
    kind: Kind,
}

impl Clock {
    fn becomes_ready(&mut self, number: usize) {
        let now = self.now;
        self.ready[number].get_or_insert(now);
    }
}

impl Commit for Crowd {
    /// Whom to answer: number and slot.
    type Event = Option<(usize, Slot)>;
    type Process = Member;
    type Timer = ();

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, me: &mut Member, events: &mut Vec<Self::Event>) -> Next {
        let mut clock = self.clock.lock().unwrap();
        let since = clock.ready[me.number].take().expect("it is ready");
        let longest = clock.now - since;
        let longest_of_kind = &mut clock.longest[me.kind as usize];
        *longest_of_kind = longest.max(*longest_of_kind);
        for (number, partner) in events.drain(..).flatten() {
            port.post(partner, Some((me.number, turn.slot)), Wake::Message);
            clock.becomes_ready(number);
        }
        let next = match me.kind {
            Kind::Player | Kind::Listener => Next::Idle,
            Kind::Yielder => Next::Ready,
            Kind::Hog => Next::Preempted,
        };
        if next != Next::Idle {
            clock.becomes_ready(me.number);
        }
        next
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, _: Slot, _: &mut Member, message: &str) {
        panic!("{message}");
    }

    fn fired<P: Port<Self>>(&self, _: &mut P, _: &mut Vec<()>) {}
}

/// How long one of each kind has waited at most.
fn longest_waits(seed: u64, turns: u64) -> [u64; 4] {
    let mut dice = Dice::new(seed);
    let crowd = Arc::new(Crowd::default());
    let workers = 1 + dice.below(3) as usize;
    let config = Config { workers, seed, ..Config::default() };
    let mut scheduler = VirtualScheduler::new(Arc::clone(&crowd), &config);
    let mut handle = scheduler.handle();
    let mut spawn = |kind| {
        let number = {
            let mut clock = crowd.clock.lock().unwrap();
            clock.ready.push(Some(0));
            clock.kinds.push(kind);
            clock.ready.len() - 1
        };
        let slot = handle.spawn(Member { number, kind }, Permit::NONE).unwrap_or_else(|_| panic!("it is open"));
        (number, slot)
    };
    // At least as many pairs as workers: without the rules they are all that runs.
    let players: Vec<_> = (0..2 * (workers as u64 + dice.below(4))).map(|_| spawn(Kind::Player)).collect();
    let listeners: Vec<_> = (0..=dice.below(4)).map(|_| spawn(Kind::Listener)).collect();
    for _ in 0..=dice.below(4) {
        spawn(Kind::Yielder);
        spawn(Kind::Hog);
    }
    let post = |to: (usize, Slot), answer| {
        scheduler.handle().post(to.1, answer, Wake::Message);
        crowd.clock.lock().unwrap().becomes_ready(to.0);
    };
    for pair in players.chunks(2) {
        post(pair[0], Some(pair[1]));
    }
    for _ in 0..turns {
        if dice.chance(5) {
            let listener = *dice.pick(&listeners).expect("there is one");
            scheduler.handle().post(listener.1, None, Wake::Message);
            crowd.clock.lock().unwrap().becomes_ready(listener.0);
        }
        crowd.clock.lock().unwrap().now += 1;
        let _: TurnOutcome = scheduler.turn(dice.below(workers as u64) as usize);
    }
    // Those that wait still count, too.
    let clock = crowd.clock.lock().unwrap();
    let mut longest = clock.longest;
    for (since, kind) in clock.ready.iter().zip(&clock.kinds) {
        let waits = since.map_or(0, |since| clock.now - since);
        longest[*kind as usize] = longest[*kind as usize].max(waits);
    }
    longest
}

#[test]
fn whoever_is_ready_runs_within_a_bounded_number_of_turns() {
    let mut longest = [0; 4];
    for seed in 0..60 {
        let waits = longest_waits(seed, 20_000);
        for (longest, wait) in longest.iter_mut().zip(waits) {
            *longest = wait.max(*longest);
        }
    }
    println!("players, yielders, hogs, listeners waited at most {longest:?} turns of all workers");
    // Three workers look at the global queue every 61 turns each, and at most some dozen processes
    // are in line: without the rules some process waits all the 20,000 turns.
    assert!(longest.iter().all(|wait| *wait < 3_000), "{longest:?}");
}
