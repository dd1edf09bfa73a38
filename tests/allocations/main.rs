//! A steady exchange of events allocates nothing in the scheduler, bytes that claim to be records
//! are not believed, and a run counts what is held for it. This is a binary of its own because it
//! counts every allocation of the process.

#[path = "../bench/effects.rs"]
mod effects;
mod held;
mod records;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use wfhost::process::Permit;
use wfhost::scheduler::{Commit, Config, Next, Port, Slot, Turn, TurnOutcome, VirtualScheduler, Wake};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct Exchange;

enum Player {
    /// Sends a batch to its partner, and receives as many answers.
    Caller {
        partner: Slot,
        batch: u64,
        heard: u64,
    },
    /// Answers each event.
    Answerer {
        partner: Option<Slot>,
    },
    /// Is replaced by a new one in each step.
    Spawner,
    Ephemeral,
}

impl Commit for Exchange {
    type Event = u64;
    type Process = Player;
    type Timer = ();

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, player: &mut Player, events: &mut Vec<u64>) -> Next {
        match player {
            Player::Caller { partner, batch, heard } => {
                *heard += events.len() as u64;
                if *heard == *batch {
                    *heard = 0;
                    for number in 0..*batch {
                        port.post(*partner, number, Wake::Message);
                    }
                }
                Next::Idle
            }
            Player::Answerer { partner: Some(partner) } => {
                for event in events.drain(..) {
                    port.post(*partner, event, Wake::Message);
                }
                Next::Idle
            }
            Player::Answerer { partner } => {
                let slot = events.pop().map(|packed| Slot { index: packed as u32, generation: (packed >> 32) as u32 });
                *partner = slot;
                if let Some(slot) = slot {
                    // The caller believes that it has received everything.
                    port.post(slot, 0, Wake::Message);
                }
                Next::Idle
            }
            Player::Spawner => {
                assert!(port.spawn(Player::Ephemeral, Permit::NONE).is_ok());
                Next::Ready
            }
            Player::Ephemeral => {
                port.post(turn.slot, 0, Wake::Event);
                Next::Complete
            }
        }
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, _: Slot, _: &mut Player, message: &str) {
        panic!("{message}");
    }

    fn fired<P: Port<Self>>(&self, _: &mut P, _: &mut Vec<()>) {}
}

fn pair(scheduler: &VirtualScheduler<Exchange>, batch: u64) {
    let mut handle = scheduler.handle();
    let partner = handle.spawn(Player::Answerer { partner: None }, Permit::NONE).ok().expect("open");
    // The first batch has one answer too few: the event that starts the exchange.
    let caller = Player::Caller { partner, batch, heard: batch - 1 };
    let caller = handle.spawn(caller, Permit::NONE).ok().expect("open");
    handle.post(partner, u64::from(caller.generation) << 32 | u64::from(caller.index), Wake::Message);
}

/// Steps and allocations in this many turns of each worker, after as many turns to warm up.
fn steady(scheduler: &mut VirtualScheduler<Exchange>, turns: usize) -> (u64, usize) {
    let mut run = || {
        for _ in 0..turns {
            for worker in 0..scheduler.workers() {
                let _: TurnOutcome = scheduler.turn(worker);
            }
        }
    };
    run();
    let region = Region::new(ALLOCATOR);
    run();
    let allocations = region.change().allocations + region.change().reallocations;
    (scheduler.stats().steps / 2, allocations)
}

// A single test, since another thread's allocations would be counted, too.
#[test]
fn allocations_are_bounded() {
    nothing_is_allocated_for_events_steps_and_places();
    records::a_record_gets_what_its_bytes_are_worth();
    held::what_is_counted_is_what_is_held();
}

fn nothing_is_allocated_for_events_steps_and_places() {
    for workers in [1, 2] {
        let config = Config { workers, ..Config::default() };
        let mut scheduler = VirtualScheduler::new(Arc::new(Exchange), &config);
        pair(&scheduler, 1);
        pair(&scheduler, 32);
        pair(&scheduler, 500);
        scheduler.handle().spawn(Player::Spawner, Permit::NONE).ok().expect("open");
        let (steps, allocations) = steady(&mut scheduler, 20_000);
        assert!(steps > 10_000, "{steps} steps only");
        assert_eq!(allocations, 0, "in {steps} steps of {workers} workers");
    }
}
