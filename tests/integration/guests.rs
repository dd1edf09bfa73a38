//! Guests alone: stepped by the test, with no scheduler and no run.

use crate::support::{ENGINE, End, Stepper, built, engine, init, message};
use crate::wat_guest;
use std::sync::Arc;
use wfhost::guest::{Component, EngineOptions, GuestEngine, LoadError, Misfit, Profile};
use wfhost::process::{
    Action, Allocation, Death, Event, Limits, Output, Payload, Program, Progress, Status, Tag, Timestamp,
};

fn load(bytes: &[u8]) -> Component {
    Component::load(&ENGINE, bytes).expect("a component that fits")
}

fn misfits(bytes: &[u8]) -> Vec<String> {
    match Component::load(&ENGINE, bytes) {
        Err(LoadError::Misfit(misfits)) => misfits.iter().map(Misfit::to_string).collect(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it fits"),
    }
}

/// A guest whose `step` has this text.
fn guest(rest: &str) -> Component {
    load(&wat_guest::component("process", &wat_guest::module(rest)))
}

fn with_limits(change: impl FnOnce(&mut Limits)) -> wfhost::process::ProcessInit {
    let mut init = init("run", "null");
    change(Arc::make_mut(&mut init.limits));
    init
}

#[test]
fn hello_completes_in_its_first_step() {
    let mut hello = Stepper::new(&built("hello"), init("run", r#"{"name":"Ada"}"#));
    let status = hello.step(vec![]).status();
    assert_eq!(status, Status::Complete(Payload::json(&serde_json::json!({"greeting": "Hello, Ada!"}))));
    assert!(hello.output.fuel > 0);
    hello.body.close();
}

#[test]
fn a_counter_receives_messages_step_by_step() {
    let mut counter = Stepper::new(&built("counter"), init("run", "{}"));
    for n in 0..10_u8 {
        assert_eq!(counter.step(vec![message("x", &[n])]).status(), Status::Idle);
        assert_eq!(counter.output.commands.len(), 1);
        assert_eq!(counter.output.commands[0].tag.0, u64::from(n) + 1);
    }
    assert!(matches!(counter.step(vec![message("end", b"")]).status(), Status::Complete(_)));
}

#[test]
fn commands_and_answers_pass_the_contract_unchanged() {
    let mut caller = Stepper::new(&load(&wat_guest::caller()), init("run", "null"));
    for tag in 1..4 {
        let events =
            if tag == 1 { vec![] } else { vec![Event::Completed { tag: Tag(tag - 1), answer: Ok(Payload::NULL) }] };
        assert_eq!(caller.step(events).status(), Status::Blocked);
        let [command] = &caller.output.commands[..] else { panic!("{:?}", caller.output) };
        assert_eq!(command.tag, Tag(tag));
        let Action::Call(call) = &command.action else { panic!("{command:?}") };
        assert_eq!((&*call.handler, &call.args), ("log", &Payload::json(&serde_json::json!({"text": "hello"}))));
        assert_eq!((call.timeout, &call.idempotency_key), (None, &None));
    }
}

#[test]
fn fuel_is_the_same_whatever_the_slice() {
    let run = |slice_fuel| {
        let engine = engine(EngineOptions { slice_fuel, ..EngineOptions::default() });
        let component = Component::load(&engine, &std::fs::read("guests/built/counter.wasm").unwrap()).unwrap();
        let mut counter = Stepper::new(&component, init("run", "{}"));
        let mut preempted = 0;
        let fuel: Vec<_> = (0..20_u8)
            .map(|n| {
                counter.step(vec![message("x", &[n])]).status();
                preempted += counter.preempted;
                (counter.output.fuel, counter.output.commands.clone())
            })
            .collect();
        (fuel, preempted)
    };
    let (whole, preempted) = run(1_000_000_000);
    assert_eq!(preempted, 0);
    let (sliced, preempted) = run(1_000);
    assert!(preempted > 100, "{preempted}");
    assert_eq!(whole, sliced);
}

#[test]
fn an_endless_loop_uses_up_slices_and_then_its_fuel() {
    let mut init = init("endless-loop", "null");
    Arc::make_mut(&mut init.limits).fuel_per_step = 10_000_000;
    let mut hog = Stepper::new(&built("hostile"), init);
    let problem = hog.step(vec![]).problem();
    assert_eq!(problem.kind, "fuel-exhausted");
    assert!(hog.preempted >= 9, "{}", hog.preempted);
    assert!(hog.output.fuel >= 10_000_000);
}

#[test]
fn the_fuel_of_all_steps_is_bounded_too() {
    let mut init = init("run", "{}");
    let limits = Arc::make_mut(&mut init.limits);
    limits.fuel_total = 2_000_000;
    let mut counter = Stepper::new(&built("counter"), init);
    let mut used = 0;
    let problem = loop {
        match counter.step(vec![message("x", b"y")]) {
            End::Stepped(_) => used += counter.output.fuel,
            died @ End::Died(_) => break died.problem(),
        }
        assert!(used <= 2_000_000);
    };
    assert_eq!(problem.kind, "fuel-exhausted");
    assert!(used > 0);
}

#[test]
fn a_step_that_is_dropped_half_way_frees_its_slot() {
    let engine = engine(EngineOptions { slots: Some(1), ..EngineOptions::default() });
    let component = Component::load(&engine, &std::fs::read("guests/built/hostile.wasm").unwrap()).unwrap();
    for _ in 0..3 {
        let mut hog = component.body(init("endless-loop", "null")).unwrap();
        hog.begin(Timestamp(1), &mut vec![]);
        assert_eq!(hog.poll(&mut Output::default()), Progress::Preempted);
        assert_eq!(hog.poll(&mut Output::default()), Progress::Preempted);
    }
}

#[test]
fn a_full_pool_is_a_retryable_fault_of_the_host() {
    let engine = engine(EngineOptions { slots: Some(1), ..EngineOptions::default() });
    let component = Component::load(&engine, &wat_guest::caller()).unwrap();
    let mut first = Stepper::new(&component, init("run", "null"));
    first.step(vec![]).status();
    let mut second = Stepper::new(&component, init("run", "null"));
    let End::Died(Death::Host(problem)) = second.step(vec![]) else { panic!("it had a slot") };
    assert_eq!(problem.kind, "no-capacity");
    drop(first);
    Stepper::new(&component, init("run", "null")).step(vec![]).status();
}

/// Every entry of the hostile guest that dies by itself, with the kind of its problem.
#[test]
fn hostile_guests_die_of_their_own_problems() {
    let hostile = built("hostile");
    for (entry, kind) in [
        ("endless-loop", "fuel-exhausted"),
        ("memory-bomb", "memory-exhausted"),
        ("command-flood", "too-many-commands"),
        ("giant-payload", "too-large"),
        ("giant-command", "too-large"),
        ("deep-recursion", "stack-exhausted"),
        ("trap-init", "trap"),
        ("trap-step", "trap"),
        ("unreachable", "trap"),
        ("huge-tag", "bad-number"),
        ("bad-json", "bad-json"),
        ("bad-args", "bad-json"),
        ("log-flood", "fuel-exhausted"),
        ("giant-log", "too-large"),
        ("random-flood", "fuel-exhausted"),
    ] {
        for allocation in [Allocation::Pool, Allocation::OnDemand] {
            let mut init = init(entry, "null");
            Arc::make_mut(&mut init.limits).fuel_per_step = 300_000_000;
            let mut guest = Stepper::new(&hostile, init);
            guest.body.allocate(allocation);
            match guest.step(vec![]) {
                End::Died(Death::Guest(problem)) => {
                    assert_eq!(problem.kind, kind, "{entry}, {allocation:?}: {problem}");
                }
                other => panic!("{entry}, {allocation:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_guest_outside_the_pool_takes_no_slot_and_does_the_same() {
    for profile in [Profile::Fast, Profile::Dense] {
        both_homes(&engine(EngineOptions { slots: Some(1), profile, ..EngineOptions::default() }));
    }
}

fn both_homes(engine: &Arc<GuestEngine>) {
    let component = Component::load(engine, &std::fs::read("guests/built/counter.wasm").unwrap()).unwrap();
    let mut pooled = Stepper::new(&component, init("run", "{}"));
    let mut outside = Stepper::new(&component, init("run", "{}"));
    outside.body.allocate(Allocation::OnDemand);
    for n in 0..20_u8 {
        let status = pooled.step(vec![message("x", &[n])]).status();
        assert_eq!(outside.step(vec![message("x", &[n])]).status(), status);
        assert_eq!(outside.output.commands, pooled.output.commands);
        assert_eq!(outside.output.fuel, pooled.output.fuel);
        // They swap now and then.
        if n % 5 == 4 {
            assert!(pooled.body.evict().is_done() && outside.body.evict().is_done());
            std::mem::swap(&mut pooled, &mut outside);
            pooled.body.allocate(Allocation::Pool);
            outside.body.allocate(Allocation::OnDemand);
        }
    }
    let end = || vec![message("end", b"")];
    assert_eq!(outside.step(end()).status(), pooled.step(end()).status());
}

#[test]
fn a_trap_names_the_functions_that_it_happened_in() {
    let problem = Stepper::new(&built("hostile"), init("trap-step", "null")).step(vec![]).problem();
    let detail = problem.detail.unwrap();
    let words = "panicked at examples/hostile/src/lib.rs:143:5: trap-step panics in its step (wasm trap: ";
    assert!(detail.starts_with(words), "{detail}");
    assert!(detail.contains("wasm `unreachable` instruction executed, in "), "{detail}");
    assert!(detail.contains("wfhost:process/guest@0.1.0#step"), "{detail}");
    assert!(!detail.contains("17h"), "mangled: {detail}");
}

#[test]
fn a_flood_of_log_lines_is_cut_and_counted() {
    let mut init = init("log-flood", "null");
    Arc::make_mut(&mut init.limits).fuel_per_step = 50_000_000;
    let mut flood = Stepper::new(&built("hostile"), init);
    assert_eq!(flood.step(vec![]).problem().kind, "fuel-exhausted");
    let bytes: usize = flood.output.log.iter().map(|line| line.text.len()).sum();
    assert!(!flood.output.log.is_empty() && bytes <= 64 << 10);
    assert!(flood.output.log_dropped > 1_000);
    // What the host does ends slices too, although the guest itself does little.
    assert!(flood.preempted > 10, "{}", flood.preempted);
}

#[test]
fn what_close_does_harms_nobody() {
    for entry in ["trap-close", "slow-close"] {
        let mut guest = Stepper::new(&built("hostile"), init(entry, "null"));
        assert_eq!(guest.step(vec![]).status(), Status::Complete(Payload::NULL));
        guest.body.close();
        assert!(!guest.body.evict().is_done());
    }
}

#[test]
fn an_unknown_entry_is_the_guests_own_problem() {
    let Status::Failed(problem) = Stepper::new(&built("hello"), init("nonsense", "null")).step(vec![]).status() else {
        panic!("it knows the entry");
    };
    assert_eq!(problem.kind, "unknown-entry");
}

#[test]
fn memory_beyond_the_limit_is_refused_to_the_guest_and_not_fatal() {
    // Asks for 64 pages, and completes with what `memory.grow` said.
    let grows = guest(
        r#"
        (data (i32.const 128) "\"refused\"")
        (data (i32.const 160) "\"granted\"")
        (func $step (param i32 i32) (result i32)
            (i32.store8 (i32.const 1024) (i32.const 3))
            (i32.store (i32.const 1040)
                (select (i32.const 128) (i32.const 160) (i32.eq (memory.grow (i32.const 64)) (i32.const -1))))
            (i32.store (i32.const 1044) (i32.const 9))
            (i32.const 1024))
        "#,
    );
    let answer = |memory_bytes| {
        let init = with_limits(|limits| limits.memory_bytes = memory_bytes);
        Stepper::new(&grows, init).step(vec![]).status()
    };
    let text = |text: &str| Status::Complete(Payload::json(&text));
    assert_eq!(answer(66 << 16), text("granted"));
    assert_eq!(answer((66 << 16) - 1), text("refused"));
}

#[test]
fn a_component_with_more_initial_memory_than_allowed_gets_a_clear_problem() {
    let init = with_limits(|limits| limits.memory_bytes = 1 << 16);
    let problem = Stepper::new(&load(&wat_guest::caller()), init).step(vec![]).problem();
    assert_eq!(problem.kind, "memory-exhausted");
    assert!(problem.detail.unwrap().contains("during instantiation"));
}

#[test]
fn an_endless_start_function_is_preempted_and_dies() {
    let endless = guest("(start $s) (func $s (loop (br 0))) (func $step (param i32 i32) (result i32) (unreachable))");
    let mut guest = Stepper::new(&endless, init("run", "null"));
    let problem = guest.step(vec![]).problem();
    assert_eq!(problem.kind, "fuel-exhausted");
    assert!(problem.detail.unwrap().contains("during instantiation"));
    assert!(guest.preempted > 10);
    assert_eq!(guest.output.fuel, 0, "instantiation is charged to no process");
}

#[test]
fn both_profiles_give_the_same_steps_and_fuel() {
    let run = |profile| {
        let engine = engine(EngineOptions { profile, ..EngineOptions::default() });
        let component = Component::load(&engine, &std::fs::read("guests/built/counter.wasm").unwrap()).unwrap();
        let mut counter = Stepper::new(&component, init("run", "{}"));
        let step = |n: u8| {
            counter.step(vec![message("x", &[n])]).status();
            (counter.output.fuel, counter.output.commands.clone())
        };
        (0..50).map(step).collect::<Vec<_>>()
    };
    assert_eq!(run(Profile::Fast), run(Profile::Dense));
}

#[test]
fn what_does_not_fit_is_named() {
    let wit = "package acme:other; world other { export f: func(); }";
    let other = wat_guest::component_of(wit, "other", r#"(module (func (export "f")))"#);
    assert_eq!(misfits(&other), ["it does not export wfhost:process/guest@0.1.0"]);

    // The right name, and two faults below it.
    let wit = "package wfhost:process@0.1.0;
        interface guest { init: func(entry: string); close: func(); }
        world process { export guest; }";
    let core = r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 8))
        (func (export "wfhost:process/guest@0.1.0#init") (param i32 i32))
        (func (export "wfhost:process/guest@0.1.0#close")))"#;
    let found = misfits(&wat_guest::component_of(wit, "process", core));
    assert_eq!(found.len(), 2, "{found:?}");
    let (expected, own) =
        ("init: func(entry: string, input: payload) -> result<_, problem>", "init: func(entry: string)");
    let start = format!("wfhost:process/guest@0.1.0 must have `{expected}`, not `{own}` (");
    assert!(found[0].starts_with(&start), "{found:?}");
    assert_eq!(found[1], "wfhost:process/guest@0.1.0 lacks the function step");
}

#[test]
fn an_import_that_is_not_offered_is_named_with_its_version() {
    let wit = "package acme:phones@1.2.3;
        interface telephone { ring: func(); }
        world phone { import telephone; export f: func(); }";
    let core = r#"(module (import "acme:phones/telephone@1.2.3" "ring" (func)) (func (export "f") (call 0)))"#;
    let found = misfits(&wat_guest::component_of(wit, "phone", core));
    let missing = "it does not export wfhost:process/guest@0.1.0";
    assert_eq!(found, ["it imports acme:phones/telephone@1.2.3, which is not offered", missing]);
}

#[test]
fn what_is_no_component_is_refused_without_a_panic() {
    assert!(matches!(Component::load(&ENGINE, b""), Err(LoadError::Malformed(_))));
    assert!(matches!(Component::load(&ENGINE, b"\0asm\x01\0\0\0"), Err(LoadError::CoreModule)));
    let good = wat_guest::caller();
    let fits = (1..good.len()).filter(|cut| Component::load(&ENGINE, &good[..*cut]).is_ok()).count();
    assert!(fits <= 2, "only custom sections at the end can be missed: {fits}");
    let big = vec![0; (64 << 20) + 1];
    assert!(matches!(Component::load(&ENGINE, &big), Err(LoadError::TooLarge { .. })));
}

#[test]
fn a_component_describes_itself_once_or_not_at_all() {
    assert_eq!(built("hello").describe().unwrap(), None);
    let stats = built("stats").describe().unwrap().unwrap().to_value();
    let entries: Vec<_> = stats["entries"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(entries, ["map", "reduce", "run", "split"]);
    assert_eq!(
        stats["entries"]["split"]["description"],
        "Cuts a text into parts of whole records, each with the header."
    );
    assert_eq!(stats["entries"]["split"]["input"]["required"], serde_json::json!(["csv"]));
    assert!(stats["description"].as_str().is_some_and(|text| text.starts_with("Statistics over CSV text")));
    let describe = |rest: &str| {
        let core = wat_guest::module(&format!(
            r#"{rest} (data (i32.const 128) "{{\"entries\":[]}}")
            (func (export "wfhost:process/describe@0.1.0#describe") (result i32) (call $describe)
                (i32.store (i32.const 256) (i32.const 128)) (i32.store (i32.const 260) (i32.const 14)) (i32.const 256))
            (func $step (param i32 i32) (result i32) (unreachable))"#
        ));
        let wit = std::fs::read_to_string("wit/process.wit").unwrap();
        let wit = format!("{wit}\nworld described {{ include process; export describe; }}");
        load(&wat_guest::component_of(&wit, "described", &core)).describe()
    };
    let text = describe("(func $describe)").unwrap().unwrap();
    assert_eq!(text.as_str(), r#"{"entries":[]}"#);
    assert_eq!(describe("(func $describe (loop (br 0)))").unwrap_err().kind, "fuel-exhausted");
    assert_eq!(describe("(func $describe (unreachable))").unwrap_err().kind, "trap");
}

#[test]
fn a_permit_counts_what_an_instance_takes() {
    let permit = load(&wat_guest::caller()).permit();
    assert_eq!((permit.instances, permit.memories, permit.tables), (1, 1, 0));
    assert!(permit.core_instances >= 1);
}
