//! Guests that are written down between steps, in every language at hand: taken up in a fresh store and in another process of the operating
//! system, they go on as the uninterrupted one does, to the unit of fuel and the byte.

use crate::support::{ENGINE, End, Stepper, birth, built, message};
use crate::wat_guest;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use wfhost::guest::Component;
use wfhost::process::{
    Birth, Death, Event, Form, Home, Limits, Payload, Pid, Program, Random, Saved, SavedError, Saving, Status, Tag,
};

const STEPS: usize = 1_000;

/// What a guest hears in a step, of some random bytes.
type Hears = fn(usize, &[u8]) -> Vec<Event>;

/// A guest, and what it hears.
struct Case {
    component: Component,
    birth: Birth,
    events: Hears,
}

/// A state machine that hears messages.
fn hears_messages(_: usize, bytes: &[u8]) -> Vec<Event> {
    vec![message("x", bytes)]
}

/// A guest of the conformance tests that has asked for as many calls as there are steps, and hears their answers out of order.
fn hears_answers(step: usize, bytes: &[u8]) -> Vec<Event> {
    if step == 0 {
        return Vec::new();
    }
    // Neighbours change places.
    let tag = if step % 2 == 1 { step + 1 } else { step - 1 };
    let text = format!("{bytes:?}");
    vec![Event::Completed { tag: Tag(tag as u64), answer: Ok(Payload::json(&text)) }]
}

fn case(name: &str) -> Option<Case> {
    let (folder, events): (_, Hears) = match name {
        "counter" | "counter-c" => {
            let birth = birth("run", "{}");
            return Some(Case { component: built(name), birth, events: hears_messages });
        }
        "conformance-js" | "conformance-py" => ("built-on-demand", hears_answers),
        _ => ("built", hears_answers),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests").join(folder).join(format!("{name}.wasm"));
    let must = std::env::var_os("WFHOST_GUESTS_MUST_BE_BUILT").is_some();
    let Ok(bytes) = std::fs::read(&path) else {
        assert!(!must && folder == "built-on-demand", "{} is not built", path.display());
        eprintln!("SKIPPED: {name} is not built; `guests/build.sh {name}` builds it");
        return None;
    };
    let component = Component::load(&ENGINE, &bytes).expect("a component that fits");
    let mut birth = birth("concurrent", &format!("{{\"n\":{STEPS}}}"));
    let limits = Limits { memory_bytes: 256 << 20, ..Limits::default() };
    birth.limits = limits.into();
    Some(Case { component, birth, events })
}

/// The same random bytes for each step, in every process.
fn inputs() -> Vec<Vec<u8>> {
    let mut random = Random::new(&[5; 32], Pid(1));
    let mut bytes = [0; 16];
    let next = |_| {
        random.fill(&mut bytes);
        bytes[..=usize::from(bytes[0] % 16)].to_vec()
    };
    (0..STEPS).map(next).collect()
}

/// The first step, the last but one, and random ones between.
fn points(count: usize) -> Vec<usize> {
    let mut random = Random::new(&[6; 32], Pid(1));
    let mut points = vec![1, STEPS - 1];
    for _ in 0..count {
        let mut number = [0; 8];
        random.fill(&mut number);
        points.push(1 + (u64::from_le_bytes(number) % (STEPS as u64 - 1)) as usize);
    }
    points.sort_unstable();
    points.dedup();
    points
}

fn save(guest: &mut Stepper) -> Saved {
    guest.body.save().expect("it can be saved").pack().expect("it packs")
}

fn restore(case: &Case, bytes: Bytes, steps: usize) -> Stepper {
    let saved = Saved::decode(&bytes).expect("a snapshot");
    let body = case.component.restore(case.birth.clone(), &saved).expect("it fits");
    Stepper::with(body, steps)
}

/// What a step gave, as text.
fn step(case: &Case, guest: &mut Stepper, at: usize, bytes: &[u8]) -> String {
    let status = guest.step((case.events)(at, bytes)).status();
    format!("{status:?} {:?} {}", guest.output.commands, guest.output.fuel)
}

fn languages(name: &str, snapshots: usize) {
    let Some(case) = case(name) else { return };
    let (inputs, points) = (inputs(), points(snapshots));
    let mut whole = Stepper::new(&case.component, case.birth.clone());
    let (mut kept, mut expected) = (Vec::new(), Vec::new());
    for (at, bytes) in inputs.iter().enumerate() {
        if points.contains(&at) {
            let saved = save(&mut whole);
            assert_eq!(saved.form, Form::Image);
            kept.push((at, Bytes::from(saved.encode().unwrap())));
        }
        expected.push(step(&case, &mut whole, at, bytes));
    }
    let end = save(&mut whole).digest;
    for (from, bytes) in &kept {
        let mut restored = restore(&case, bytes.clone(), *from);
        assert_eq!(save(&mut restored).encode().unwrap(), bytes[..], "{name}: saved before it has stepped");
        for at in *from..STEPS {
            assert_eq!(step(&case, &mut restored, at, &inputs[at]), expected[at], "{name}, saved before {from}: {at}");
            // One that is moved on in the middle is no other.
            if at == from + 3 {
                let moved = save(&mut restored);
                restored = restore(&case, moved.encode().unwrap().into(), at + 1);
            }
        }
        assert_eq!(save(&mut restored).digest, end, "{name}, saved before {from}");
    }
    // A few in another process each.
    for (from, bytes) in kept.iter().step_by(kept.len() / 3) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("snapshot"), bytes).unwrap();
        let program = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(program);
        child.args(["--exact", "saving::the_other_process", "--test-threads=1", "--quiet"]);
        child.env("WFHOST_TEST_SAVED", folder.path()).env("WFHOST_TEST_CASE", format!("{name} {from}"));
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let mut told = expected[*from..].join("\n");
        told.push_str(&format!("\n{end:?}"));
        let found = std::fs::read_to_string(folder.path().join("told")).expect("the other process has told");
        assert!(found == told, "{name}, saved before {from}, goes another way in another process");
    }
}

/// Goes on with a guest of another process; on its own, this test does nothing.
#[test]
fn the_other_process() {
    let Some(folder) = std::env::var_os("WFHOST_TEST_SAVED").map(PathBuf::from) else { return };
    let named = std::env::var("WFHOST_TEST_CASE").unwrap();
    let (name, from) = named.split_once(' ').unwrap();
    let case = case(name).unwrap();
    let from: usize = from.parse().unwrap();
    let bytes = std::fs::read(folder.join("snapshot")).unwrap();
    let mut guest = restore(&case, bytes.into(), from);
    let mut told: Vec<_> =
        inputs().iter().enumerate().skip(from).map(|(at, bytes)| step(&case, &mut guest, at, bytes)).collect();
    told.push(format!("{:?}", save(&mut guest).digest));
    std::fs::write(folder.join("told"), told.join("\n")).unwrap();
}

#[test]
fn rust() {
    languages("counter", 20);
    languages("conformance-rust", 5);
}

#[test]
fn c() {
    languages("counter-c", 20);
    languages("conformance-c", 5);
}

#[test]
fn javascript() {
    languages("conformance-js", 10);
}

#[test]
fn python() {
    languages("conformance-py", 10);
}

#[test]
fn what_was_saved_is_of_one_component_and_no_more_than_its_bytes() {
    let (counter, other) = (built("counter"), built("counter-c"));
    let mut guest = Stepper::new(&counter, birth("run", "{}"));
    assert!(guest.body.save().is_none(), "it has not run");
    guest.step(vec![message("x", b"1")]).status();
    let saved = save(&mut guest);
    let refused = |component: &Component, saved: &Saved| component.restore(birth("run", "{}"), saved).err().unwrap();
    assert_eq!(refused(&other, &saved), SavedError::OtherProgram(counter.digest()));
    let later = Saved { contract: "wfhost:process/guest@9.0.0".into(), ..saved.clone() };
    assert!(matches!(refused(&counter, &later), SavedError::OtherContract(_)));
    // A forger makes the checksum fit; what is within has one of its own.
    let mut state = saved.state.to_vec();
    let middle = state.len() / 2;
    state[middle] ^= 1;
    assert!(matches!(refused(&counter, &Saved { state: state.into(), ..saved.clone() }), SavedError::Misfit(_)));
    assert!(matches!(refused(&counter, &Saved { form: Form::Own, ..saved.clone() }), SavedError::Misfit(_)));
    // One whose limit is lower than what the guest had.
    let mut narrow = birth("run", "{}");
    narrow.limits = Limits { memory_bytes: 64 << 10, ..Limits::default() }.into();
    assert!(matches!(counter.restore(narrow, &saved).err().unwrap(), SavedError::Misfit(_)));
    assert!(counter.restore(birth("run", "{}"), &saved).is_ok());
}

#[test]
fn fuel_of_all_steps_goes_with_the_guest() {
    let component = built("counter");
    let mut limited = birth("run", "{}");
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

/// A guest whose state is in a table, which no image holds: each step makes it the other function. It gives and takes a byte that says which,
/// and how many steps it has made. `save` also does what leaves no trace: it logs and takes random bytes.
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
fn a_guest_with_state_that_no_image_holds_gives_it_itself() {
    let component = own("");
    assert_eq!(component.saving(), Saving::Ready(Form::Own));
    let mut whole = Stepper::new(&component, birth("run", "null"));
    let mut moved = Stepper::new(&component, birth("run", "null"));
    for at in 1..=20_usize {
        let status = whole.step(vec![message("x", b"")]).status();
        assert_eq!(moved.step(vec![message("x", b"")]).status(), status);
        assert_eq!(moved.output.commands, whole.output.commands, "step {at}");
        assert!(moved.output.log.is_empty(), "what it writes while it is asked is dropped");
        match at % 4 {
            0 => {
                let bytes = Bytes::from(save(&mut moved).encode().unwrap());
                let saved = Saved::decode(&bytes).unwrap();
                assert_eq!((saved.form, saved.next_tag), (Form::Own, Tag(at as u64 + 1)));
                moved = Stepper::with(component.restore(birth("run", "null"), &saved).unwrap(), at);
            }
            1 => assert!(moved.body.evict()),
            // Asked, it goes on.
            2 => drop(save(&mut moved)),
            _ => {}
        }
    }
    // A state that the guest does not take is a fault of the host's: it is rebuilt from its records.
    let mut saved = save(&mut moved);
    saved.state = Bytes::from_static(&[0, 0, 0, 0, 255, 255, 255, 0]);
    let mut restored = Stepper::with(component.restore(birth("run", "null"), &saved).unwrap(), 20);
    assert!(
        matches!(restored.step(vec![]), End::Died(Death::Host(problem)) if problem.detail.as_deref().unwrap().contains("refuses"))
    );
}

#[test]
fn a_guest_that_will_not_give_its_state_stays_where_it_is() {
    let refuses = own("(i32.store8 (i32.const 3104) (i32.const 1))
        (i32.store (i32.const 3112) (i32.const 64)) (i32.store (i32.const 3116) (i32.const 4))
        (i32.store (i32.const 3120) (i32.const 64)) (i32.store (i32.const 3124) (i32.const 4))
        (i32.store16 (i32.const 3128) (i32.const 0)) (i32.store8 (i32.const 3132) (i32.const 0))
        (return (i32.const 3104))");
    let mut guest = Stepper::new(&refuses, birth("run", "null"));
    let mut whole = Stepper::new(&refuses, birth("run", "null"));
    for _ in 0..3 {
        assert_eq!(guest.step(vec![message("x", b"")]).status(), whole.step(vec![message("x", b"")]).status());
        assert_eq!(guest.output.commands, whole.output.commands);
        assert!(guest.body.save().is_none() && !guest.body.evict());
    }
}

#[test]
fn a_guest_that_traps_when_asked_is_lost_and_no_other_is_asked() {
    for trap in ["unreachable", "(loop $l (br $l))"] {
        let component = own(trap);
        let mut guest = Stepper::new(&component, birth("run", "null"));
        let mut other = Stepper::new(&component, birth("run", "null"));
        assert_eq!(guest.step(vec![]).status(), Status::Idle);
        assert_eq!(other.step(vec![]).status(), Status::Idle);
        assert!(guest.body.save().is_none());
        assert_eq!(component.saving(), Saving::Never);
        assert!(other.body.save().is_none() && !other.body.evict());
        assert_eq!(other.step(vec![]).status(), Status::Idle);
        // By a fault of the host's: what is at hand of its records makes it anew.
        let End::Died(Death::Host(problem)) = guest.step(vec![]) else { panic!("it lives") };
        assert!(problem.detail.unwrap().contains("snapshot.save"));
        guest.body.house(Home::Pool);
    }
}
