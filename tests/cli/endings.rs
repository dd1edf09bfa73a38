//! Every way in which `wfhost run --json` can end gives one JSON object on standard output, and its
//! exit code.

use super::support::{World, eventually};
use super::{command, scratch, wat_guest, wfhost};
use serde_json::Value;
use std::io::Read as _;
use std::path::Path;
use std::process::{Output, Stdio};

/// What `run --json` of that text gives, and its exit code.
fn ended(text: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let (_folder, path) = scratch(text);
    told(&wfhost(&[&["run", "--json", &path], arguments].concat()))
}

fn told(output: &Output) -> (Value, Option<i32>) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&stdout)
        .unwrap_or_else(|error| panic!("{error}: {stdout}{}", String::from_utf8_lossy(&output.stderr)));
    (value, output.status.code())
}

fn kind(value: &Value) -> &str {
    value["problem"]["kind"].as_str().unwrap_or_default()
}

#[test]
fn success() {
    let (value, code) = ended("steps: [{ id: a, set: 1 }]\noutputs: { a: \"${ .steps.a.output }\" }\n", &[]);
    assert_eq!((value["status"].as_str(), code), (Some("succeeded"), Some(0)));
    assert_eq!(value["outputs"]["a"], 1);
    assert!(value["problem"].is_null() && value["run"].is_string());
}

#[test]
fn failure_has_every_step_that_failed_with_its_place() {
    let text = "steps:\n  - id: a\n    set: \"x ${ 1 | error } y\"\n  - { id: b, set: \"${ 2 | error }\" }\n";
    let (value, code) = ended(text, &[]);
    assert_eq!((value["status"].as_str(), code), (Some("failed"), Some(1)));
    assert_eq!(kind(&value), "step-failed");
    let place = |at: &Value| [&at["line"], &at["column"], &at["end-column"]].map(|number| number.as_u64().unwrap());
    assert_eq!(place(&value["problem"]["at"]), [3, 16, 25], "the expression");
    let failed = value["failed"].as_array().unwrap();
    assert_eq!((failed[0]["step"].as_str(), place(&failed[0]["at"])), (Some("a"), [2, 9, 10]));
    assert_eq!((failed[1]["step"].as_str(), place(&failed[1]["at"])), (Some("b"), [4, 11, 12]));
}

#[test]
fn a_timeout_is_the_same_in_text_and_in_json() {
    let text = "steps: [{ id: a, wait: 1h }]\n";
    let (value, code) = ended(text, &["--timeout", "5s"]);
    assert_eq!((value["status"].as_str(), kind(&value), code), (Some("timed-out"), "timed-out", Some(3)));
    assert!(value["problem"]["hint"].as_str().unwrap().contains("--timeout 10s"));
    let (_folder, path) = scratch(text);
    let output = wfhost(&["run", "-q", &path, "--timeout", "5s"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with("error[timed-out]: "), "{stderr}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_run_that_is_over_in_time_has_not_timed_out() {
    let (value, code) = ended("steps: [{ id: a, set: \"${ 1 | error }\" }]\n", &["--timeout", "1h"]);
    assert_eq!((value["status"].as_str(), code), (Some("failed"), Some(1)));
}

#[test]
fn signals_cancel() {
    for (signal, arguments) in
        [("-INT", &[][..]), ("-INT", &["--durability", "none"]), ("-TERM", &["--durability", "none"])]
    {
        let text = "steps: [{ id: said, call: log, with: { message: x } }, { id: a, wait: 1h }]\n";
        let (_folder, path) = scratch(text);
        let arguments = [&["run", "--json", &path], arguments].concat();
        let mut child = command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        await_signals(child.id());
        assert!(std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let value: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((value["status"].as_str(), kind(&value)), (Some("cancelled"), "cancelled"));
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}

/// A guest that logs as much as it may in each step, and never waits.
fn chatty() -> Vec<u8> {
    let step = r#"
        (import "wfhost:process/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32 i32)))
        (func $step (param i32 i32) (result i32)
            (call $log (i32.const 2) (i32.const 2048) (i32.const 60000) (i32.const 0) (i32.const 0) (i32.const 0))
            (i32.const 1024))"#;
    wat_guest::component("process", &wat_guest::module(step))
}

/// It writes more than the disk takes: it is slowed down, and what comes from outside reaches it
/// all the same.
#[test]
fn signals_end_a_run_that_outruns_its_journal() {
    for (signal, id, status) in [("-INT", "cancelled", "cancelled"), ("-TERM", "suspended", "suspended")] {
        let world = World::new("steps: [{ id: a, uses: ./chatty.wasm }]\n");
        std::fs::write(Path::new(&world.file).with_file_name("chatty.wasm"), chatty()).unwrap();
        let going = world.begin(id, "a", &[]);
        let written = || {
            let files = std::fs::read_dir(&world.data).unwrap().flatten();
            files.filter_map(|file| Some(file.metadata().ok()?.len())).sum::<u64>()
        };
        let before = written();
        eventually(|| (written() > before + (100 << 20)).then_some(()));
        going.send(signal);
        let (value, code) = going.told();
        assert_eq!((value["status"].as_str(), code), (Some(status), Some(3)), "{value}");
    }
}

/// Before the run there is nothing to cancel: the command ends, and says so. Here it waits for the
/// text of the workflow.
#[test]
fn signals_end_what_has_not_begun() {
    let mut child =
        command(&["run", "--json", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    await_signals(child.id());
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((value["status"].as_str(), kind(&value)), (Some("cancelled"), "cancelled"));
    assert!(value["run"].is_null());
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// Waits until a process catches SIGINT and SIGTERM: bits 2 and 15 of the kernel's mask, counted
/// from 1.
pub(crate) fn await_signals(id: u32) {
    for _ in 0..6_000 {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        let caught = u64::from_str_radix(caught, 16).unwrap();
        if caught & (1 << 1) != 0 && caught & (1 << 14) != 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never listens");
}

#[test]
fn a_definition_error_has_every_problem_with_its_place() {
    let (value, code) = ended("steps:\n  - { id: a, wiat: 1s }\n  - { id: b, set: \"${ .steps.c }\" }\n", &[]);
    assert_eq!((value["status"].as_str(), kind(&value), code), (Some("refused"), "bad-definition", Some(2)));
    let problems = value["problems"].as_array().unwrap();
    assert!(problems.len() >= 2);
    assert!(problems.iter().all(|one| one["at"]["line"].is_u64() && one["message"].is_string()));
    assert!(value["file"].as_str().unwrap().ends_with("flow.yaml"));
}

#[test]
fn what_cannot_be_read_is_refused() {
    let (value, code) = ended("steps: [{ id: a, uses: ./none.wasm }]\n", &[]);
    assert_eq!((value["status"].as_str(), kind(&value), code), (Some("refused"), "bad-definition", Some(2)));
    assert!(value["problems"][0]["message"].as_str().unwrap().contains("none.wasm"));
    let (value, code) = told(&wfhost(&["run", "--json", "workflows/absent.yaml"]));
    assert_eq!((value["status"].as_str(), kind(&value), code), (Some("refused"), "unreadable", Some(2)));
    let (value, code) = told(&wfhost(&["run", "--json", "workflows"]));
    assert_eq!((value["status"].as_str(), kind(&value), code), (Some("refused"), "unreadable", Some(2)));
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let text = "inputs: { n: integer }\nsteps: [{ id: a, set: 1 }]\n";
    for arguments in [&[][..], &["-i", "n=x"], &["-i", "m=1"], &["-i", "novalue"], &["-i", "@/does/not/exist"]] {
        let (value, code) = ended(text, arguments);
        assert_eq!((value["status"].as_str(), kind(&value), code), (Some("refused"), "bad-input", Some(2)));
        assert!(value["problem"]["hint"].as_str().unwrap().contains("--input key=value"), "{arguments:?}");
    }
}

#[test]
fn usage_errors_are_json_too() {
    for arguments in [
        &["--timeout", "5"][..],
        &["--slots", "0"],
        &["--workers", "x"],
        &["--allow-address", "nonsense"],
        &["--no-such-flag"],
        &["another.yaml"],
    ] {
        let (value, code) = ended("steps: [{ id: a, set: 1 }]\n", arguments);
        assert_eq!(
            (value["status"].as_str(), kind(&value), code),
            (Some("refused"), "usage", Some(2)),
            "{arguments:?}"
        );
        assert!(value["problem"]["hint"].is_string(), "{arguments:?}");
    }
    let (value, code) = told(&wfhost(&["run", "--json"]));
    assert_eq!((kind(&value), code), ("usage", Some(2)));
}

/// A reader that goes away has what it wanted, whatever the format.
#[test]
fn a_closed_pipe_is_no_problem() {
    let (_folder, path) = scratch("steps: [{ id: a, set: 1 }]\n");
    for arguments in [&["run", "--json"][..], &["run", "--json", "--no-such-flag"]] {
        let mut child = command(&[arguments, &[&path]].concat()).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(if arguments.len() == 2 { 0 } else { 2 }));
    }
}

#[test]
fn a_cache_that_cannot_be_used_is_a_warning_and_no_error() {
    let (folder, path) = scratch("steps: [{ id: a, set: 1 }]\n");
    let file = folder.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let run = |arguments: &[&str]| command(arguments).env("WFHOST_CACHE", &file).output().unwrap();
    let output = run(&["run", &path]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("warning: compiled code is not stored").count(), 1, "{stderr}");
    assert!(stderr.contains("a-file") && stderr.contains("hint: --cache DIR"), "{stderr}");
    assert_eq!(output.status.code(), Some(0));
    let (value, code) = told(&run(&["run", "--json", &path]));
    assert_eq!((value["warnings"].as_array().map(Vec::len), code), (Some(1), Some(0)));
    assert_eq!(String::from_utf8_lossy(&run(&["run", "-q", &path]).stderr), "");
    // Who wants none is not warned.
    let output = command(&["run", &path]).env("WFHOST_CACHE", "").output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("warning"));
}
