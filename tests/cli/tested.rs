//! `wfhost test`: cases of workflows in virtual time.

use super::{root, transcript, wfhost};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// A folder with these files.
pub(super) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    std::os::unix::fs::symlink(root().join("guests/built"), folder.path().join("guests")).unwrap();
    folder
}

pub(super) fn test_in(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = super::command(&[&["test"], arguments].concat());
    command.current_dir(folder).output().unwrap()
}

/// The results as JSON, and the exit code.
#[track_caller]
pub(super) fn told(output: &Output) -> (Value, Option<i32>) {
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", transcript(output)));
    (value, output.status.code())
}

const REVIEW: &str = "\
inputs: { amount: integer }
steps:
  - id: charge
    call: http
    with: { url: https://pay.example.com/charges, method: POST, body: { json: { amount: \"${ .inputs.amount }\" } } }
    retry: { max: 2, backoff: 1s..4s }
    allow: { http: POST https://pay.example.com }
  - { id: review, needs: charge, wait: { signal: approve, timeout: 3d } }
  - { id: note, needs: review, call: log, with: { message: \"approved by ${ .steps.review.output.by }\" } }
outputs: { id: \"${ .steps.charge.output.body.id }\", by: \"${ .steps.review.output.by }\" }
";

const ANSWERS: &str = "\
answers:
  - { call: http, with: { url: https://pay.example.com/* }, answer: { status: 201, body: { id: p-1 } } }
";

/// Every workflow of the project has cases, and they pass.
#[test]
fn the_workflows_of_the_project_pass_their_tests() {
    let output = wfhost(&["test", "workflows", "--json", "--coverage"]);
    let (told, code) = told(&output);
    assert_eq!(code, Some(0), "{}", transcript(&output));
    let tested = told["files"].as_array().unwrap().iter();
    let tested: Vec<&str> = tested.map(|file| file["workflow"].as_str().unwrap()).collect();
    for entry in walk(&root().join("workflows")) {
        let name = entry.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        // A workflow that only others run is tested by theirs.
        let is_part = name.contains("/shop/");
        // A case has no blobs: `tests/cli/blobs.rs` runs this one.
        let is_part = is_part || name.ends_with("/rainy-days.yaml");
        let is_yaml = entry.extension().is_some_and(|ending| ending == "yaml");
        if is_yaml && !name.ends_with(".test.yaml") && !is_part {
            assert!(tested.contains(&&*name), "{name} has no tests");
        }
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_failure_says_what_and_where() {
    let cases = format!(
        "{ANSWERS}\
cases:
  - name: approved in time
    inputs: {{ amount: 5 }}
    signals: [ {{ at: 2d, name: approve, body: {{ by: Ann }} }} ]
    expect:
      status: failed
      outputs: {{ id: p-2, by: Ann, note: null }}
      steps: {{ review: skipped }}
      order: [ review, charge ]
      calls: [ {{ call: http, with: {{ body: {{ json: {{ amount: 6 }} }} }}, times: 1 }} ]
      no-other-calls: true
      takes: 3d
      logs: [ approved by Bo ]
      that: [ \"${{ .outputs.by == \\\"Bo\\\" }}\" ]
"
    );
    let folder = folder(&[("review.yaml", REVIEW), ("review.test.yaml", &cases)]);
    let output = test_in(folder.path(), &["review.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[test]
fn a_call_without_an_answer_ends_the_case_with_what_to_paste() {
    let cases = "\
answers: [ { call: http, with: { url: https://other.example.com/ }, answer: { status: 200 } } ]
cases: [ { name: nobody answers, inputs: { amount: 5 } } ]
";
    let folder = folder(&[("review.yaml", REVIEW), ("review.test.yaml", cases)]);
    let output = test_in(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

/// Retries, times and problems are those of a real run; the clock is not.
#[test]
fn answers_come_in_order_and_time_is_virtual() {
    let cases = "\
cases:
  - name: busy, then charged
    inputs: { amount: 5 }
    answers:
      - call: http
        answers:
          - answer: { status: 503 }
          - { after: 20s, answer: { status: 201, body: { id: \"p-${ .args.body.json.amount }-${ .count }\" } } }
    signals: [ { at: 1d, name: approve, body: { by: Ann } } ]
    expect:
      outputs: { id: p-5-2, by: Ann }
      calls: [ { call: http, step: charge, times: 2, sends: 2 } ]
      logs: [ approved by Ann ]
      takes: 1d
  - name: refused
    inputs: { amount: 5 }
    answers: [ { call: http, problem: { kind: no-money, title: The account is empty, class: definite } } ]
    expect:
      problem: { kind: step-failed, step: charge, cause: no-money }
      steps: { charge: failed, review: unreached }
  - name: nobody
    inputs: { amount: 5 }
    answers: [ { call: http, answer: { status: 200, body: {} } } ]
    expect: { status: failed, problem: { cause: timed-out }, takes: 3d }
  - name: cancelled
    inputs: { amount: 5 }
    answers: [ { call: http, answer: { status: 200, body: {} } } ]
    cancel: 1h
    expect: { status: cancelled, takes: 1h }
";
    let folder = folder(&[("review.yaml", REVIEW), ("review.test.yaml", cases)]);
    let output = test_in(folder.path(), &["--json", "--jobs", "2"]);
    let (value, code) = told(&output);
    assert_eq!(code, Some(0), "{value:#}");
    // The same cases have the same records, in another order and another process too.
    let (again, _) = told(&test_in(folder.path(), &["--json", "--jobs", "1"]));
    let digests = |value: &Value| -> Vec<String> {
        let cases = value["files"][0]["cases"].as_array().unwrap().iter();
        cases.map(|case| case["digest"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(digests(&value), digests(&again));
    assert_eq!(digests(&value).len(), 4);
}

/// A run that waits for what no case gives is a failure, and not a test that never ends.
#[test]
fn a_run_that_waits_for_ever_is_told() {
    let flow = "steps: [ { id: ask, wait: { signal: go } } ]";
    let cases = "cases: [ { name: it hangs } ]";
    let folder = folder(&[("flow.yaml", flow), ("flow.test.yaml", cases)]);
    let output = test_in(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("nothing will happen any more in `ask`, which waits for the signal `go`"), "{text}");
}

#[test]
fn problems_of_a_case_file_are_all_reported() {
    let cases = "\
case: 1
answers: [ { call: htpp, answer: 3 } ]
cases:
  - name: one
    input: { amount: 5 }
    signals: [ { at: soon, name: approve } ]
    expect: { status: success, outputs: { n: \"${ .inputs. + }\" }, takes: [ 1 ] }
  - name: one
";
    let folder = folder(&[("review.yaml", REVIEW), ("review.test.yaml", cases)]);
    let output = test_in(folder.path(), &["review.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap());
}

/// What only the workflow shows.
#[test]
fn names_that_the_workflow_does_not_have_are_reported() {
    let cases = "\
cases:
  - name: one
    inputs: { amount: five, amuont: 5 }
    answers: [ { call: htpp, step: chrage, answer: 3 } ]
    signals: [ { name: aprove } ]
    expect: { steps: { reviw: succeeded }, order: [ charge, \"review[1]\" ] }
";
    let folder = folder(&[("review.yaml", REVIEW), ("review.test.yaml", cases)]);
    let output = test_in(folder.path(), &["review.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap());
}

/// Files that are too large, too deep, too many, or no YAML.
#[test]
fn hostile_case_files_are_refused() {
    let many = format!("cases:\n{}", (0..1_001).map(|n| format!("- name: c{n}\n")).collect::<Vec<_>>().concat());
    let deep = format!("cases: [ {{ name: a, inputs: {}1{} }} ]", "[".repeat(100), "]".repeat(100));
    let bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
                c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
                e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n";
    let cyclic = "cases: &a [ *a ]";
    let large = format!("cases: [] # {}", "x".repeat(1 << 20));
    for (text, why) in [
        (many.as_str(), "too-many"),
        (deep.as_str(), "deep"),
        (bomb, "error["),
        (cyclic, "error["),
        (large.as_str(), "too-large"),
        ("cases: [", "error["),
        ("", "the file has no cases"),
    ] {
        let folder = folder(&[("flow.yaml", "steps: [ { id: a, set: 1 } ]"), ("flow.test.yaml", text)]);
        let output = test_in(folder.path(), &["flow.yaml"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{why}: {said}");
    }
}

#[test]
fn cases_are_listed_filtered_and_named() {
    let cases = "cases:\n  - name: one\n  - name: \"two 'and' a half\"\n";
    let folder = folder(&[("flow.yaml", "steps: [ { id: a, set: 1 } ]"), ("flow.test.yaml", cases)]);
    let says = |arguments: &[&str]| {
        let output = test_in(folder.path(), arguments);
        (String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(), output.status.code())
    };
    assert_eq!(says(&["--list"]), ("flow.test.yaml:2: one\nflow.test.yaml:3: two 'and' a half\n".to_owned(), Some(0)));
    let (said, code) = says(&["--filter", "half", "--trace"]);
    assert!(said.contains("ok     two 'and' a half (0s)") && said.contains("a succeeded"), "{said}");
    assert!(!said.contains("ok     one") && code == Some(0), "{said}");
    let (said, code) = says(&["--case", "oen"]);
    assert!(said.contains("did you mean `one`?") && code == Some(2), "{said}");
    // `validate` takes both kinds of files.
    let mut validate = super::command(&["validate", "flow.yaml", "flow.test.yaml"]);
    let validated = validate.current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8(validated.stdout).unwrap() + &String::from_utf8(validated.stderr).unwrap();
    assert!(text.contains("flow.yaml: valid, 1 step\nflow.test.yaml: valid, tests\n"), "{text}");
    let (said, code) = says(&["other.yaml"]);
    assert!(said.contains("there is no file other.yaml") && code == Some(2), "{said}");
    let (said, code) = says(&["guests"]);
    assert!(said.contains("there are no case files") && code == Some(2), "{said}");
}

/// JUnit: counts, names, times, places and texts, as XML that a parser takes.
#[test]
fn results_are_written_as_junit() {
    let cases = "cases:\n  - name: a < b & \"c\"\n  - { name: fails, expect: { outputs: { n: 2 } } }\n";
    let flow = "steps: [ { id: a, set: 1 } ]\noutputs: { n: \"${ .steps.a.output }\" }";
    let folder = folder(&[("flow.yaml", flow), ("flow.test.yaml", cases)]);
    let output = test_in(folder.path(), &["--junit", "report.xml"]);
    assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
    let xml = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    for part in [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<testsuites name=\"wfhost\" tests=\"2\" failures=\"1\" errors=\"0\" time=\"",
        "<testsuite name=\"flow.test.yaml\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\"",
        "<testcase name=\"a &lt; b &amp; &quot;c&quot;\" classname=\"flow.test.yaml\"",
        "line=\"2\"",
        "<failure message=\"`outputs.n`: expected 2, got 1\" type=\"outputs\">",
        "</testsuites>",
    ] {
        assert!(xml.contains(part), "{part}\n{xml}");
    }
}

pub(super) const CHARGE: &str = "\
inputs: { amount: { type: integer, default: 5 } }
steps:
  - { id: fee, set: \"${ .inputs.amount * 2 }\" }
  - id: charge
    call: http
    with: { url: https://pay.example.com/charges, method: POST, repeatable: true, body: { json: \"${ .steps.fee.output }\" } }
    allow: { http: POST https://pay.example.com }
  - { id: review, needs: charge, wait: { signal: approve, timeout: 3d } }
  - id: ship
    needs: review
    call: http
    with: { url: https://ship.example.com/, method: POST }
    retry: { max: 3, backoff: 1s..4s }
    allow: { http: POST https://ship.example.com }
outputs: { id: \"${ .steps.charge.output.body.id }\" }
";

/// The server of payments honours no keys: it refuses what it has already done.
pub(super) const REFUSES: &str = "\
cases:
  - name: charged and shipped
    answers:
      - call: http
        with: { url: https://pay.example.com/* }
        answer: { status: 201, body: { id: p-1 } }
        repeated: { answer: { status: 409 } }
      - { call: http, with: { url: https://ship.example.com/ }, after: 2s, answer: { status: 200 } }
    signals: [ { at: 1d, name: approve } ]
    expect:
      outputs: { id: p-1 }
      calls: [ { call: http, step: charge, times: 1 }, { call: http, step: ship, times: 1 } ]
      no-other-calls: true
";

/// A call that is marked as repeatable and is not: only a crash between the effect and its record
/// shows it. The faults that are found are shrunk to that one, and a command shows it again.
#[test]
fn a_bug_that_only_a_crash_shows_is_found_and_shrunk_to_one_fault() {
    let folder = folder(&[("charge.yaml", CHARGE), ("charge.test.yaml", REFUSES)]);
    let calm = test_in(folder.path(), &[]);
    assert_eq!(calm.status.code(), Some(0), "{}", transcript(&calm));
    let output = test_in(folder.path(), &["--seeds", "50"]);
    assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nfaults: lost:http#1 ("), "{text}");
    let command = "wfhost test charge.test.yaml --case 'charged and shipped' --faults 'lost:http#1' --trace";
    assert!(text.contains(command), "{text}");
    let arguments = ["--case", "charged and shipped", "--faults", "lost:http#1", "--trace"];
    let shown = test_in(folder.path(), &arguments);
    assert_eq!(shown.status.code(), Some(1));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("the host dies, and another one recovers the run"), "{shown}");
    assert!(shown.contains("sent 2 times"), "{shown}");

    // The server is told to honour keys: the case survives whatever is drawn.
    let mended = REFUSES.replace("        repeated: { answer: { status: 409 } }\n", "");
    std::fs::write(folder.path().join("charge.test.yaml"), mended).unwrap();
    let output = test_in(folder.path(), &["--seeds", "200", "--json"]);
    let (value, code) = told(&output);
    assert_eq!(code, Some(0), "{value:#}");
    assert_eq!(value["files"][0]["cases"][0]["executions"], 201);
}

/// A fault list in the case file is a test of its own.
#[test]
fn faults_are_stored_in_a_case() {
    let stored = REFUSES.replace("  - name: charged and shipped\n", "  - name: stored\n    faults: lost:http#1+5m\n");
    let folder = folder(&[("charge.yaml", CHARGE), ("charge.test.yaml", &stored)]);
    let output = test_in(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
    let wrong = stored.replace("lost:http#1+5m", "lost:http");
    std::fs::write(folder.path().join("charge.test.yaml"), wrong).unwrap();
    let output = test_in(folder.path(), &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`lost:http` is not a fault") && output.status.code() == Some(2), "{said}");
}

/// The same seed finds the same faults, and the same faults give the same records.
#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = folder(&[("charge.yaml", CHARGE), ("charge.test.yaml", REFUSES)]);
    let says = |arguments: &[&str]| {
        let output = test_in(folder.path(), &[arguments, &["--json"]].concat());
        let mut value: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Only the real time differs.
        for case in value["files"][0]["cases"].as_array_mut().unwrap() {
            assert!(case["real-ms"].is_number());
            case["real-ms"] = Value::Null;
        }
        value
    };
    for arguments in [
        &["--seeds", "50", "--seed", "7"][..],
        &["--faults", "crash@2,crash@4+1m,late:http#2+3s,fail:http#2*2,twice:approve,jump@3+1s,evict"],
    ] {
        assert_eq!(says(arguments), says(arguments));
    }
    let all = says(&["--faults", "crash@2,crash@4+1m,late:http#2+3s,fail:http#2*2,twice:approve,jump@3+1s,evict"]);
    assert_eq!(all["files"][0]["cases"][0]["status"], "passed", "{all:#}");
}

/// A crash after any of its records: the workflows of the project survive each.
#[test]
fn workflows_survive_a_crash_at_every_record() {
    let folder =
        folder(&[("charge.yaml", CHARGE), ("charge.test.yaml", &REFUSES.replace("409", "201, body: { id: p-1 }"))]);
    let (calm, _) = told(&test_in(folder.path(), &["--json"]));
    let records = calm["files"][0]["cases"][0]["records"].as_u64().unwrap();
    assert!(records > 5);
    for record in 1..=records {
        let output = test_in(folder.path(), &["--json", "--faults", &format!("crash@{record}")]);
        let (value, code) = told(&output);
        assert_eq!(code, Some(0), "crash@{record}: {value:#}");
    }
}

#[test]
fn the_workflows_of_the_project_survive_faults() {
    let output = wfhost(&["test", "workflows", "--json", "--seeds", "5"]);
    let (value, code) = told(&output);
    assert_eq!(code, Some(0), "{value:#}");
}
