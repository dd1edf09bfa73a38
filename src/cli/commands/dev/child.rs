//! A run of the workflow, by `wfhost run` in a process of its own: what one run leaves in memory
//! ends with it, and a run that waits can be ended when a file changes.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of outputs that are read. A run's outputs are a payload, which is smaller.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// The time that a run has to end by itself. Arbitrary: longer than the grace of its steps.
const GRACE: Duration = Duration::from_secs(10);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A run. It does not outlive this value.
pub(super) struct Running {
    process: Child,
    output: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts a run, which is lost when it ends: these are the words of `wfhost dev`.
    pub(super) fn start(words: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args(as_run(words)).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let output = process.stdout.take().map(|output| std::thread::spawn(move || read(output)));
        Ok(Self { process, output })
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.process.try_wait()?.is_some())
    }

    /// Ends it: gracefully, and otherwise by force.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if let Some(process) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It fails if the process has ended.
            let _ = kill_process(process, Signal::TERM);
        }
        let until = Instant::now() + GRACE;
        while !self.has_ended()? {
            if Instant::now() > until {
                self.process.kill()?;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// How it ended, and its outputs if it succeeded.
    pub(super) fn outcome(mut self) -> io::Result<(ExitStatus, Option<Value>)> {
        let status = self.process.wait()?;
        let output = self.output.take().and_then(|output| output.join().ok()).unwrap_or_default();
        Ok((status, status.success().then(|| serde_json::from_str(&output).ok()).flatten()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It fails if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read(output: ChildStdout) -> String {
    let mut text = String::new();
    // What cannot be read is not shown.
    let _ = output.take(OUTPUT_BYTES_MAX).read_to_string(&mut text);
    text
}

/// The words of `wfhost run` for those of `wfhost dev`.
fn as_run(words: &[OsString]) -> Vec<OsString> {
    let mut run = words.to_vec();
    if let Some(at) = run.iter().position(|word| word == "dev") {
        run.splice(at..=at, ["run", "--durability", "none", "--unlocked"].map(OsString::from));
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_a_run_that_is_not_stored() {
        let words = ["--color", "never", "dev", "dev.yaml", "-i", "dev=1"].map(OsString::from);
        let expected = ["--color", "never", "run", "--durability", "none", "--unlocked", "dev.yaml", "-i", "dev=1"];
        assert_eq!(as_run(&words), expected.map(OsString::from));
    }
}
