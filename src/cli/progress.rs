//! What a person sees of a run while it goes on: a line for each step that runs, redrawn on a terminal, and a line for each that
//! has ended. Without a terminal there are only lines, each written once.

use super::terminal::{Terminal, printable, say};
use crate::process::{Level, LogLine, Pid};
use crate::run::{Events, RunEvent};
use crate::workflow::interpreter::progress::{NodeProgress, Progress as Told, RetryProgress};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Events that may wait for this thread. A terminal that is slower than the run loses some, and says how many.
pub(super) const EVENTS_MAX: usize = 65_536;

/// How often a line on a terminal is redrawn.
const TICK: Duration = Duration::from_millis(100);

/// Steps that are redrawn at one time; others show when they end. Arbitrary: half a terminal.
const BARS_MAX: usize = 12;

/// Follows a run until it is over. It runs on a thread of its own: a terminal that blocks holds nothing else.
pub(super) fn follow(events: Events, terminal: Terminal) {
    let mut progress =
        Progress { terminal, bars: MultiProgress::new(), running: BTreeMap::new(), names: BTreeMap::new() };
    while !events.is_over() {
        if let Some(event) = events.wait_for(TICK) {
            progress.hear(event);
        }
        progress.running.values().filter_map(|running| running.bar.as_ref()).for_each(ProgressBar::tick);
    }
    for running in progress.running.into_values() {
        running.bar.inspect(ProgressBar::finish_and_clear);
    }
    let dropped = events.dropped();
    if dropped > 0 {
        say(&format!("({dropped} lines of progress were dropped)"));
    }
}

struct Progress {
    terminal: Terminal,
    bars: MultiProgress,
    running: BTreeMap<String, Running>,
    /// What processes are called: the step that they belong to, or the entry that they run.
    names: BTreeMap<Pid, String>,
}

struct Running {
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn hear(&mut self, event: RunEvent) {
        match event {
            RunEvent::Spawned { pid, scope, entry, parent, .. } => {
                let name = match (scope, parent.and_then(|parent| self.names.get(&parent))) {
                    (Some(scope), _) => scope.split('/').next().unwrap_or_default().to_owned(),
                    (None, Some(parent)) => parent.clone(),
                    (None, None) => entry.to_string(),
                };
                self.names.insert(pid, name);
            }
            RunEvent::Ended { pid, .. } => {
                self.names.remove(&pid);
            }
            RunEvent::Logged { pid, line } => match Told::of(&line) {
                // Only the root tells of nodes: a guest that writes such lines is just a guest that writes lines.
                Some(Told::Node(node)) if pid == Pid::ROOT => self.node(&node),
                Some(Told::Retry(retry)) if pid == Pid::ROOT => self.retry(&retry),
                _ => self.logged(pid, &line),
            },
            _ => {}
        }
    }

    fn node(&mut self, node: &NodeProgress) {
        match node.status.as_str() {
            "waiting" => {}
            "running" => self.runs(node),
            _ => self.ended(node),
        }
    }

    fn runs(&mut self, node: &NodeProgress) {
        let is_new = !self.running.contains_key(&node.node);
        if is_new {
            let shown = self.running.values().filter(|running| running.bar.is_some()).count();
            let bar = (self.terminal.live && shown < BARS_MAX).then(|| {
                let style = ProgressStyle::with_template("{spinner} {prefix:16} {msg} {elapsed}");
                let bar =
                    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                self.bars.add(bar.with_prefix(printable(&node.node).into_owned()))
            });
            self.running.insert(node.node.clone(), Running { since: Instant::now(), bar });
            if !self.terminal.live {
                let items = if node.total > 1 { format!(" ({} items)", node.total) } else { String::new() };
                say(&format!("{}: running{items}", printable(&node.node)));
            }
        }
        if let Some(Running { bar: Some(bar), .. }) = self.running.get(&node.node) {
            let failed = if node.failed > 0 { format!(", {} failed", node.failed) } else { String::new() };
            let items = if node.total > 1 { format!("{}/{}{failed}", node.done, node.total) } else { String::new() };
            bar.set_message(items);
        }
    }

    fn ended(&mut self, node: &NodeProgress) {
        let running = self.running.remove(&node.node);
        let took = running.as_ref().map_or(Duration::ZERO, |running| running.since.elapsed());
        running.and_then(|running| running.bar).inspect(ProgressBar::finish_and_clear);
        let (sign, colour) = match node.status.as_str() {
            "succeeded" => ("✓", "32"),
            "failed" => ("✗", "31"),
            "skipped" | "unreached" => ("-", "2"),
            _ => ("!", "33"),
        };
        let items = if node.total > 1 { format!(" {}/{} items", node.done, node.total) } else { String::new() };
        let tries = if node.attempts > 1 { format!(", {} attempts", node.attempts) } else { String::new() };
        let mut line = format!("{} {}: {}{items}{tries}", self.terminal.paint(colour, sign), node.node, node.status);
        if !took.is_zero() {
            line.push_str(&format!(" in {}", duration(took)));
        }
        if let Some(title) = node.error["title"].as_str() {
            line.push_str(&format!(": {}", printable(title)));
        }
        self.line(&line);
    }

    fn retry(&self, retry: &RetryProgress) {
        let item = retry.item.map_or(String::new(), |item| format!("[{item}]"));
        let delay = duration(Duration::from_micros(retry.delay_us));
        let RetryProgress { node, attempt, title, .. } = retry;
        self.line(&format!(
            "{} {node}{item}: attempt {attempt} failed, again in {delay}: {}",
            self.terminal.paint("33", "!"),
            printable(title)
        ));
    }

    fn logged(&self, pid: Pid, line: &LogLine) {
        let (level, colour) = match line.level {
            Level::Trace | Level::Debug => return,
            Level::Info => ("info", "34"),
            Level::Warn => ("warn", "33"),
            Level::Error => ("error", "31"),
        };
        let name = self.names.get(&pid).map_or("", String::as_str);
        let fields = line.fields.as_ref().map_or(String::new(), |fields| format!(" {}", fields.as_str()));
        let text = format!("{}{fields}", line.text);
        let text = printable(&text).replace('\n', "\n    ");
        self.line(&format!("  {name} [{pid}] {}: {text}", self.terminal.paint(colour, level)));
    }

    /// A line that stays, above those that are redrawn. What comes from a guest has been made harmless.
    fn line(&self, line: &str) {
        if self.terminal.live {
            self.bars.suspend(|| say(line));
        } else {
            say(line);
        }
    }
}

fn duration(duration: Duration) -> String {
    match duration.as_millis() {
        0 => "under 1 ms".to_owned(),
        millis @ 1..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}
