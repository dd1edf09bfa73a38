//! Everything but `run`.

use super::{assert_transcript, command, wfhost};
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

/// The knobs of the host stand where they turn something, with their defaults.
#[test]
fn help_has_the_options_that_mean_something() {
    let help = |command: &str| String::from_utf8(wfhost(&[command, "--help"]).stdout).unwrap();
    // Lines are wrapped as wide as the terminal is.
    let run = help("run").split_whitespace().collect::<Vec<_>>().join(" ");
    for flag in ["--workers", "--slots", "--profile", "--allow-address", "--cache", "--timeout"] {
        let from = run.find(&format!(" {flag} <")).unwrap_or_else(|| panic!("{flag} is not in\n{run}"));
        // The next option begins with dashes too.
        let own = run[from + 3..].split(" --").next().unwrap();
        assert!(own.contains("[default: "), "{flag} has no default: {own}");
    }
    for command in ["validate", "plan", "graph", "inspect"] {
        let help = help(command);
        assert!(help.contains("--cache"), "{command}");
        for flag in ["--workers", "--slots", "--profile", "--allow-address", "--timeout"] {
            assert!(!help.contains(flag), "{command} has {flag}");
        }
    }
    let doctor = help("doctor");
    assert!(doctor.contains("--slots") && doctor.contains("--profile"));
    assert!(!doctor.contains("--workers") && !doctor.contains("--allow-address"));
}

#[test]
fn doctor_shows_what_a_run_would_use_and_ends_with_a_verdict() {
    let output = wfhost(&["doctor", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["pool"]["slots-asked"], &value["pool"]["profile"]), (&64.into(), &"fast".into()));
    assert!(value["cache"]["folder"].is_string());
    assert_eq!(value["expressions"]["works"], true);
    assert!(value["service"]["slots"].as_u64() > value["pool"]["slots"].as_u64());
    let problems = value["problems"].as_array().unwrap().len();
    let verdict = if problems == 0 { "all well".to_owned() } else { value["verdict"].as_str().unwrap().to_owned() };
    assert_eq!(output.status.code(), Some(i32::from(problems > 0)));
    let output = wfhost(&["doctor"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout.lines().last(), Some(verdict.as_str()), "{stdout}");
}

#[test]
fn doctor_finds_a_cache_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let output = command(&["doctor", "--slots", "100"]).env("WFHOST_CACHE", &file).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("problem: compiled code is not kept"), "{stdout}");
    assert!(stdout.contains("pool.slots                   100\n"), "{stdout}");
    assert!(stdout.lines().last().unwrap().contains(" problem"), "{stdout}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn completions_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = wfhost(&["completions", shell]);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("wfhost"), "{shell}");
    }
}
