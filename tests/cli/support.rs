//! Runs that go on while a test looks at them.

use super::{command_in, data, scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

/// A data folder, and a workflow to be run in it.
pub(crate) struct World {
    pub(crate) data: PathBuf,
    pub(crate) file: String,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(text: &str) -> Self {
        let (folder, file) = scratch(text);
        let guests = super::root().join("guests/built");
        std::os::unix::fs::symlink(guests, folder.path().join("guests")).unwrap();
        Self { data: data(), file, _folder: folder }
    }

    /// What a command comes to.
    pub(crate) fn does(&self, arguments: &[&str]) -> Output {
        command_in(&self.data, arguments).output().unwrap()
    }

    /// What a command that succeeds prints.
    #[track_caller]
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        let output = self.does(arguments);
        assert!(output.status.success(), "{}", super::transcript(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command that succeeds prints, as JSON.
    #[track_caller]
    pub(crate) fn tells(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(arguments)).unwrap()
    }

    /// Why a command does not do it: its exit code is 2.
    #[track_caller]
    pub(crate) fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.does(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", super::transcript(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    /// Begins a run of the workflow, and waits until it is at this step.
    pub(crate) fn begin(&self, id: &str, step: &str, arguments: &[&str]) -> Going {
        let mut going = self.spawn(&[&["run", "--json", "--run-id", id, &self.file], arguments].concat());
        eventually(|| {
            if going.0.as_mut().unwrap().try_wait().unwrap().is_some() {
                let output = going.0.take().unwrap().wait_with_output().unwrap();
                panic!("it ended before: wfhost run {}\n{}", self.file, super::transcript(&output));
            }
            self.is_at(id, step).then_some(())
        });
        going
    }

    pub(crate) fn spawn(&self, arguments: &[&str]) -> Going {
        self.spawn_by(arguments, |_| {})
    }

    /// The same of a command that is prepared so.
    pub(crate) fn spawn_by(&self, arguments: &[&str], prepare: impl FnOnce(&mut Command)) -> Going {
        let mut command = command_in(&self.data, arguments);
        prepare(&mut command);
        Going(Some(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// Whether a step of a run runs.
    pub(crate) fn is_at(&self, id: &str, step: &str) -> bool {
        let status: Value = serde_json::from_slice(&self.does(&["status", "--json", id]).stdout).unwrap_or_default();
        let steps = status["steps"].as_array().map_or(&[][..], Vec::as_slice);
        steps.iter().any(|one| one["node"] == step && one["status"] == "running")
    }
}

/// A command that goes on. It is killed where the test ends before it.
pub(crate) struct Going(Option<Child>);

impl Going {
    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn send(&self, signal: &str) {
        let sent = std::process::Command::new("kill").args([signal, &self.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it as a crash would.
    pub(crate) fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until it has ended while nobody reads what it says. Its exit code.
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let child = self.0.as_mut().unwrap();
        eventually(|| child.try_wait().unwrap()).code()
    }

    /// What it says from now on.
    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.0.as_mut().unwrap().stderr.take().unwrap()
    }

    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    /// Its standard output as JSON, and its exit code.
    #[track_caller]
    pub(crate) fn told(self) -> (Value, Option<i32>) {
        let output = self.output();
        let value = serde_json::from_slice(&output.stdout);
        (value.unwrap_or_else(|error| panic!("{error}: {}", super::transcript(&output))), output.status.code())
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Looks until there is something to be seen.
pub(crate) fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it never happens");
}

/// The files of a folder with this ending.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}
