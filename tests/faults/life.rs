//! The life of one host process, as the test that started it sees it.

use crate::hosted::{self, ORDERS, Orders, Said};
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
    heard: Arc<Heard>,
    listener: Option<JoinHandle<()>>,
}

/// What it has printed so far.
#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<Said>>,
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
        let heard = Arc::new(Heard::default());
        let (lines, hears) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&heard));
        let listener = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(said) = Said::read(&line) {
                    hears.lines.lock().unwrap().push(said);
                    hears.more.notify_all();
                }
            }
        });
        Self { child, heard, listener: Some(listener) }
    }

    /// Waits for this many lines of a kind. Returns whether they came in time.
    pub(crate) fn wait_for(&self, count: usize, kind: impl Fn(&Said) -> bool, until: Instant) -> bool {
        let mut lines = self.heard.lines.lock().unwrap();
        while lines.iter().filter(|line| kind(line)).count() < count {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            lines = self.heard.more.wait_timeout(lines, left).unwrap().0;
        }
        true
    }

    /// What it has printed so far.
    pub(crate) fn said(&self) -> Vec<Said> {
        self.heard.lines.lock().unwrap().clone()
    }

    /// Everything it has printed, once it has ended.
    fn over(&mut self) -> Vec<Said> {
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
        self.heard.lines.lock().unwrap().clone()
    }

    /// Sends it a signal of the operating system.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// Sends SIGKILL. Returns what was printed before it.
    pub(crate) fn kill(mut self) -> Vec<Said> {
        // It may have ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        self.over()
    }

    /// Waits for its own end. Returns how it ended, and what was printed.
    pub(crate) fn end(mut self, within: Duration) -> (Option<i32>, Vec<Said>) {
        let until = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.over());
            }
            if Instant::now() > until {
                let said = self.kill();
                panic!("a host is still there after {within:?}, with {} lines said: {:?}", said.len(), said.last());
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
pub(crate) fn ended(said: &[Said]) -> impl Iterator<Item = (Job, &Value)> {
    said.iter().filter_map(|said| match said {
        Said::Ended(job, outputs) => Some((*job, outputs)),
        _ => None,
    })
}

/// The lines that report trouble.
pub(crate) fn bad(said: &[Said]) -> Vec<String> {
    let bad = |said: &Said| match said {
        Said::Bad(word, rest) => Some(format!("{word} {rest}")),
        _ => None,
    };
    said.iter().filter_map(bad).collect()
}
