//! Signals from outside, to steps and to guests.

use crate::support::{builder, cause, host, outputs, parse, wait_until};
use serde_json::{Map, json};
use wfhost::host::RunOptions;
use wfhost::run::Refused;

const REVIEW: &str = "
steps:
  - { id: review, wait: { signal: approve, timeout: 24h } }
  - { id: guest, uses: ./approval.wasm, with: { signal: more, count: 2 } }
outputs: { by: '${ .steps.review.output.by }', more: '${ .steps.guest.output }' }
";

#[test]
fn a_step_and_a_guest_wait_for_signals() {
    let host = host(2, 8);
    let run = host.start(&parse(&host, REVIEW), Map::new(), RunOptions::default()).unwrap();
    run.signal("more", &json!([1])).unwrap();
    // Nothing has arrived for the step.
    wait_until(|| run.inner().signals().iter().any(|signal| &*signal.name == "approve" && signal.waiting == 1));
    assert_eq!(run.signal("approve", &json!("x".repeat(17 << 20))), Err(Refused::TooLarge));
    run.signal("approve", &json!({ "by": "Ann" })).unwrap();
    run.signal("more", &json!(2)).unwrap();
    assert_eq!(outputs(&run.wait()), json!({ "by": "Ann", "more": [[1], 2] }));
    assert_eq!(run.signal("approve", &json!(null)), Err(Refused::Ended));
}

/// What the workflow waits for is its own: no guest receives it first, in any way.
#[test]
fn a_guest_cannot_take_a_signal_of_the_workflow_without_a_grant() {
    let host = host(2, 8);
    let text = |allow: &str| {
        format!(
            "
steps:
  - {{ id: guest, uses: ./approval.wasm, with: {{ signal: approve, count: 1 }}, continue-on-error: true{allow} }}
  - {{ id: review, wait: {{ signal: approve }}, needs: guest }}
outputs: {{ review: '${{ .steps.review.output }}', guest: '${{ .steps.guest.output }}', why: '${{ .steps.guest.error.kind }}' }}
"
        )
    };
    let run = host.start(&parse(&host, &text("")), Map::new(), RunOptions::default()).unwrap();
    run.signal("approve", &json!("Ann")).unwrap();
    assert_eq!(outputs(&run.wait()), json!({ "review": "Ann", "guest": null, "why": "not-granted" }));
    for allow in ["approve", "'*'"] {
        let workflow = parse(&host, &text(&format!(", allow: {{ signal: [{allow}] }}")));
        let run = host.start(&workflow, Map::new(), RunOptions::default()).unwrap();
        run.signal("approve", &json!(1)).unwrap();
        run.signal("approve", &json!(2)).unwrap();
        assert_eq!(outputs(&run.wait()), json!({ "review": 2, "guest": [1], "why": null }));
    }
}

#[test]
fn a_wait_that_times_out_says_so() {
    let host = host(1, 4);
    let step = "steps: [{ id: w, wait: { signal: approve, timeout: 1ms } }]";
    let guest = "steps: [{ id: w, uses: ./approval.wasm, with: { signal: approve, count: 1, timeout_ms: 1 } }]";
    for text in [step, guest] {
        let problem = cause(&host.start(&parse(&host, text), Map::new(), RunOptions::default()).unwrap().wait());
        assert_eq!(
            (&problem["kind"], &problem["detail"]),
            (&json!("timed-out"), &json!("It was to be named \"approve\"."))
        );
    }
}

/// A step that waits for a signal when its host dies waits for it in the next host; a signal that
/// has arrived is not lost.
#[test]
fn signals_survive_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let options = || RunOptions { id: Some("r".into()), durable: Some(true), ..RunOptions::default() };
    let first = builder(1, 4).data(folder.path()).build().unwrap();
    let run = first.start(&parse(&first, REVIEW), Map::new(), options()).unwrap();
    run.signal("more", &json!(1)).unwrap();
    run.signal("later", &json!(0)).unwrap();
    wait_until(|| run.inner().signals().iter().filter(|signal| signal.waiting == 1).count() == 2);
    run.inner().acknowledged().wait_for(std::time::Duration::from_mins(1)).unwrap();
    let image = crate::durable::image(folder.path());
    run.kill("the test has ended");
    run.wait();

    let second = builder(1, 4).data(image.path()).build().unwrap();
    let run = second.recover(&parse(&second, REVIEW), "r", options()).unwrap();
    let kept: Vec<_> = run.inner().signals().into_iter().map(|one| (one.name.to_string(), one.kept)).collect();
    assert_eq!(kept, [("approve".to_owned(), 0), ("later".to_owned(), 1), ("more".to_owned(), 0)]);
    run.signal("approve", &json!({ "by": "Bob" })).unwrap();
    run.signal("more", &json!(2)).unwrap();
    assert_eq!(outputs(&run.wait()), json!({ "by": "Bob", "more": [1, 2] }));
}
