//! `wfhost run`.

use super::{assert_transcript, command, root, scratch, wfhost};
use serde_json::Value;
use std::io::Read as _;
use std::process::Stdio;

#[test]
fn hello() {
    assert_transcript("hello", &wfhost(&["run", "workflows/hello.yaml", "--input", "name=Ann"]));
}

#[test]
fn quiet_prints_outputs_only() {
    assert_transcript("quiet_prints_outputs_only", &wfhost(&["run", "-q", "workflows/hello.yaml"]));
}

#[test]
fn json_has_status_outputs_and_counts() {
    let output = wfhost(&["run", "--json", "workflows/hello.yaml"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["status"], "succeeded");
    assert_eq!(value["outputs"]["greeting"], "Hello, world!");
    assert_eq!(value["counts"]["processes"], 2);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// The whole of a public data set, against what an independent program computed of it.
#[test]
fn weather_is_what_python_computed() {
    let csv = "csv=@workflows/weather/weather.csv";
    let output = wfhost(&["run", "--json", "workflows/weather/workflow.yaml", "--input", csv]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = std::fs::read_to_string(root().join("workflows/weather/expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let outputs = &value["outputs"];
    assert_eq!(outputs["records"], 2922);
    assert_eq!(outputs["parts"], 12);
    let mut compared = 0;
    for (location, columns) in expected.as_object().unwrap() {
        for (column, summary) in columns.as_object().unwrap() {
            for (name, figure) in summary.as_object().unwrap() {
                let ours = outputs["groups"][location][column][name].as_f64().unwrap();
                let theirs = figure.as_f64().unwrap();
                let tolerance = 1e-9 * theirs.abs().max(1.0);
                assert!((ours - theirs).abs() <= tolerance, "{location} {column} {name}: {ours} is not {theirs}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 2 * 4 * 5);
}

#[test]
fn a_missing_input_is_a_usage_error() {
    assert_transcript("a_missing_input_is_a_usage_error", &wfhost(&["run", "workflows/weather/workflow.yaml"]));
}

#[test]
fn an_unknown_input_gets_a_suggestion() {
    assert_transcript(
        "an_unknown_input_gets_a_suggestion",
        &wfhost(&["run", "workflows/hello.yaml", "--input", "nam=Ann"]),
    );
}

#[test]
fn a_file_that_is_not_there() {
    assert_transcript("a_file_that_is_not_there", &wfhost(&["run", "workflows/absent.yaml"]));
}

/// A reader that goes away has what it wanted.
#[test]
fn a_closed_pipe_is_success() {
    let mut child = command(&["run", "-q", "workflows/hello.yaml"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn ctrl_c_cancels_cleanly() {
    let (_folder, path) = scratch("steps: [{ id: wait, wait: 1h }]\n");
    let mut child = command(&["run", &path]).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    // Its first line says that the step runs: from then on signals are heard.
    let mut first = [0; 1];
    stderr.read_exact(&mut first).unwrap();
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{rest}");
    assert!(rest.contains("interrupted: cancelling the run"), "{rest}");
}

/// A full disk is told, and is no usage error.
#[test]
fn outputs_that_cannot_be_written_are_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&["run", "-q", "workflows/hello.yaml"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("error: cannot write to standard output: No space left"), "{said}");
    assert!(said.contains(" itself succeeded; `wfhost status "), "{said}");
}

#[test]
fn what_cannot_be_written_is_a_failure_and_what_nobody_reads_is_none() {
    let world = super::support::World::new("steps: [{ id: a, set: 1 }]");
    world.says(&["run", "-q", "--durability", "journal", "--run-id", "it", &world.file]);
    let talks: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["help", "run"],
        &["run", "--help"],
        &["completions", "bash"],
        &["ls"],
        &["ps", "--json"],
        &["status", "it"],
        &["logs", "it"],
        &["history", "it"],
        &["history", "--json", "it"],
        &["plan", &world.file],
        &["graph", &world.file],
        &["verify", "it"],
    ];
    for arguments in talks {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = super::command_in(&world.data, arguments).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("error: cannot write to standard output: No space left"), "{arguments:?}: {said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = super::command_in(&world.data, arguments).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.contains("error")), (Some(0), false), "{arguments:?}: {said}");
    }
}

/// What the environment says is not written into the usage as if it had to be given.
#[test]
fn the_usage_has_what_is_required() {
    let output = command(&["status"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Usage: wfhost status <RUN>\n"), "{said}");
}

#[test]
fn values_that_cannot_be_are_refused_with_the_way_out() {
    let transcripts: Vec<String> = [
        ["--slots", "0"],
        ["--slots", "99999999"],
        ["--slots", "many"],
        ["--workers", "0"],
        ["--workers", "100000"],
        ["--timeout", "5"],
        ["--timeout", "soon"],
        ["--timeout", "0s"],
        ["--allow-address", "nonsense"],
        ["--allow-address", "localhost:8080"],
        ["--allow-address", "10.0.0.0/33"],
        ["--allow-address", "http://10.0.0.1/"],
    ]
    .iter()
    .map(|[flag, value]| super::transcript(&wfhost(&["run", "workflows/hello.yaml", flag, value])))
    .collect();
    super::assert_text("values_that_cannot_be", &transcripts.join("\n"));
}
