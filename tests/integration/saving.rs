//! Guests that are saved between steps: what a snapshot contains, where it can be restored, and
//! which guests no image fits. That they continue like the uninterrupted one, in every language and
//! in another process too, is shown by `tests/guests/moving`.

use crate::support::{ENGINE, End, Stepper, built, init, message};
use crate::wat_guest;
use bytes::Bytes;
use wfhost::guest::{Component, LoadError};
use wfhost::process::{
    Allocation, Death, Form, Limits, ProcessSnapshot, Program, SnapshotError, SnapshotSupport, Status, Tag,
};

fn save(guest: &mut Stepper) -> ProcessSnapshot {
    guest.body.save().expect("it can be saved").pack().expect("it packs")
}

#[test]
fn a_snapshot_fits_one_component_and_its_bytes_are_not_trusted() {
    let (counter, other) = (built("counter"), built("counter-c"));
    let mut guest = Stepper::new(&counter, init("run", "{}"));
    assert!(guest.body.save().is_none(), "it has not run");
    guest.step(vec![message("x", b"1")]).status();
    let saved = save(&mut guest);
    let refused =
        |component: &Component, saved: &ProcessSnapshot| component.restore(init("run", "{}"), saved).err().unwrap();
    assert_eq!(refused(&other, &saved), SnapshotError::OtherProgram(counter.digest()));
    let later = ProcessSnapshot { contract: "wfhost:process/guest@9.0.0".into(), ..saved.clone() };
    assert!(matches!(refused(&counter, &later), SnapshotError::OtherContract(_)));
    // A forger makes the outer checksum fit; the state has a checksum of its own.
    let mut state = saved.state.to_vec();
    let middle = state.len() / 2;
    state[middle] ^= 1;
    assert!(matches!(
        refused(&counter, &ProcessSnapshot { state: state.into(), ..saved.clone() }),
        SnapshotError::Misfit(_)
    ));
    assert!(matches!(
        refused(&counter, &ProcessSnapshot { form: Form::GuestEncoded, ..saved.clone() }),
        SnapshotError::Misfit(_)
    ));
    // A limit lower than what the guest had.
    let mut narrow = init("run", "{}");
    narrow.limits = Limits { memory_bytes: 64 << 10, ..Limits::default() }.into();
    assert!(matches!(counter.restore(narrow, &saved).err().unwrap(), SnapshotError::Misfit(_)));
    assert!(counter.restore(init("run", "{}"), &saved).is_ok());
}

#[test]
fn between_two_parts_of_its_step_a_guest_is_neither_saved_nor_evicted() {
    let fields = [(16, "(i32.const 128)"), (20, "(i32.const 1)"), (32, "(i32.const 129)"), (36, "(i32.const 4)")];
    let core = wat_guest::module(&format!(
        r#"
        (data (i32.const 128) "xnull")
        {}
        (func $step (param i32 i32) (result i32)
            (call $commands)
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.const 1024))
        "#,
        wat_guest::commands(2048, 300, wat_guest::EXPOSE, &fields),
    ));
    let component = Component::load(&ENGINE, &wat_guest::component("process", &core)).unwrap();
    let mut guest = Stepper::new(&component, init("run", "null"));
    assert_eq!(guest.step(vec![]).status(), Status::Ready);
    assert!(guest.body.owes().is_some() && guest.output.commands.len() < 300);
    assert!(guest.body.save().is_none(), "the rest of the step is in no snapshot");
    assert!(!guest.body.evict().is_done());
    assert_eq!(guest.step(vec![]).status(), Status::Idle);
    assert!(guest.body.owes().is_none() && guest.body.save().is_some());
    assert!(guest.body.evict().is_done());
}

/// A guest that is idle, with one more item in its core module.
fn with_core(item: &str) -> Vec<u8> {
    let step = "(func $step (param i32 i32) (result i32)
        (i32.store8 (i32.const 1024) (i32.const 2)) (i32.const 1024))";
    wat_guest::component("process", &wat_guest::module(&format!("{item} {step}")))
}

/// The same with a function that has this instruction, and a table and segments for it.
fn with_instruction(instruction: &str) -> Vec<u8> {
    with_core(&format!("(table $t 1 9 funcref) (elem $e func $step) (data $d \"x\") (func {instruction})"))
}

/// The same with one more item in the component around it.
fn with_item(item: &str) -> Vec<u8> {
    // A component may continue with the sections of another, without its header.
    let more = wat::parse_str(format!("(component {item})")).unwrap();
    [&with_core("")[..], &more[8..]].concat()
}

/// A guest with state that no image holds can run, but is neither saved nor evicted, nor restored
/// from a forged snapshot.
#[test]
fn guests_with_each_kind_of_state_that_no_image_holds_are_refused() {
    let resource = "(component (type $r (resource (rep i32))) (core func (canon resource.new $r)))";
    let cases = [
        (with_instruction("(table.set $t (i32.const 0) (ref.null func))"), "the instruction table.set"),
        (with_instruction("(drop (table.grow $t (ref.null func) (i32.const 1)))"), "the instruction table.grow"),
        (with_instruction("(table.fill $t (i32.const 0) (ref.null func) (i32.const 1))"), "the instruction table.fill"),
        (
            with_instruction("(table.copy $t $t (i32.const 0) (i32.const 0) (i32.const 0))"),
            "the instruction table.copy",
        ),
        (
            with_instruction("(table.init $t $e (i32.const 0) (i32.const 0) (i32.const 0))"),
            "the instruction table.init",
        ),
        (with_instruction("(elem.drop $e)"), "the instruction elem.drop"),
        (with_instruction("(data.drop $d)"), "the instruction data.drop"),
        (with_core("(global (mut funcref) (ref.null func))"), "a mutable global that holds a reference"),
        (with_item("(type (resource (rep i32)))"), "the resource type of its own"),
        (with_item(resource), "the canonical function ResourceNew"),
    ];
    let mut counter = Stepper::new(&built("counter"), init("run", "{}"));
    counter.step(vec![]).status();
    let image = save(&mut counter);
    for (bytes, reason) in &cases {
        let component = Component::load(&ENGINE, bytes).unwrap_or_else(|error| panic!("{reason}: {error}"));
        let refusals: Vec<_> = component.snapshots().refusals.iter().map(ToString::to_string).collect();
        assert!(refusals.iter().any(|refusal| refusal.starts_with(reason)), "{reason}: {refusals:?}");
        component.learn_snapshot_support();
        assert_eq!(component.snapshot_support(), SnapshotSupport::Never, "{reason}");
        let mut guest = Stepper::new(&component, init("run", "{}"));
        assert_eq!(guest.step(vec![]).status(), Status::Idle, "{reason}");
        assert!(guest.body.save().is_none() && !guest.body.evict().is_done(), "{reason}");
        let forged = ProcessSnapshot { program: component.digest(), ..image.clone() };
        let refused = component.restore(init("run", "{}"), &forged).err();
        assert!(matches!(refused, Some(SnapshotError::Misfit(_))), "{reason}: {refused:?}");
        assert_eq!(guest.step(vec![]).status(), Status::Idle, "{reason}");
    }
    // The same guest without any of it is saved.
    let mut guest = Stepper::new(&Component::load(&ENGINE, &with_core("")).unwrap(), init("run", "{}"));
    assert_eq!(guest.step(vec![]).status(), Status::Idle);
    save(&mut guest);
}

/// A component with state of proposals that the engine does not accept is not even loaded. (The
/// check of snapshots refuses it too.)
#[test]
fn components_with_state_of_other_proposals_are_no_guests() {
    let cases = [
        (with_core("(table 1 externref)"), "gc"),
        (with_core("(type (struct (field (mut i32))))"), "gc"),
        (with_core("(type $f (func)) (type (cont $f))"), "stack switching"),
        (with_core("(tag)"), "exceptions"),
        (with_core("(memory $shared 1 1 shared)"), "threads"),
        (with_core("(memory $small 1 (pagesize 1))"), "custom page sizes"),
        (with_item("(core func (canon waitable-set.new))"), "async"),
        (with_item("(core func (canon context.get i32 0))"), "async"),
        (with_item("(type (stream u8))"), "async"),
        (with_item("(type (future u8))"), "async"),
    ];
    for (bytes, proposal) in &cases {
        let error = Component::load(&ENGINE, bytes).err();
        assert!(matches!(&error, Some(LoadError::Compile(why)) if why.contains(proposal)), "{proposal}: {error:?}");
    }
}

#[test]
fn fuel_of_all_steps_goes_with_the_guest() {
    let component = built("counter");
    let mut limited = init("run", "{}");
    let mut first = Stepper::new(&component, limited.clone());
    first.step(vec![message("x", b"1")]).status();
    let used = first.output.fuel;
    first.step(vec![message("x", b"1")]).status();
    limited.limits = Limits { fuel_total: used + first.output.fuel / 2, ..Limits::default() }.into();
    let mut guest = Stepper::new(&component, limited.clone());
    guest.step(vec![message("x", b"1")]).status();
    let saved = save(&mut guest);
    assert_eq!(saved.fuel, used);
    let mut restored = Stepper::with(component.restore(limited, &saved).unwrap(), 1);
    assert_eq!(restored.step(vec![message("x", b"1")]).problem().kind, "fuel-exhausted");
}

/// A guest whose state is in a table, which no image holds: each step switches to the other
/// function. `save` encodes which one it is and the number of steps. `save` also does what must
/// leave no trace: it logs and takes random bytes.
fn own(save: &str) -> Component {
    let core = wat_guest::module(&format!(
        r#"
        (import "wfhost:process/host@0.1.0" "random" (func $random (param i32 i32)))
        (import "wfhost:process/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32 i32)))
        (type $which (func (result i32)))
        (table $table 1 funcref)
        (elem (i32.const 0) $a)
        (elem declare func $b)
        (func $a (result i32) (i32.const 0))
        (func $b (result i32) (i32.const 1))
        (func $turn (table.set $table (i32.const 0)
            (select (result funcref) (ref.func $a) (ref.func $b) (call_indirect $table (type $which) (i32.const 0)))))
        (func $step (param i32 i32) (result i32)
            (i32.store (i32.const 3000) (i32.add (i32.load (i32.const 3000)) (i32.const 1)))
            (call $turn)
            (call $random (i32.const 8) (i32.const 16))
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.store (i32.const 1104) (i32.const 2048))
            (i32.store (i32.const 1108) (i32.const 1))
            (i64.store (i32.const 2048) (i64.extend_i32_u (i32.load (i32.const 3000))))
            (i32.store8 (i32.const 2056) (i32.const 0)) ;; sleep
            (i64.store (i32.const 2064) (i64.add
                (i64.extend_i32_u (call_indirect $table (type $which) (i32.const 0)))
                (i64.mul (i64.const 2) (i64.extend_i32_u (i32.load8_u (i32.load (i32.const 16)))))))
            (i32.const 1024))
        (func (export "wfhost:process/snapshot@0.1.0#save") (result i32)
            (call $log (i32.const 4) (i32.const 64) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0))
            (call $random (i32.const 64) (i32.const 16))
            {save}
            (i32.store8 (i32.const 3008) (call_indirect $table (type $which) (i32.const 0)))
            (i32.store (i32.const 3012) (i32.load (i32.const 3000)))
            (i32.store8 (i32.const 3104) (i32.const 0))
            (i32.store (i32.const 3112) (i32.const 3008))
            (i32.store (i32.const 3116) (i32.const 8))
            (i32.const 3104))
        (func (export "wfhost:process/snapshot@0.1.0#load") (param i32 i32) (result i32)
            (if (i32.load8_u (local.get 0)) (then (call $turn)))
            (i32.store (i32.const 3000) (i32.load offset=4 (local.get 0)))
            ;; A count beyond any is refused.
            (i32.store8 (i32.const 3200) (i32.gt_u (i32.load (i32.const 3000)) (i32.const 1000)))
            (i32.const 3200))
        (func (export "wfhost:process/describe@0.1.0#describe") (result i32) (i32.const 3300))
        "#,
    ));
    let component = Component::load(&ENGINE, &wat_guest::component("full", &core)).unwrap();
    assert!(!component.snapshots().snapshottable() && component.saves_itself());
    component
}

#[test]
fn a_guest_with_state_that_no_image_holds_encodes_it_itself() {
    let component = own("");
    assert_eq!(component.snapshot_support(), SnapshotSupport::Ready(Form::GuestEncoded));
    let mut whole = Stepper::new(&component, init("run", "null"));
    let mut moved = Stepper::new(&component, init("run", "null"));
    for at in 1..=20_usize {
        let status = whole.step(vec![message("x", b"")]).status();
        assert_eq!(moved.step(vec![message("x", b"")]).status(), status);
        assert_eq!(moved.output.commands, whole.output.commands, "step {at}");
        assert!(moved.output.log.is_empty(), "what it writes while it is asked is dropped");
        match at % 4 {
            0 => {
                let bytes = Bytes::from(save(&mut moved).encode().unwrap());
                let saved = ProcessSnapshot::decode(&bytes).unwrap();
                assert_eq!((saved.form, saved.next_tag), (Form::GuestEncoded, Tag(at as u64 + 1)));
                moved = Stepper::with(component.restore(init("run", "null"), &saved).unwrap(), at);
            }
            1 => assert!(moved.body.evict().is_done()),
            // It continues after being asked.
            2 => drop(save(&mut moved)),
            _ => {}
        }
    }
    // A state that the guest refuses: it ends with that, unless it can be rebuilt from its records.
    let mut saved = save(&mut moved);
    saved.state = Bytes::from_static(&[0, 0, 0, 0, 255, 255, 255, 0]);
    let mut restored = Stepper::with(component.restore(init("run", "null"), &saved).unwrap(), 20);
    assert!(matches!(restored.step(vec![]), End::Died(Death::Lost(problem))
            if problem.kind == "bad-state" && problem.detail.as_deref().unwrap().contains("snapshot.load")));
}

#[test]
fn a_guest_that_refuses_to_save_stays_in_its_slot() {
    let refuses = own("(i32.store8 (i32.const 3104) (i32.const 1))
        (i32.store (i32.const 3112) (i32.const 64)) (i32.store (i32.const 3116) (i32.const 4))
        (i32.store (i32.const 3120) (i32.const 64)) (i32.store (i32.const 3124) (i32.const 4))
        (i32.store16 (i32.const 3128) (i32.const 0)) (i32.store8 (i32.const 3132) (i32.const 0))
        (return (i32.const 3104))");
    let mut guest = Stepper::new(&refuses, init("run", "null"));
    let mut whole = Stepper::new(&refuses, init("run", "null"));
    for _ in 0..3 {
        assert_eq!(guest.step(vec![message("x", b"")]).status(), whole.step(vec![message("x", b"")]).status());
        assert_eq!(guest.output.commands, whole.output.commands);
        assert!(guest.body.save().is_none() && !guest.body.evict().is_done());
    }
}

#[test]
fn a_guest_that_traps_when_asked_is_lost_and_no_other_is_asked() {
    for (trap, kind) in [("unreachable", "trap"), ("(loop $l (br $l))", "fuel-exhausted")] {
        let component = own(trap);
        let mut guest = Stepper::new(&component, init("run", "null"));
        let mut other = Stepper::new(&component, init("run", "null"));
        assert_eq!(guest.step(vec![]).status(), Status::Idle);
        assert_eq!(other.step(vec![]).status(), Status::Idle);
        assert!(guest.body.save().is_none());
        assert_eq!(component.snapshot_support(), SnapshotSupport::Never);
        assert!(other.body.save().is_none() && !other.body.evict().is_done());
        assert_eq!(other.step(vec![]).status(), Status::Idle);
        // If its records are available, the guest is rebuilt from them.
        let End::Died(Death::Lost(problem)) = guest.step(vec![]) else { panic!("it lives") };
        assert_eq!(problem.kind, kind);
        assert!(problem.detail.unwrap().contains("snapshot.save"));
        guest.body.allocate(Allocation::Pool);
    }
}
