//! What people are told of a run that failed: what, where, why, and what to do.

use super::{assert_transcript_in, scratch, wfhost};

/// The transcript of a run of that text; the file is called `flow.yaml`.
fn assert_failure(name: &str, text: &str, arguments: &[&str]) {
    let (folder, path) = scratch(text);
    let output = wfhost(&[&["run", "-q", &path], arguments].concat());
    assert_transcript_in(folder.path(), name, &output);
}

#[test]
fn an_expression_is_shown_where_it_stands_and_all_steps_that_failed_are_named() {
    let text = "\
name: told
inputs: { n: { type: integer, default: 3 } }
steps:
  - id: first
    set:
      text: >-
        some words, then
        ${ .inputs.n | if . > 2 then error(\"\\(.) is too many\") else . end }
  - { id: second, set: \"${ .inputs.n | keys }\" }
  - id: third
    for-each: ${ .inputs.n }
    wait: 1s
  - { id: fourth, needs: [first], wait: 1h }
";
    assert_failure("an_expression_is_shown_where_it_stands", text, &[]);
}

#[test]
fn outputs_have_their_place_too() {
    let text = "steps:\n  - { id: a, set: [1] }\noutputs:\n  good: 1\n  bad: \"${ .steps.a.output | .x }\"\n";
    assert_failure("outputs_have_their_place_too", text, &[]);
}

#[test]
fn a_grant_that_is_missing_is_the_line_to_write() {
    let text = "\
steps:
  - id: list
    set: [\"http://127.0.0.1:9/x?token=1\"]
  - id: get
    for-each: ${ .steps.list.output }
    call: http
    with: { url: \"${ .item }\", method: POST }
    allow: { http: [\"GET https://*.example.com\"] }
";
    assert_failure("a_grant_that_is_missing_is_the_line_to_write", text, &[]);
}

#[test]
fn an_address_that_is_refused_is_the_flag_to_give() {
    let text = "\
steps:
  - id: get
    call: http
    with: { url: \"http://127.0.0.1:9/x\" }
    allow: { http: [\"GET http://127.0.0.1:9\"] }
";
    assert_failure("an_address_that_is_refused_is_the_flag_to_give", text, &["--timeout", "1h"]);
    assert_failure(
        "what_may_pass_is_to_be_tried_again_with_the_same_flags",
        text,
        &["--timeout", "1h", "--allow-address", "127.0.0.1"],
    );
}

#[test]
fn a_timeout_of_a_step_leads_to_its_key() {
    let text = "\
components: { hostile: ./hostile.wasm }
steps:
  - id: slow
    uses: hostile
    entry: deaf
    limits: { grace: 1ms }
    timeout: 1us
";
    let (folder, path) = scratch(text);
    std::fs::copy(super::root().join("guests/built/hostile.wasm"), folder.path().join("hostile.wasm")).unwrap();
    let output = wfhost(&["run", "-q", &path]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("error[timed-out]: the step `slow` failed"), "{stderr}");
    assert!(stderr.contains("flow.yaml:3:9"), "{stderr}");
    assert!(stderr.contains("hint: add under the step `slow`: timeout: 2us, or retry: { max: 3 }"), "{stderr}");
}

#[test]
fn log_lines_name_their_step() {
    let text = "\
steps:
  - { id: one, call: log, with: { message: \"said once\", level: warn } }
  - id: each
    needs: [one]
    for-each: [a, b]
    max-parallel: 1
    call: log
    with: { message: \"said of ${ .item }\" }
";
    let (_folder, path) = scratch(text);
    let output = wfhost(&["run", &path]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    for line in ["  one warn: said once", "  each[0] info: said of a", "  each[1] info: said of b"] {
        assert!(stderr.lines().any(|said| said == line), "{line:?} is not in\n{stderr}");
    }
}
