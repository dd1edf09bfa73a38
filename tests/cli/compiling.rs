//! A compiler that takes long ends with the command that needs it, whatever ends that.

use super::slow;
use super::{command, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A workflow whose component takes minutes to compile.
fn world() -> (tempfile::TempDir, String) {
    let (folder, file) = scratch("steps: [{ id: a, uses: ./slow.wasm }]\n");
    std::fs::write(folder.path().join("slow.wasm"), slow::component()).unwrap();
    (folder, file)
}

fn begin(arguments: &[&str], cache: &Path) -> Child {
    command(arguments).env("WFHOST_CACHE", cache).stdout(Stdio::piped()).spawn().unwrap()
}

/// The compiler that a process has started, once it is there.
fn compiler_of(parent: &Child) -> PathBuf {
    let parent = format!("PPid:\t{}\n", parent.id());
    let is_it = |process: &PathBuf| {
        let read = |name: &str| std::fs::read_to_string(process.join(name)).unwrap_or_default();
        read("status").contains(&parent) && read("cmdline").contains("--wfhost-compile")
    };
    for _ in 0..6_000 {
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        if let Some(found) = processes.into_iter().find(is_it) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it starts no compiler");
}

/// Waits until a process is no more, or only its entry is left.
fn await_end(process: &Path) {
    for _ in 0..6_000 {
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        if status.is_empty() || status.contains("State:\tZ") {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it goes on");
}

/// What cannot fit by its names alone is refused without compiling it, however long that would
/// take.
#[test]
fn what_cannot_fit_is_refused_before_it_is_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("misfit.wasm");
    std::fs::write(&path, slow::misfit()).unwrap();
    let path = path.to_str().unwrap();
    std::fs::write(folder.path().join("flow.yaml"), "steps: [{ id: a, uses: ./misfit.wasm }]\n").unwrap();
    let flow = folder.path().join("flow.yaml");
    for arguments in [["inspect", path], ["validate", flow.to_str().unwrap()]] {
        let mut command = command(&arguments);
        let output = command.env("WFHOST_CACHE", folder.path().join("cache")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("wfhost:process/guest@0.1.0") && !said.contains("compiling"), "{said}");
    }
}

/// Half a minute without a word looks like a host that hangs.
#[test]
fn what_is_compiled_is_said() {
    let (folder, file) = world();
    std::fs::write(folder.path().join("slow.wasm"), slow::large()).unwrap();
    for (arguments, is_said) in [
        (&["run", &file, "--timeout", "2s"][..], true),
        (&["run", &file, "--timeout", "2s", "-q"], false),
        (&["run", &file, "--timeout", "2s", "--json"], false),
    ] {
        let mut command = command(arguments);
        let output = command.env("WFHOST_CACHE", folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains("compiling slow.wasm ("), is_said, "{arguments:?} {said}");
    }
}

fn told(child: Child) -> (Value, Option<i32>) {
    let output = child.wait_with_output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

#[test]
fn a_timeout_counts_from_the_start_of_the_command() {
    let (folder, file) = world();
    let child = begin(&["run", "--json", &file, "--timeout", "2s"], folder.path());
    let compiler = compiler_of(&child);
    let (told, code) = told(child);
    assert_eq!((&told["status"], &told["problem"]["kind"], code), (&json!("timed-out"), &json!("timed-out"), Some(3)));
    let hint = told["problem"]["hint"].as_str().unwrap();
    assert!(hint.starts_with("to give it longer: wfhost run ") && hint.ends_with("--timeout 4s"), "{hint}");
    await_end(&compiler);
}

#[test]
fn a_signal_ends_the_compiler_too() {
    for signal in ["-TERM", "-INT", "-KILL"] {
        let (folder, file) = world();
        let mut child = begin(&["run", "--json", &file], folder.path());
        let compiler = compiler_of(&child);
        super::endings::await_signals(child.id());
        assert!(std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        if signal == "-KILL" {
            child.wait().unwrap();
        } else {
            let (told, code) = told(child);
            assert_eq!((&told["status"], code), (&json!("cancelled"), Some(3)));
        }
        await_end(&compiler);
    }
}

/// Whoever starts it may have lowered its limits, below what the compiler would take.
#[test]
fn lower_limits_than_the_compilers_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (program, component) = (env!("CARGO_BIN_EXE_wfhost"), super::root().join("guests/built/hello.wasm"));
    let command = format!("ulimit -t 15 -d 900000 -n 24; exec {program} inspect {}", component.display());
    let mut inspect = std::process::Command::new("sh");
    let output = inspect.args(["-c", &command]).env("WFHOST_CACHE", folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", super::transcript(&output));
}
