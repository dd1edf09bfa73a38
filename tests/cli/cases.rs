//! What case files say: answers, names, faults and refusals.

use super::tested::{CHARGE, REFUSES, folder, test_in, told};
use super::{transcript, wfhost};
use serde_json::Value;

/// A request waits for its server as long as a real one, and its answer is as large as a real one.
#[test]
fn http_has_its_timeout_and_its_bounds() {
    let flow = "\
inputs: { method: string }
steps:
  - id: ask
    call: http
    with:
      url: https://a.example.com/
      method: \"${ .inputs.method }\"
      timeout: 5s
      max-response-bytes: 10
    allow: { http: [ GET https://a.example.com, POST https://a.example.com ] }
  - id: save
    call: http
    with: { url: https://a.example.com/file, as: blob }
    allow: { http: GET https://a.example.com }
outputs: { size: \"${ .steps.save.output.body.size }\" }
";
    let cases = "\
answers: [ { call: http, step: save, answer: { body: four } } ]
cases:
  - name: in time
    inputs: { method: GET }
    answers: [ { call: http, step: ask, after: 5s, answer: { body: tencharact } } ]
    expect: { outputs: { size: 4 }, takes: 5s }
  - name: an hour
    inputs: { method: GET }
    answers: [ { call: http, step: ask, after: 1h, answer: {} } ]
    expect: { problem: { cause: http-timed-out }, takes: 5s }
  - name: an hour, and nobody knows
    inputs: { method: POST }
    answers: [ { call: http, step: ask, after: 1h, answer: {} } ]
    expect: { problem: { cause: http-timed-out }, that: \"${ .steps.ask.error.class == \\\"uncertain\\\" }\" }
  - name: its own default
    inputs: { method: GET }
    answers: [ { call: http, step: ask, answer: {} }, { call: http, step: save, after: 31s, answer: {} } ]
    expect: { problem: { step: save, cause: http-timed-out }, takes: 30s }
  - name: too large
    inputs: { method: GET }
    answers: [ { call: http, step: ask, answer: { body: elevenchars } } ]
    expect: { problem: { cause: response-too-large } }
  - name: late
    inputs: { method: GET }
    faults: late:http#1+6s
    answers: [ { call: http, step: ask, answer: {} } ]
    expect: { problem: { cause: http-timed-out } }
";
    let folder = folder(&[("flow.yaml", flow), ("flow.test.yaml", cases)]);
    let output = test_in(folder.path(), &["--trace"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(", which comes too late: the call waits for 5s"), "{text}");
    // No delay is drawn that a request does not wait for.
    let (value, code) = told(&test_in(folder.path(), &["--case", "in time", "--seeds", "100", "--json"]));
    assert_eq!(code, Some(0), "{value:#}");
}

/// A step that gives up and tries again gets the next answer of a list; of one answer, a server
/// that honours keys gives the same again.
#[test]
fn each_attempt_takes_the_next_answer_of_a_list() {
    let flow = "\
inputs: { method: string, unset: { type: integer, default: 7 } }
steps:
  - id: ask
    call: http
    with: { url: https://a.example.com/, method: \"${ .inputs.method }\", repeatable: true }
    timeout: 5s
    retry: { max: 3, backoff: 1s..1s }
    allow: { http: [ GET https://a.example.com, POST https://a.example.com ] }
outputs: { n: \"${ .steps.ask.output.body.n }\" }
";
    let listed = "[ { call: http, answers: [ { after: 10s, answer: {} }, { after: 10s, answer: {} }, { answer: { body: { n: 3 } } } ] } ]";
    let repeated =
        "[ { call: http, after: 10s, answer: { body: { n: 1 } }, repeated: { answer: { body: { n: 2 } } } } ]";
    let single = "[ { call: http, after: 10s, answer: {} } ]";
    let cases = format!(
        "\
cases:
  - name: slow twice, then quick
    inputs: {{ method: GET }}
    answers: {listed}
    expect: {{ outputs: {{ n: 3 }}, calls: [ {{ call: http, times: 3 }} ], that: \"${{ .inputs.unset == 7 }}\" }}
  - name: with a key
    inputs: {{ method: POST }}
    answers: {listed}
    expect: {{ outputs: {{ n: 3 }}, calls: [ {{ call: http, times: 3 }} ] }}
  - name: a server that knows the key, and says so
    faults: none
    inputs: {{ method: POST }}
    answers: {repeated}
    expect: {{ outputs: {{ n: 2 }}, calls: [ {{ call: http, times: 1, sends: 2 }} ] }}
  - name: no key, no repeat
    inputs: {{ method: GET }}
    answers: {repeated}
    expect: {{ status: failed, calls: [ {{ call: http, times: 4 }} ] }}
  - name: always slow
    faults: none
    inputs: {{ method: POST }}
    answers: {single}
    expect: {{ problem: {{ cause: timed-out }}, calls: [ {{ call: http, times: 1, sends: 4 }} ] }}
"
    );
    let folder = folder(&[("flow.yaml", flow), ("flow.test.yaml", &cases)]);
    let output = test_in(folder.path(), &["--trace", "--seeds", "30"]);
    assert_eq!(output.status.code(), Some(0), "{}", transcript(&output));
}

/// Attempts that the case lets fail count in lists, groups and loops, too: no fault takes a step
/// beyond its retries.
#[test]
fn no_fault_is_drawn_beyond_the_retries() {
    let calls = |url: &str| {
        format!(
            "call: http, with: {{ url: \"https://a.example.com/{url}\" }}, retry: {{ max: 2, backoff: 1s..1s }}, \
             allow: {{ http: GET https://a.example.com }}"
        )
    };
    let (of_item, fixed) = (calls("${ .item }"), calls("y"));
    let answers = "answers: [ { call: http, with: { url: \"*/y\" }, answers: [ { answer: { status: 503 } }, { answer: { status: 503 } }, \
                   { answer: {} }, { answer: {} } ] }, { call: http, answer: {} } ]";
    let cases = format!("cases: [ {{ name: a flaky one, {answers} }} ]");
    for flow in [
        format!("steps: [ {{ id: c, for-each: [ x, y ], steps: [ {{ id: t, {of_item} }} ] }} ]"),
        format!("steps: [ {{ id: c, for-each: [ x, y ], {of_item} }} ]"),
        format!(
            "steps: [ {{ id: c, repeat: {{ max: 2, until: \"${{ .turn == 1 }}\" }}, steps: [ {{ id: t, {fixed} }} ] }} ]"
        ),
        "steps: [ { id: c, for-each: [ x, y ], workflow: ./child.yaml, with: { it: \"${ .item }\" } } ]".to_owned(),
    ] {
        let child = format!("inputs: {{ it: string }}\nsteps: [ {{ id: t, {} }} ]", calls("${ .inputs.it }"));
        let folder = folder(&[("flow.yaml", &flow), ("flow.test.yaml", &cases), ("child.yaml", &child)]);
        let (value, code) = told(&test_in(folder.path(), &["flow.yaml", "--seeds", "100", "--json"]));
        assert_eq!(code, Some(0), "{flow}\n{value:#}");
    }
}

/// Names in expressions of cases, paths of items, and values of answers: each wrong one with its
/// place and what was meant.
#[test]
fn what_expressions_of_cases_read_is_checked() {
    let flow = "\
inputs: { amount: { type: integer, default: 5 } }
steps:
  - id: build
    for-each: [ 1, 2 ]
    steps:
      - { id: test, set: \"${ .item }\" }
  - id: pay
    call: http
    with: { url: https://a.example.com/ }
    allow: { http: GET https://a.example.com }
  - { id: ask, if: false, wait: { signal: approve } }
outputs: { id: \"${ .steps.pay.output.body.id }\", the-sum: 3 }
";
    let cases = "\
answers:
  - call: http
    where: ${ .arg.method == null }
    with: { uri: \"*\" }
    answer: { status: \"201\", body: { id: \"${ .counts }\" } }
  - { call: http, answer: { headers: [ 1 ] } }
cases:
  - name: one
    signals: [ { name: aprove } ]
    expect:
      outputs: { id: \"${ .inputs.amuont }\", the-sum: \"${ .outputs.the-sum }\" }
      steps: { build.test: succeeded, \"pay[0]\": succeeded }
      calls: [ { call: http, where: \"${ .count == 1 }\" } ]
      that:
        - ${ .output.id == 1 }
        - ${ .calls[0].arg.url == null and .calls[].step != null }
        - ${ .steps.payy.status == \"succeeded\" }
        - ${ .steps.pay.output == null }
        - ${ .steps.build.test.status == null }
        - ${ .steps[\"build[1].test\"].state == null }
        - ${ .problem.titel == null }
        - ${ [.steps[] | .status] | length > 0 }
  - { name: two }
";
    let folder = folder(&[("flow.yaml", flow), ("flow.test.yaml", cases)]);
    let output = test_in(folder.path(), &["flow.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
    // What is wrong with an answer alone is told first.
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap());
    let mended = cases
        .replace("\"201\"", "201")
        .replace("headers: [ 1 ]", "status: 200")
        .replace(".outputs.the-sum", ".outputs.id");
    std::fs::write(folder.path().join("flow.test.yaml"), mended).unwrap();
    let output = test_in(folder.path(), &["flow.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap());
}

/// A status that an expression gives is checked when it is known, at its place.
#[test]
fn a_status_that_is_none_is_reported_at_its_place() {
    let flow = "steps: [ { id: a, call: http, with: { url: https://a.example.com/ }, allow: { http: GET https://a.example.com } } ]";
    let cases = "cases: [ { name: one, answers: [ { call: http, answer: { status: \"${ .count * 1000 }\" } } ] } ]";
    let folder = folder(&[("flow.yaml", flow), ("flow.test.yaml", cases)]);
    let output = test_in(folder.path(), &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("`status` must be a whole number from 100 to 599, not 1000"), "{said}");
    assert!(said.contains("flow.test.yaml:1:66"), "{said}");
}

/// What tests nothing does not pass in silence.
#[test]
fn what_hits_nothing_is_told() {
    let faults = "faults: \"crash@99,twice:nope,lost:kv#3,fail:http#4,evict\"";
    let stored = REFUSES.replace("  - name: charged and shipped\n", &format!("  - name: stored\n    {faults}\n"));
    let folder = folder(&[("charge.yaml", CHARGE), ("charge.test.yaml", &stored)]);
    let output = test_in(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    for part in [
        "the fault `crash@99` hits nothing: the run has ",
        "the fault `twice:nope` hits nothing: no signal `nope` was sent",
        "the fault `lost:kv#3` hits nothing: there are 0 calls of `kv`",
        "the fault `fail:http#4` hits nothing: there are 2 calls of `http`",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(!said.contains("`evict` hits nothing"), "{said}");

    // Faults of the command line are for all cases, and need not hit each.
    std::fs::write(folder.path().join("charge.test.yaml"), REFUSES).unwrap();
    let output = test_in(folder.path(), &["--faults", "crash@99,twice:approve"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("crash@99 hits nothing: the run has ") && !said.contains("twice:approve hits"), "{said}");
    let (value, _) = told(&test_in(folder.path(), &["--faults", "crash@99", "--json"]));
    assert_eq!(value["files"][0]["cases"][0]["missed"][0]["fault"], "crash@99", "{value:#}");

    let output = test_in(folder.path(), &["--filter", "zzz"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no case has `zzz` in its name") && output.status.code() == Some(2), "{said}");
    std::fs::write(folder.path().join("charge.test.yaml"), "cases: []").unwrap();
    let output = test_in(folder.path(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the file has no cases") && output.status.code() == Some(2), "{said}");
}

/// A case may expect that its inputs are refused.
#[test]
fn refused_inputs_can_be_expected() {
    let flow = "inputs: { amount: { type: integer, minimum: 1 }, to: string }\nsteps: [ { id: a, set: 1 } ]";
    let cases = "\
cases:
  - name: too little, and nobody
    inputs: { amount: 0 }
    expect: { problem: { kind: bad-input, inputs: [ amount, to ] } }
  - name: it fits
    inputs: { amount: 1, to: Ann }
    expect: { problem: { kind: bad-input } }
  - name: another one
    inputs: { amount: 0, to: Ann }
    expect: { problem: { kind: bad-input, inputs: [ to ] } }
";
    let folder = folder(&[("flow.yaml", flow), ("flow.test.yaml", cases)]);
    let output = test_in(folder.path(), &["--seeds", "3"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
    assert!(said.contains("ok     too little, and nobody"), "{said}");
    assert!(said.contains("FAILED it fits") && said.contains("the run succeeded, without a problem"), "{said}");
    assert!(said.contains("FAILED another one") && said.contains("the inputs do not fit: amount "), "{said}");
    // Elsewhere they are a problem of the file.
    let plain = cases.replace("kind: bad-input", "kind: step-failed");
    std::fs::write(folder.path().join("flow.test.yaml"), plain).unwrap();
    let output = test_in(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the input `to` is required"), "{}", transcript(&output));
}

/// An editor has a schema of its own for case files.
#[test]
fn the_schema_of_case_files_is_printed() {
    let output = wfhost(&["schema", "--tests"]);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["cases"]), "{schema:#}");
    assert_eq!(schema["$defs"]["test-case"]["required"], serde_json::json!(["name"]), "{schema:#}");
}

/// What CI shows: the faults, the command that repeats them, and files that could not be executed.
#[test]
fn junit_has_the_faults_and_the_files_with_problems() {
    let unread = "cases: [ { nmae: one } ]";
    let folder = folder(&[
        ("charge.yaml", CHARGE),
        ("charge.test.yaml", REFUSES),
        ("flow.yaml", "steps: [ { id: a, set: 1 } ]"),
        ("flow.test.yaml", unread),
        ("alone.test.yaml", "cases: [ { name: one } ]"),
    ]);
    let output = test_in(folder.path(), &["--seeds", "50", "--junit", "report.xml"]);
    assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
    let xml = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    for part in [
        "<testsuites name=\"wfhost\" tests=\"3\" failures=\"1\" errors=\"2\" time=\"",
        "(with lost:http#1)\" type=\"status\">",
        "faults: lost:http#1 (it passes without faults; these are the fewest that show it)",
        "look closer: wfhost test charge.test.yaml --case 'charged and shipped' --faults 'lost:http#1' --trace",
        "<testsuite name=\"flow.test.yaml\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\"",
        "<error message=\"flow.test.yaml has 2 problems\" type=\"bad-definition\">",
        "did you mean `name`?",
        "<error message=\"alone.test.yaml: there is no workflow alone.yaml beside it\" type=\"unreadable\">",
    ] {
        assert!(xml.contains(part), "{part}\n{xml}");
    }
}

/// A test has no blobs: an input is any handle, and what reads it is answered by the case.
#[test]
fn handles_of_blobs_are_given_and_their_calls_are_answered() {
    let flow = "\
inputs: { data: blob }
steps:
  - { id: read, call: blob.get, with: { blob: \"${ .inputs.data }\", as: lines } }
outputs: { total: \"${ [.steps.read.output.lines[] | split(\\\",\\\")[1] | tonumber] | add }\" }
";
    let digest = format!("blake3:{}", "0".repeat(64));
    let cases = format!(
        "\
cases:
  - name: two lines
    inputs: {{ data: {{ digest: \"{digest}\", size: 17, media-type: text/csv }} }}
    answers: [ {{ call: blob.get, answer: {{ lines: [ \"ann,2\", \"bob,1\" ], next: null }} }} ]
    expect: {{ outputs: {{ total: 3 }} }}
  - name: no handle
    inputs: {{ data: {{ digest: \"{digest}\" }} }}
    expect: {{ problem: {{ kind: bad-input, inputs: [ data ] }} }}
"
    );
    let folder = folder(&[("flow.yaml", flow), ("flow.test.yaml", &cases)]);
    let output = test_in(folder.path(), &["--seeds", "10"]);
    assert_eq!(output.status.code(), Some(0), "{}", transcript(&output));
}
