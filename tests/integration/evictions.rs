//! Guests that are evicted from the pool between steps continue as if nothing had happened.

use crate::support::{ENGINE, Stepper, built, engine, init, message};
use crate::wat_guest;
use wfhost::guest::{Component, EngineOptions};
use wfhost::process::{Allocation, Event, Payload, Program, Random, Status, Tag};

/// A stream of test data from a seed.
fn random(seed: u8) -> impl FnMut(usize) -> Vec<u8> {
    let mut random = Random::new(&[seed; 32], wfhost::process::Pid(1));
    move |length| {
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        bytes
    }
}

/// Steps two guests with the same events, and evicts one of them now and then: outputs and fuel
/// stay equal.
fn lockstep(component: &Component, seed: u8, steps: u32) {
    let mut whole = Stepper::new(component, init("run", "{}"));
    let mut evicted = Stepper::new(component, init("run", "{}"));
    let mut bytes = random(seed);
    let mut evictions = 0;
    for step in 0..steps {
        let choice = bytes(2);
        let text = bytes(usize::from(choice[0] % 64) + 1);
        let status = whole.step(vec![message("x", &text)]).status();
        assert_eq!(evicted.step(vec![message("x", &text)]).status(), status, "seed {seed}, step {step}");
        assert_eq!(evicted.output.commands, whole.output.commands, "seed {seed}, step {step}");
        assert_eq!(evicted.output.fuel, whole.output.fuel, "seed {seed}, step {step}");
        if choice[1] < 24 {
            assert!(evicted.body.evict().is_done(), "seed {seed}, step {step}");
            evictions += 1;
        }
    }
    assert!(evictions > steps / 20, "{evictions}");
    let end = || vec![message("end", b"")];
    assert_eq!(evicted.step(end()).status(), whole.step(end()).status(), "the digest of all events");
}

#[test]
fn a_rust_guest_is_the_same_after_evictions_in_a_thousand_steps() {
    lockstep(&built("counter"), 1, 1_000);
}

#[test]
fn a_c_guest_is_the_same_after_evictions_in_a_thousand_steps() {
    lockstep(&built("counter-c"), 2, 1_000);
}

#[test]
fn evicted_guests_take_no_slot() {
    let engine = engine(EngineOptions { slots: Some(1), ..EngineOptions::default() });
    let component = Component::load(&engine, &wat_guest::caller()).unwrap();
    let mut guests: Vec<_> = (0..20).map(|_| Stepper::new(&component, init("run", "null"))).collect();
    for tag in 1..4 {
        for guest in &mut guests {
            let answer = Event::Completed { tag: Tag(tag - 1), answer: Ok(Payload::NULL) };
            let events = if tag == 1 { vec![] } else { vec![answer] };
            assert_eq!(guest.step(events).status(), Status::Blocked);
            assert_eq!(guest.output.commands[0].tag, Tag(tag));
            assert!(guest.body.evict().is_done());
        }
    }
}

#[test]
fn the_random_stream_and_the_tags_continue_where_they_were() {
    // Logs the next eight random bytes and the first unused tag in each step, and uses three tags.
    let core = wat_guest::module(
        r#"
        (import "wfhost:process/host@0.1.0" "random" (func $random (param i32 i32)))
        (import "wfhost:process/host@0.1.0" "whoami" (func $whoami (param i32)))
        (import "wfhost:process/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32 i32)))
        (func $step (param i32 i32) (result i32) (local $i i32)
            (call $random (i32.const 8) (i32.const 16))
            (call $whoami (i32.const 32))
            ;; as text of which every byte is a letter
            (loop $next
                (i32.store8 (i32.add (i32.const 64) (local.get $i))
                    (i32.add (i32.const 65) (i32.and (i32.const 15)
                        (i32.load8_u (i32.add (i32.load (i32.const 16)) (local.get $i))))))
                (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 8))))
            (i32.store8 (i32.const 72) (i32.add (i32.const 65) (i32.load (i32.const 48))))
            (call $log (i32.const 2) (i32.const 64) (i32.const 9) (i32.const 0) (i32.const 0) (i32.const 0))
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.store (i32.const 1104) (i32.const 2048))
            (i32.store (i32.const 1108) (i32.const 1))
            (i64.store (i32.const 2048) (i64.add (i64.load (i32.const 48)) (i64.const 2)))
            (i32.store8 (i32.const 2056) (i32.const 0)) ;; sleep
            (i32.const 1024))
        "#,
    );
    let component = Component::load(&ENGINE, &wat_guest::component("process", &core)).unwrap();
    let run = |evict: bool| {
        let mut guest = Stepper::new(&component, init("run", "null"));
        let mut step = || {
            guest.step(vec![]).status();
            assert!(!evict || guest.body.evict().is_done());
            guest.output.log[0].text.clone()
        };
        (0..5).map(|_| step()).collect::<Vec<_>>()
    };
    let whole = run(false);
    assert_eq!(whole, run(true));
    let tags: String = whole.iter().map(|text| &text[8..]).collect();
    assert_eq!(tags, "BEHKN");
    assert!(whole[0][..8] != whole[1][..8]);
}

#[test]
fn a_guest_with_state_that_does_not_fit_stays_and_says_why() {
    let core = wat_guest::module(
        "(table 1 funcref) (elem declare func $step)
        (func $step (param i32 i32) (result i32)
            (table.set (i32.const 0) (ref.func $step))
            (i32.store8 (i32.const 1024) (i32.const 2)) (i32.const 1024))",
    );
    let component = Component::load(&ENGINE, &wat_guest::component("process", &core)).unwrap();
    let reasons: Vec<_> = component.snapshots().refusals.iter().map(ToString::to_string).collect();
    assert_eq!(reasons, ["the instruction table.set in core module 0"]);
    let mut guest = Stepper::new(&component, init("run", "null"));
    assert_eq!(guest.step(vec![]).status(), Status::Idle);
    assert!(!guest.body.evict().is_done());
    assert_eq!(guest.step(vec![]).status(), Status::Idle);
}

#[test]
fn a_guest_that_asks_the_host_while_it_is_made_stays() {
    let core = wat_guest::module(
        r#"
        (import "wfhost:process/host@0.1.0" "now" (func $now (result i64)))
        (start $s) (func $s (i64.store (i32.const 3000) (call $now)))
        (func $step (param i32 i32) (result i32) (i32.store8 (i32.const 1024) (i32.const 2)) (i32.const 1024))
        "#,
    );
    let Ok(component) = Component::load(&ENGINE, &wat_guest::component("process", &core)) else { panic!("it fits") };
    let mut guest = Stepper::new(&component, init("run", "null"));
    assert_eq!(guest.step(vec![]).status(), Status::Idle);
    assert!(!guest.body.evict().is_done());
}

/// A guest that grows to 24 MiB and writes a number into each page; each step changes all of them
/// and outputs their sum.
fn large() -> Component {
    let core = wat_guest::module(
        r"
        (global $round (mut i32) (i32.const 0))
        (func $step (param i32 i32) (result i32) (local $at i32) (local $sum i32)
            (if (i32.lt_u (memory.size) (i32.const 384)) (then (drop (memory.grow (i32.const 382)))))
            (global.set $round (i32.add (global.get $round) (i32.const 1)))
            (local.set $at (i32.const 131072))
            (loop $next
                (local.set $sum (i32.add (local.get $sum) (i32.load (local.get $at))))
                (i32.store (local.get $at) (i32.mul (global.get $round) (local.get $at)))
                (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4096))) (i32.const 25165824))))
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.store (i32.const 1104) (i32.const 2048))
            (i32.store (i32.const 1108) (i32.const 1))
            (i64.store (i32.const 2048) (i64.extend_i32_u (global.get $round))) ;; tag
            (i32.store8 (i32.const 2056) (i32.const 0)) ;; sleep
            (i64.store (i32.const 2064) (i64.extend_i32_u (local.get $sum)))
            (i32.const 1024))
        ",
    );
    Component::load(&ENGINE, &wat_guest::component("process", &core)).unwrap()
}

/// Slow work is announced as slow, and done where it delays nobody: when the guest is allocated,
/// and when it is dropped.
#[test]
fn a_large_guest_is_restored_before_its_step() {
    let component = large();
    let mut whole = Stepper::new(&component, init("run", "null"));
    let mut evicted = Stepper::new(&component, init("run", "null"));
    assert!(!evicted.body.allocates_slowly(Allocation::Pool));
    for round in 1..5 {
        assert_eq!(whole.step(vec![]).status(), Status::Idle);
        assert_eq!(evicted.step(vec![]).status(), Status::Idle);
        assert_eq!(evicted.output.commands, whole.output.commands, "round {round}");
        assert_eq!(evicted.output.fuel, whole.output.fuel, "round {round}");
        assert!(evicted.body.evicts_slowly() && evicted.body.drops_slowly());
        assert!(evicted.body.evict().is_done());
        assert!(!evicted.body.drops_slowly() && !evicted.body.evicts_slowly());
        assert!(evicted.body.allocates_slowly(Allocation::Pool));
        let allocation = if round % 2 == 0 { Allocation::Pool } else { Allocation::OnDemand };
        evicted.body.allocate(allocation);
        assert!(!evicted.body.allocates_slowly(allocation), "it is restored");
    }
    whole.body.close();
    assert!(whole.body.drops_slowly(), "what is left of it goes with it");
    let small = Stepper::new(&built("counter"), init("run", "{}"));
    assert!(!small.body.drops_slowly());
}

#[test]
fn nothing_is_evicted_in_the_middle_of_a_step_and_what_has_no_instance_gives_way() {
    let mut fresh = built("hostile").body(init("endless-loop", "null")).unwrap();
    assert!(fresh.evict().is_done());
    fresh.begin(wfhost::process::Timestamp(1), &mut vec![]);
    assert_eq!(fresh.poll(&mut wfhost::process::Output::default()), wfhost::process::Progress::Preempted);
    assert!(!fresh.evict().is_done());
}
