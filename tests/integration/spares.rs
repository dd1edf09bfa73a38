//! Instances that serve one guest after another: the next one finds nothing of the last, and those
//! that cannot be reset are not reused.

use crate::support::{Stepper, built_in, engine, init, message};
use crate::wat_guest;
use std::sync::Arc;
use wfhost::guest::{Component, EngineOptions, GuestEngine};
use wfhost::process::{Limits, Payload, Pid, ProcessInit, Program, Status};

/// The length of its name distinguishes an entry: `look` completes with a digest of all that it
/// sees; `stain` writes wherever it can, `expand` also to memory that it grows by, `splash` to one
/// page in eight; `explode` traps in `close`.
const MURAL: &str = r#"(module
    (type $f (func (result i64)))
    (memory (export "memory") 2)
    (table 4 funcref)
    (elem (i32.const 0) $one $two)
    (data (i32.const 300) "a fresh instance has this")
    (data $passive "this is copied")
    (global $heap (mut i32) (i32.const 65536))
    (global $mode (mut i32) (i32.const 0))
    (global $a (mut i64) (i64.const 1))
    (global $b (mut f32) (f32.const 1.5))
    (global $c (mut f64) (f64.const 2.5))
    (global $d (mut v128) (v128.const i64x2 1 2))
    (func $one (result i64) (i64.const 3))
    (func $two (result i64) (i64.const 5))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
        (global.get $heap)
        (global.set $heap (i32.add (global.get $heap) (local.get 3))))
    (func (export "wfhost:process/guest@0.1.0#init") (param i32 i32 i32 i32 i32 i64 i32 i32) (result i32)
        (global.set $mode (local.get 1))
        (i32.const 512))
    (func $mix (param i64)
        (global.set $a (i64.mul (i64.xor (global.get $a) (local.get 0)) (i64.const 0x100000001b3))))
    (func $look (local $at i32) (local $digit i32)
        (call $mix (i64.extend_i32_u (memory.size)))
        (call $mix (i64.extend_i32_u (global.get $heap)))
        (call $mix (i64.extend_i32_u (i32.reinterpret_f32 (global.get $b))))
        (call $mix (i64.reinterpret_f64 (global.get $c)))
        (call $mix (i64x2.extract_lane 0 (global.get $d)))
        (call $mix (i64x2.extract_lane 1 (global.get $d)))
        (call $mix (call_indirect (type $f) (i32.const 0)))
        (call $mix (call_indirect (type $f) (i32.const 1)))
        (call $mix (i64.extend_i32_u (table.size)))
        (call $mix (i64.extend_i32_u (ref.is_null (table.get (i32.const 2)))))
        (loop $next
            (call $mix (i64.load (local.get $at)))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br_if $next (i32.lt_u (local.get $at) (i32.mul (memory.size) (i32.const 65536)))))
        ;; The segment is still there.
        (memory.init $passive (i32.const 700) (i32.const 0) (i32.const 14))
        (call $mix (i64.load (i32.const 700)))
        (i32.store8 (i32.const 128) (i32.const 34))
        (i32.store8 (i32.const 145) (i32.const 34))
        (local.set $at (i32.const 129))
        (loop $digits
            (local.set $digit (i32.and (i32.wrap_i64 (global.get $a)) (i32.const 15)))
            (global.set $a (i64.shr_u (global.get $a) (i64.const 4)))
            (i32.store8 (local.get $at) (i32.add (local.get $digit) (i32.const 97)))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $digits (i32.lt_u (local.get $at) (i32.const 145))))
        (i32.store (i32.const 1044) (i32.const 18)))
    (func $stain
        (memory.fill (i32.const 0) (i32.const 0xa5) (i32.mul (memory.size) (i32.const 65536)))
        (memory.init $passive (i32.const 4000) (i32.const 0) (i32.const 14))
        (global.set $a (i64.const -1))
        (global.set $b (f32.const nan:0x200001))
        (global.set $c (f64.const -0))
        (global.set $d (v128.const i64x2 -1 -1)))
    (func $splash (local $at i32)
        (loop $next
            (i64.store (local.get $at) (i64.const -1))
            (local.set $at (i32.add (local.get $at) (i32.const 32768)))
            (br_if $next (i32.lt_u (local.get $at) (i32.mul (memory.size) (i32.const 65536))))))
    (func (export "wfhost:process/guest@0.1.0#step") (param i32 i32) (result i32)
        (if (i32.eq (global.get $mode) (i32.const 5)) (then (call $stain)))
        (if (i32.eq (global.get $mode) (i32.const 6))
            (then
                (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable)))
                (call $splash)))
        (if (i32.gt_u (local.get 1) (i32.const 1)) (then (call $splash)))
        (i32.store (i32.const 1044) (i32.const 4))
        (i32.store (i32.const 128) (i32.const 0x6c6c756e)) ;; null
        (if (i32.eq (global.get $mode) (i32.const 4))
            (then
                (i32.store (i32.const 128) (i32.const 0))
                (i32.store (i32.const 1044) (i32.const 0))
                (call $look)))
        (i64.store (i32.const 1024) (i64.const 3)) ;; complete
        (i64.store (i32.const 1032) (i64.const 0))
        (i32.store (i32.const 1040) (i32.const 128))
        (i64.store (i32.const 1104) (i64.const 0))
        (i32.const 1024))
    (func (export "wfhost:process/guest@0.1.0#close")
        (if (i32.eq (global.get $mode) (i32.const 7)) (then (unreachable)))
        (global.set $b (f32.const 7))
        (i32.store (i32.const 90000) (i32.const 9)))
)"#;

fn options(spares: u32) -> EngineOptions {
    EngineOptions { slots: Some(16), spares, ..EngineOptions::default() }
}

fn mural(engine: &Arc<GuestEngine>) -> Component {
    let component = Component::load(engine, &wat_guest::component("process", MURAL)).expect("a guest");
    component.learn_snapshot_support();
    component
}

/// A guest from its init to its close: its answer, and the fuel that it took.
#[track_caller]
fn serve(component: &Component, init: ProcessInit) -> (Status, u64) {
    let mut guest = Stepper::new(component, init);
    let status = guest.step(vec![]).status();
    assert!(matches!(status, Status::Complete(_)), "{status:?}");
    guest.body.close();
    (status, guest.output.fuel)
}

fn spares(engine: &GuestEngine) -> usize {
    engine.spare_instances().0
}

#[test]
fn the_next_guest_finds_what_a_fresh_instance_has() {
    let (reusing, fresh) = (engine(options(4)), engine(options(0)));
    let (reused, fresh) = (mural(&reusing), mural(&fresh));
    let first = serve(&fresh, init("look", "{}"));
    assert_eq!(serve(&fresh, init("look", "{}")), first);
    for entry in ["stain", "look", "stain", "stain", "look"] {
        let taken = usize::from(spares(&reusing) > 0);
        let before = spares(&reusing);
        let mut guest = Stepper::new(&reused, init(entry, "{}"));
        let status = guest.step(vec![]).status();
        assert_eq!(spares(&reusing), before - taken, "the next guest takes the instance that waits");
        if entry == "look" {
            assert_eq!((status, guest.output.fuel), first);
        }
        guest.body.close();
        assert_eq!(spares(&reusing), 1);
    }
    let (_, bytes) = reusing.spare_instances();
    assert_eq!(bytes, 32 * 4096, "every page has been written or read");
}

#[test]
fn an_instance_whose_memory_has_grown_is_not_reused() {
    let engine = engine(options(4));
    let component = mural(&engine);
    let first = serve(&component, init("look", "{}"));
    assert_eq!(spares(&engine), 1);
    serve(&component, init("expand", "{}"));
    assert_eq!((spares(&engine), engine.spare_instances().1), (0, 0));
    assert_eq!(serve(&component, init("look", "{}")), first);
}

#[test]
fn an_instance_that_traps_as_it_closes_is_not_reused() {
    let engine = engine(options(4));
    let component = mural(&engine);
    serve(&component, init("explode", "{}"));
    assert_eq!(spares(&engine), 0);
    serve(&component, init("look", "{}"));
    assert_eq!(spares(&engine), 1);
}

/// What the host holds beside the instance is also the guest's own.
#[test]
fn the_next_guest_has_a_random_stream_tags_and_a_log_of_its_own() {
    let engine = engine(options(4));
    let component = built_in(&engine, "counter");
    component.learn_snapshot_support();
    let step = |pid: u64| {
        let born = ProcessInit { pid: Pid(pid), ..init("run", "{}") };
        let mut guest = Stepper::new(&component, born);
        let first = guest.step(vec![message("x", b"1")]).status();
        let output = format!("{first:?} {:?} {:?} {}", guest.output.commands, guest.output.log, guest.output.fuel);
        let saved = guest.body.save().expect("it can be saved").pack().expect("it packs");
        guest.body.close();
        (output, saved)
    };
    let fresh = step(1);
    assert_eq!(spares(&engine), 1);
    let other = step(2);
    assert_eq!(step(1), fresh);
    assert_eq!(step(2), other);
    assert_eq!(spares(&engine), 1);
}

#[test]
fn instances_with_state_that_cannot_be_reset_are_not_reused() {
    let with = |item: &str| {
        let step = "(func $step (param i32 i32) (result i32)
            (i32.store8 (i32.const 1024) (i32.const 3))
            (i32.store (i32.const 1040) (i32.const 128))
            (i32.store (i32.const 1044) (i32.const 4))
            (i32.const 1024))";
        let data = "(data (i32.const 128) \"null\")";
        wat_guest::component("process", &wat_guest::module(&format!("{item} {step} {data}")))
    };
    let with_instruction = |instruction: &str| {
        with(&format!("(table $t 1 9 funcref) (elem $e func $step) (data $d \"x\") (func {instruction})"))
    };
    let kept = |bytes: &[u8]| {
        let engine = engine(options(4));
        let component = Component::load(&engine, bytes).expect("a guest");
        component.learn_snapshot_support();
        serve(&component, init("run", "{}"));
        spares(&engine)
    };
    assert_eq!(kept(&with("")), 1);
    assert_eq!(kept(&with_instruction("(memory.init $d (i32.const 0) (i32.const 0) (i32.const 1))")), 1);
    for instruction in [
        "(table.set $t (i32.const 0) (ref.null func))",
        "(drop (table.grow $t (ref.null func) (i32.const 1)))",
        "(table.fill $t (i32.const 0) (ref.null func) (i32.const 1))",
        "(table.copy $t $t (i32.const 0) (i32.const 0) (i32.const 0))",
        "(table.init $t $e (i32.const 0) (i32.const 0) (i32.const 0))",
        "(elem.drop $e)",
        "(data.drop $d)",
    ] {
        assert_eq!(kept(&with_instruction(instruction)), 0, "{instruction}");
    }
    assert_eq!(kept(&with("(global (mut funcref) (ref.null func))")), 0);
}

#[test]
fn an_instance_that_has_written_much_is_not_reused() {
    let engine = engine(options(4));
    let core = MURAL.replace("(memory (export \"memory\") 2)", "(memory (export \"memory\") 5)");
    let component = Component::load(&engine, &wat_guest::component("process", &core)).expect("a guest");
    component.learn_snapshot_support();
    serve(&component, init("x", "{}"));
    assert_eq!(spares(&engine), 1);
    serve(&component, init("stain", "{}"));
    assert_eq!(spares(&engine), 0);
}

#[test]
fn an_instance_serves_guests_of_the_limits_it_was_made_for() {
    let engine = engine(options(4));
    let component = mural(&engine);
    serve(&component, init("look", "{}"));
    let limits = Arc::new(Limits { output_bytes: 1 << 20, ..Limits::default() });
    let narrow = || ProcessInit { limits: Arc::clone(&limits), ..init("look", "{}") };
    serve(&component, narrow());
    assert_eq!(spares(&engine), 2, "one of each");
    serve(&component, narrow());
    serve(&component, init("look", "{}"));
    assert_eq!(spares(&engine), 2);
}

#[test]
fn no_more_wait_than_may_and_the_oldest_gives_way() {
    let engine = engine(EngineOptions { slots: Some(8), spares: 9, ..EngineOptions::default() });
    let (one, other) = (mural(&engine), Component::load(&engine, &wat_guest::completer()).expect("a guest"));
    other.learn_snapshot_support();
    let live = |component: &Component| {
        let mut guest = Stepper::new(component, init("look", "{}"));
        guest.step(vec![]).status();
        guest
    };
    for _ in 0..3 {
        // As many as there are slots, of one component and then of the other: those that wait take
        // none of them.
        for component in [&one, &other] {
            let mut guests: Vec<_> = (0..8).map(|_| live(component)).collect();
            for guest in &mut guests {
                guest.body.close();
            }
            assert_eq!(spares(&engine), 2);
        }
    }
    drop(other);
    assert_eq!(spares(&engine), 0, "those of a component that is dropped go with it");
    assert_eq!(engine.spare_instances().1, 0);
    serve(&one, init("look", "{}"));
    assert_eq!(spares(&engine), 1);
}

/// A guest is restored from its image in an instance that has served another.
#[test]
fn a_guest_is_restored_in_an_instance_that_has_served_another() {
    let engine = engine(options(4));
    let component = built_in(&engine, "counter");
    component.learn_snapshot_support();
    let mut guest = Stepper::new(&component, init("run", "{}"));
    guest.step(vec![message("x", b"1")]).status();
    let mut whole = Stepper::new(&component, init("run", "{}"));
    whole.step(vec![message("x", b"1")]).status();
    assert!(guest.body.evict().is_done());
    let mut last = Stepper::new(&component, ProcessInit { pid: Pid(9), ..init("run", "{}") });
    last.step(vec![message("x", b"77")]).status();
    last.body.close();
    assert_eq!(spares(&engine), 1);
    assert_eq!(guest.step(vec![message("x", b"2")]).status(), whole.step(vec![message("x", b"2")]).status());
    assert_eq!(spares(&engine), 0, "it has taken it");
    let digest = |guest: &mut Stepper| guest.body.save().expect("it can be saved").pack().expect("it packs").digest;
    assert_eq!(digest(&mut guest), digest(&mut whole));
}

/// How to reset instances is learned in the background, once enough guests have ended.
#[test]
fn instances_are_reused_once_enough_guests_have_ended() {
    let engine = engine(options(4));
    let component = Component::load(&engine, &wat_guest::completer()).expect("a guest");
    let null = serve(&component, init("run", "{}"));
    assert_eq!(null.0, Status::Complete(Payload::NULL));
    assert_eq!(spares(&engine), 0);
    for _ in 0..100 {
        assert_eq!(serve(&component, init("run", "{}")), null);
    }
    while spares(&engine) == 0 {
        std::thread::yield_now();
        assert_eq!(serve(&component, init("run", "{}")), null);
    }
}
