//! The life of one host process, as the test that started it sees it.

use crate::hosted::{self, Line, ORDERS, Orders};
use crate::work::Job;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running host. It is killed when it is dropped.
pub(crate) struct Life {
    child: Child,
    printed: Arc<Printed>,
    listener: Option<JoinHandle<()>>,
}

/// What it has printed so far.
#[derive(Default)]
struct Printed {
    lines: Mutex<Vec<Line>>,
    more: Condvar,
}

impl Life {
    pub(crate) fn begin(orders: &Orders) -> Self {
        Self::begin_with(orders, |command| command)
    }

    /// The same, after a change to the command.
    pub(crate) fn begin_with(orders: &Orders, change: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        hosted::compile();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hosted::process", "--ignored", "--nocapture"]);
        command.env(ORDERS, serde_json::to_string(orders).unwrap()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = change(&mut command).spawn().expect("this program starts again");
        let printed = Arc::new(Printed::default());
        let (lines, reader) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&printed));
        let listener = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(line) = Line::read(&line) {
                    reader.lines.lock().unwrap().push(line);
                    reader.more.notify_all();
                }
            }
        });
        Self { child, printed, listener: Some(listener) }
    }

    /// Waits for this many lines of a kind. Returns whether they came in time.
    pub(crate) fn wait_for(&self, count: usize, kind: impl Fn(&Line) -> bool, until: Instant) -> bool {
        let mut lines = self.printed.lines.lock().unwrap();
        while lines.iter().filter(|line| kind(line)).count() < count {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            lines = self.printed.more.wait_timeout(lines, left).unwrap().0;
        }
        true
    }

    /// What it has printed so far.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.printed.lines.lock().unwrap().clone()
    }

    /// Everything it has printed, once it has ended.
    fn finish(&mut self) -> Vec<Line> {
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
        self.printed.lines.lock().unwrap().clone()
    }

    /// Sends it a signal of the operating system.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// Sends SIGKILL. Returns what was printed before it.
    pub(crate) fn kill(mut self) -> Vec<Line> {
        // It may have ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        self.finish()
    }

    /// Waits for its own end. Returns how it ended, and what was printed.
    pub(crate) fn end(mut self, within: Duration) -> (Option<i32>, Vec<Line>) {
        let until = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.finish());
            }
            if Instant::now() > until {
                let lines = self.kill();
                panic!(
                    "a host is still there after {within:?}, with {} lines, the last: {:?}",
                    lines.len(),
                    lines.last()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The outputs among the lines.
pub(crate) fn ended(lines: &[Line]) -> impl Iterator<Item = (Job, &Value)> {
    lines.iter().filter_map(|line| match line {
        Line::Ended(job, outputs) => Some((*job, outputs)),
        _ => None,
    })
}

/// The lines that report trouble.
pub(crate) fn bad(lines: &[Line]) -> Vec<String> {
    let bad = |line: &Line| match line {
        Line::Bad(word, rest) => Some(format!("{word} {rest}")),
        _ => None,
    };
    lines.iter().filter_map(bad).collect()
}
