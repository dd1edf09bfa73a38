//! `wfhost dev`: what a change of a file comes to.

use super::command;
use super::support::eventually;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A watch that is on, and the files that it writes to.
struct Watching {
    process: Child,
    folder: tempfile::TempDir,
}

impl Watching {
    fn new(text: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("flow.yaml"), text).unwrap();
        let file = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
        let mut command = command(&[&["dev", "flow.yaml"], arguments].concat());
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        let process = command.spawn().unwrap();
        Self { process, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As an editor does: whole, by a rename.
    fn edit(&self, name: &str, text: &str) {
        std::fs::write(self.path("edited"), text).unwrap();
        std::fs::rename(self.path("edited"), self.path(name)).unwrap();
    }

    /// Waits until it shows this after what it showed before.
    fn shows(&self, stream: &str, text: &str) -> String {
        let read = || std::fs::read_to_string(self.path(stream)).unwrap();
        eventually(|| read().contains(text).then(read))
    }

    fn interrupt(mut self) -> Option<i32> {
        let sent = std::process::Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
        eventually(|| self.process.try_wait().unwrap()).code()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn set(value: &str) -> String {
    format!(
        "inputs: {{ n: integer }}\nsteps:\n  - {{ id: a, set: {value} }}\noutputs: {{ a: \"${{ .steps.a.output }}\", n: 7 }}\n"
    )
}

#[test]
fn a_change_runs_it_again_and_shows_what_differs() {
    let watching = Watching::new(&set("\"${ .inputs.n }\""), &["--input", "n=3"]);
    watching.shows("err", "watching 1 file");
    watching.edit("flow.yaml", &set("\"${ .inputs.n + 1 }\""));
    let said = watching.shows("err", "~ a: 3 → 4");
    assert!(said.contains("flow.yaml changed") && !said.contains("n: 7"), "{said}");
    // A mistake is shown with its place, and the watch goes on.
    watching.edit("flow.yaml", &set("1, sett: 2"));
    let said = watching.shows("err", "flow.yaml has 1 problem");
    assert!(said.contains(" --> flow.yaml:3:"), "{said}");
    watching.edit("flow.yaml", "steps: [");
    watching.shows("err", "error");
    watching.edit("flow.yaml", &set("9"));
    watching.shows("err", "~ a: 4 → 9");
    let printed = watching.shows("out", "\"a\": 9");
    assert_eq!(printed.matches("\"n\": 7").count(), 3, "{printed}");
    assert_eq!(watching.interrupt(), Some(0));
}

#[test]
fn a_change_ends_a_run_that_waits_and_nothing_is_stored() {
    let waits = "steps: [{ id: asks, wait: { signal: never } }]\n";
    let watching = Watching::new(waits, &["--color", "never"]);
    watching.shows("err", "asks");
    watching.edit("flow.yaml", "steps: [{ id: a, set: 1 }]\noutputs: { a: 1 }\n");
    watching.shows("out", "\"a\": 1");
    // Ctrl-C while a run waits ends both.
    watching.edit("flow.yaml", waits);
    eventually(|| {
        let said = std::fs::read_to_string(watching.path("err")).unwrap();
        (said.matches("waits for signal never").count() == 2).then_some(())
    });
    let parent = watching.process.id();
    let children = || {
        let of = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let all = std::fs::read_dir("/proc").unwrap().map(Result::unwrap).map(of);
        all.filter(|status| status.contains(&format!("\nPPid:\t{parent}\n"))).count()
    };
    assert_eq!(children(), 1);
    assert_eq!(watching.interrupt(), Some(0));
    assert_eq!(children(), 0);
}

#[test]
fn a_file_that_is_missing_is_named() {
    let output = super::wfhost(&["dev", "nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no file nowhere.yaml to watch"));
    assert!(!Path::new("nowhere.yaml").exists());
}
