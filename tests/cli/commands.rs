//! Everything but `run`.

use super::{assert_transcript, wfhost};
use serde_json::Value;

#[test]
fn without_arguments_there_is_help() {
    let output = wfhost(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: wfhost"));
}

#[test]
fn every_command_has_help() {
    for command in ["run", "validate", "plan", "graph", "inspect", "doctor", "completions"] {
        let output = wfhost(&[command, "--help"]);
        assert!(output.status.success(), "{command}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: wfhost"), "{command}");
    }
}

#[test]
fn validate_says_what_is_valid() {
    assert_transcript(
        "validate_says_what_is_valid",
        &wfhost(&["validate", "workflows/hello.yaml", "workflows/weather/workflow.yaml"]),
    );
}

#[test]
fn validate_reports_every_problem_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.yaml");
    let text =
        "name: bad\nstep:\n  - id: a\nsteps:\n  - id: a\n    wiat: 1s\n  - id: b\n    set: ${ .steps.c.output }\n";
    std::fs::write(&path, text).unwrap();
    let output = wfhost(&["validate", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    for expected in ["bad.yaml:2:1", "bad.yaml:6:5", "bad.yaml:8:"] {
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
    let output = wfhost(&["validate", "--json", path.to_str().unwrap()]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value[0]["problems"].as_array().unwrap().len() >= 3);
}

#[test]
fn plan_shows_order_grants_and_digests() {
    assert_transcript("plan_shows_order_grants_and_digests", &wfhost(&["plan", "workflows/weather/workflow.yaml"]));
}

#[test]
fn graph_as_text_and_mermaid() {
    assert_transcript("graph_as_text_and_mermaid", &wfhost(&["graph", "workflows/weather/workflow.yaml"]));
    assert_transcript(
        "graph_as_text_and_mermaid_2",
        &wfhost(&["graph", "-f", "mermaid", "workflows/weather/workflow.yaml"]),
    );
    assert_transcript(
        "graph_as_text_and_mermaid_3",
        &wfhost(&["graph", "-f", "dot", "workflows/weather/workflow.yaml"]),
    );
}

#[test]
fn inspect_names_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("module.wasm");
    std::fs::write(&module, b"\0asm\x01\0\0\0").unwrap();
    let output = wfhost(&["inspect", module.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("core WebAssembly module"));
}

#[test]
fn doctor_knows_pool_and_cache() {
    let output = wfhost(&["doctor", "--json", "--slots", "100"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["pool"]["slots"], 100);
    assert!(value["cache"]["folder"].is_string());
}

#[test]
fn completions_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = wfhost(&["completions", shell]);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("wfhost"), "{shell}");
    }
}
