//! Guests alone: stepped by the test, with no scheduler and no run.

use crate::support::{Stepper, birth, built, message};
use wfhost::process::{Payload, Status};

#[test]
fn hello_completes_in_its_first_step() {
    let mut hello = Stepper::new(&built("hello"), birth("run", r#"{"name":"Ada"}"#));
    let status = hello.step(vec![]).status();
    assert_eq!(status, Status::Complete(Payload::json(&serde_json::json!({"greeting": "Hello, Ada!"}))));
    assert!(hello.output.fuel > 0);
    hello.body.close();
}

#[test]
fn a_counter_hears_messages_step_by_step() {
    let mut counter = Stepper::new(&built("counter"), birth("run", "{}"));
    for n in 0..10_u8 {
        assert_eq!(counter.step(vec![message("x", &[n])]).status(), Status::Idle);
        assert_eq!(counter.output.commands.len(), 1);
        assert_eq!(counter.output.commands[0].tag.0, u64::from(n) + 1);
    }
    assert!(matches!(counter.step(vec![message("end", b"")]).status(), Status::Complete(_)));
}

#[test]
fn an_endless_loop_uses_up_slices_and_then_its_fuel() {
    let mut birth = birth("endless-loop", "null");
    std::sync::Arc::make_mut(&mut birth.limits).fuel_per_step = 10_000_000;
    let mut hog = Stepper::new(&built("hostile"), birth);
    let problem = hog.step(vec![]).problem();
    assert_eq!(problem.kind, "fuel-exhausted");
    assert!(hog.preempted >= 9, "{}", hog.preempted);
}
