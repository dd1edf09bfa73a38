//! What a user sees of a run in progress: on a terminal, a redrawn line for each running step and a
//! permanent line for each ended one. Without a terminal there are only lines that are written
//! once.
//!
//! One thread writes all output, including notes of other threads, so that lines are never torn; a
//! terminal that blocks stalls nothing else.

use crate::cli::report::invocation::Invocation;
use crate::cli::report::{cached, waits};
use crate::cli::table::{counted, duration, seconds, took};
use crate::cli::terminal::{Terminal, fit, in_line, is_in_front, printable};
use crate::cli::watch::backlog::Backlog;
use crate::cli::watch::compilations::Compilations;
use crate::cli::watch::events::{EventSource, RemoteEvents};
use crate::cli::watch::redraw::{Redraw, Size};
use crate::host::{Line, Workflow};
use crate::process::{Level, LogLine, Pid, Timestamp};
use crate::run::{Events, RunEvent, system_time};
use crate::workflow::interpreter::progress::{
    ItemFailure, NodeProgress, Progress as StepProgress, RetryProgress, path_of,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events that may wait for this thread. A terminal that is slower than the run loses some, and
/// says how many.
pub(in crate::cli) const EVENTS_MAX: usize = 65_536;

/// How often changing lines are redrawn, and how soon notes of other threads are written.
const TICK: Duration = Duration::from_millis(100);

/// Events between two checks of the clock. Arbitrary.
const BATCH_MAX: usize = 1_000;

/// Steps that are redrawn at one time; the rest is counted. Arbitrary: half a terminal.
const LINES_MAX: usize = 12;

/// The columns of a step's name on a line that changes. Arbitrary.
const NAME_COLUMNS_MAX: usize = 24;

const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

enum Notice {
    /// A line, or several.
    Line(String),
    /// A component is being compiled: its name, and a text.
    Compiling(String, String),
    /// It is no longer.
    Compiled(String),
    /// The run has started, or was found.
    Follow(Box<Followed>),
    /// Nothing more will come.
    Close,
}

/// Whether a step, by its path, runs for each item.
type IsList = Box<dyn Fn(&str) -> bool + Send>;

/// A run that is shown.
struct Followed {
    source: EventSource,
    /// Whether a step, by its path, runs for each item.
    is_list: IsList,
    /// What happened before.
    backlog: Backlog,
    /// The command that sends it a signal, up to the signal's name. `None` if no other process can.
    signal: Option<Invocation>,
}

/// The thread that writes, as others see it.
#[derive(Clone)]
pub(in crate::cli) struct Follower(Arc<Handle>);

struct Handle {
    notices: Sender<Notice>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Follower {
    /// Starts the thread. If that fails, nothing is shown.
    pub(in crate::cli) fn start(terminal: Terminal) -> Self {
        let (notices, received) = channel();
        let thread = std::thread::Builder::new().name("progress".to_owned());
        let thread = thread.spawn(move || Progress::new(terminal).show(&received)).ok();
        Self(Arc::new(Handle { notices, thread: Mutex::new(thread) }))
    }

    /// Writes lines that stay, soon.
    pub(in crate::cli) fn note(&self, lines: String) {
        let _ = self.0.notices.send(Notice::Line(lines));
    }

    /// Shows what is being compiled: on a terminal with the elapsed time until it is done,
    /// elsewhere in a permanent line.
    pub(in crate::cli) fn compiling(&self, component: &str, what: String) {
        let _ = self.0.notices.send(Notice::Compiling(component.to_owned(), what));
    }

    /// A component is no longer being compiled.
    pub(in crate::cli) fn compiled(&self, component: &str) {
        let _ = self.0.notices.send(Notice::Compiled(component.to_owned()));
    }

    /// Shows a run until it ends.
    pub(in crate::cli) fn follow(
        &self,
        events: Events,
        workflow: &Workflow,
        backlog: Backlog,
        signal: Option<Invocation>,
    ) {
        self.follow_source(EventSource::Local(events), workflow, backlog, signal);
    }

    /// Shows a run of another process until it ends.
    pub(in crate::cli) fn follow_remote(
        &self,
        remote: RemoteEvents,
        workflow: &Workflow,
        backlog: Backlog,
        signal: Invocation,
    ) {
        self.follow_source(EventSource::Remote(remote), workflow, backlog, Some(signal));
    }

    fn follow_source(&self, source: EventSource, workflow: &Workflow, backlog: Backlog, signal: Option<Invocation>) {
        let plan = Arc::clone(workflow.plan());
        let is_list: IsList = Box::new(move |path| plan.is_list(path));
        let _ = self.0.notices.send(Notice::Follow(Box::new(Followed { source, is_list, backlog, signal })));
    }

    /// Waits until everything is written and the changing lines are erased.
    pub(in crate::cli) fn close(&self) {
        let _ = self.0.notices.send(Notice::Close);
        if let Some(thread) = self.0.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

struct Progress {
    terminal: Terminal,
    began: Instant,
    redraw: Redraw,
    /// Lines that stay and are not yet written.
    pending: String,
    /// When what changes was last drawn.
    drawn: Instant,
    /// Nothing is drawn before the first tick: most runs have ended by then.
    is_drawing: bool,
    /// This command is in the foreground. In the background another process writes to the terminal
    /// too.
    is_in_front: bool,
    /// In the order in which they began.
    running: Vec<Running>,
    is_loading: bool,
    compiling: Compilations,
    is_list: IsList,
    /// Names of processes: the step that they belong to, or the entry that they run.
    names: BTreeMap<Pid, String>,
    /// The command that sends a signal, until it was shown.
    signal: Option<Invocation>,
}

struct Running {
    /// Its progress.
    node: NodeProgress,
    /// When it began, as its record says.
    began: Timestamp,
    /// The same by this process's clock.
    since: Instant,
}

impl Progress {
    fn new(terminal: Terminal) -> Self {
        let now = Instant::now();
        Self {
            terminal,
            began: now,
            redraw: Redraw::default(),
            pending: String::new(),
            drawn: now,
            is_drawing: false,
            is_in_front: is_in_front(),
            running: Vec::new(),
            is_loading: true,
            compiling: Compilations::default(),
            is_list: Box::new(|_| false),
            names: BTreeMap::new(),
            signal: None,
        }
    }

    fn show(mut self, notices: &Receiver<Notice>) {
        loop {
            let goes_on = match notices.recv_timeout(TICK) {
                Ok(Notice::Follow(followed)) => self.follow(*followed, notices),
                Ok(Notice::Close) | Err(RecvTimeoutError::Disconnected) => false,
                Err(RecvTimeoutError::Timeout) => true,
                Ok(notice) => self.takes(notice),
            };
            if !goes_on {
                break;
            }
            self.draw();
        }
        self.is_drawing = false;
        self.write();
    }

    /// Takes a notice that is not about a run. Returns whether more may come.
    fn takes(&mut self, notice: Notice) -> bool {
        match notice {
            Notice::Line(lines) => self.line(&lines),
            Notice::Compiling(component, what) => {
                if !self.terminal.live {
                    self.line(&what);
                }
                self.compiling.begin(component, what);
            }
            Notice::Compiled(component) => self.compiling.end(&component),
            Notice::Follow(_) | Notice::Close => return false,
        }
        true
    }

    /// Follows a run until it ends. Returns false if no more notices will come.
    fn follow(&mut self, followed: Followed, notices: &Receiver<Notice>) -> bool {
        let Followed { source: events, is_list, backlog, signal } = followed;
        self.is_loading = false;
        (self.is_list, self.signal) = (is_list, signal);
        self.show_backlog(backlog);
        let (mut goes_on, mut next) = (true, None);
        while !events.is_over() {
            let first = events.wait_for(TICK);
            for notice in notices.try_iter() {
                match notice {
                    // The remaining events are still shown.
                    Notice::Close => goes_on = false,
                    // The end of the current run is shown first.
                    Notice::Follow(followed) => next = Some(followed),
                    notice => _ = self.takes(notice),
                }
            }
            if let Some(event) = first {
                self.show_event(event);
            }
            for _ in 0..BATCH_MAX {
                let Some(event) = events.wait_for(Duration::ZERO) else { break };
                self.show_event(event);
            }
            self.draw();
        }
        let dropped = events.dropped();
        if dropped > 0 {
            let dropped = counted(dropped, "event was", "events were");
            self.line(&format!("({dropped} dropped: the terminal was slower than the run)"));
        }
        match next {
            Some(next) => self.follow(*next, notices) && goes_on,
            None => goes_on,
        }
    }

    /// What happened before.
    fn show_backlog(&mut self, backlog: Backlog) {
        if backlog.omitted > 0 {
            self.line(&format!("({} earlier lines are omitted: `wfhost logs` shows them)", backlog.omitted));
        }
        for line in backlog.lines {
            match line.progress() {
                Some(StepProgress::Node(node)) => self.node(&node, line.at),
                Some(StepProgress::Retry(retry)) => self.retry(&retry),
                Some(StepProgress::Item(failure)) => self.item(&failure),
                None => {
                    let Line { process, line, .. } = line;
                    self.logged(&process, &line);
                }
            }
        }
    }

    /// Writes permanent lines, and redraws the changing ones when that is due.
    fn draw(&mut self) {
        let is_due = self.drawn.elapsed() >= TICK;
        if is_due || !self.pending.is_empty() {
            self.is_drawing |= is_due;
            self.write();
        }
    }

    fn write(&mut self) {
        let lasting = std::mem::take(&mut self.pending);
        self.drawn = Instant::now();
        if self.is_in_front != is_in_front() {
            // Another process writes over the drawn lines by now.
            self.is_in_front = !self.is_in_front;
            self.redraw = Redraw::default();
        }
        let frame = if self.can_draw() {
            let size = Size::now();
            let lines = if self.is_drawing { self.changing(size) } else { Vec::new() };
            self.redraw.frame(&lasting, &lines, size)
        } else {
            lasting
        };
        if frame.is_empty() {
            return;
        }
        // A closed standard error is ignored.
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(frame.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Returns whether running steps are drawn, instead of only reported.
    fn can_draw(&self) -> bool {
        self.terminal.live && self.is_in_front
    }

    /// The lines of running steps.
    fn changing(&self, size: Size) -> Vec<String> {
        let tick = (self.began.elapsed().as_millis() / TICK.as_millis()) as usize;
        let sign = SPINNER[tick % SPINNER.len()];
        if self.is_loading {
            let lines = self.compiling.lines(self.began).into_iter();
            return lines.map(|(what, elapsed)| format!("{sign} {what}  {}", seconds(elapsed))).collect();
        }
        let most = LINES_MAX.min(size.rows.saturating_sub(2)).max(1);
        let shown = self.running.iter().take(most);
        let widest = shown.clone().map(|running| running.node.node.len()).max().unwrap_or(0);
        let width = widest.min(NAME_COLUMNS_MAX).min(size.columns / 2);
        let now = system_time();
        let line = |Running { node, since, .. }: &Running| {
            let failed = if node.failed > 0 { format!(", {} failed", node.failed) } else { String::new() };
            let is_list = (self.is_list)(&node.node);
            let items = if is_list { format!("{}/{}{failed}  ", node.done, node.total) } else { String::new() };
            let waits = waits::describe_briefly(node, now).map_or_else(String::new, |waits| format!("  {waits}"));
            format!("{sign} {:width$}  {items}{}{waits}", fit(&node.node, width), seconds(since.elapsed()))
        };
        let mut lines: Vec<String> = shown.map(line).collect();
        let more = self.running.len() - lines.len();
        if more > 0 {
            lines.push(format!("  and {more} more"));
        }
        lines
    }

    fn show_event(&mut self, event: RunEvent) {
        match event {
            RunEvent::Spawned { pid, scope, entry, parent, .. } => {
                let name = match (scope, parent.and_then(|parent| self.names.get(&parent))) {
                    (Some(scope), _) => self.step(&scope),
                    (None, Some(parent)) => format!("{} > {entry}", parent.split(" > ").next().unwrap_or_default()),
                    (None, None) => entry.to_string(),
                };
                self.names.insert(pid, name);
            }
            RunEvent::Ended { pid, .. } => {
                self.names.remove(&pid);
            }
            RunEvent::Rekeyed { former, key, .. } => {
                let (former, key) = (in_line(&former), in_line(&key));
                self.line(&format!("new key {key}: the arguments differ from those under {former}"));
            }
            RunEvent::Logged { pid, scope, at, line } => match StepProgress::of(&line) {
                // Only the root reports nodes: such lines from a guest are ordinary log lines.
                Some(StepProgress::Node(node)) if pid == Pid::ROOT && scope.is_none() => self.node(&node, at),
                Some(StepProgress::Retry(retry)) if pid == Pid::ROOT && scope.is_none() => self.retry(&retry),
                Some(StepProgress::Item(failure)) if pid == Pid::ROOT && scope.is_none() => self.item(&failure),
                _ => {
                    let known = || self.names.get(&pid).cloned().unwrap_or_default();
                    let name = scope.map_or_else(known, |scope| self.step(&scope));
                    self.logged(&name, &line);
                }
            },
            _ => {}
        }
    }

    /// The step of a scope, with the item if the step runs for each.
    fn step(&self, scope: &str) -> String {
        path_of(scope, &self.is_list)
    }

    /// The new state of a step, from that time on.
    fn node(&mut self, node: &NodeProgress, at: Timestamp) {
        match node.status.as_str() {
            "waiting" => {}
            "running" => self.runs(node, at),
            _ => self.ended(node, at),
        }
    }

    fn runs(&mut self, node: &NodeProgress, at: Timestamp) {
        let known = self.running.iter().position(|running| running.node.node == node.node);
        match known {
            Some(known) => self.running[known].node = node.clone(),
            None => self.running.push(Running { node: node.clone(), began: at, since: since(at) }),
        }
        if !self.can_draw() && known.is_none() {
            let is_list = (self.is_list)(&node.node);
            let plural = if node.total == 1 { "" } else { "s" };
            let items = if is_list { format!(" ({} item{plural})", node.total) } else { String::new() };
            let waits = waits::describe_briefly(node, system_time()).filter(|_| node.only_waits());
            self.line(&format!("{}: {}{items}", in_line(&node.node), waits.as_deref().unwrap_or("running")));
        }
        if let Some(name) = waits::signal(node)
            && let Some(signal) = self.signal.take()
            && let Some(command) = signal.with_words(&[name, "JSON"]).text()
        {
            self.line(&format!("{}: {}", self.terminal.paint("1;36", "hint"), printable(&command)));
        }
    }

    fn ended(&mut self, node: &NodeProgress, at: Timestamp) {
        let running = self.running.iter().position(|running| running.node.node == node.node);
        let took = running.map(|index| took(self.running.remove(index).began, at));
        let (sign, colour) = match node.status.as_str() {
            "succeeded" => ("✓", "32"),
            "failed" => ("✗", "31"),
            "skipped" | "unreached" => ("-", "2"),
            _ => ("!", "33"),
        };
        let mut line = format!("{} {}: {}", self.terminal.paint(colour, sign), in_line(&node.node), node.status);
        if node.taken_over {
            line.push_str(", taken over");
        }
        if (self.is_list)(&node.node) && took.is_some() {
            let _ = write!(line, ", {}", node.items());
        }
        line.push_str(&cached::in_short(node, (self.is_list)(&node.node)));
        if node.attempts > 1 {
            let _ = write!(line, ", {} attempts", node.attempts);
        }
        if let Some(took) = took {
            let _ = write!(line, " in {took}");
        }
        if let Some(reason) = node.reason() {
            let _ = write!(line, ": {}", in_line(&reason));
        }
        self.line(&line);
    }

    fn item(&mut self, failure: &ItemFailure) {
        let ItemFailure { node, item, title, kind, .. } = failure;
        let sign = self.terminal.paint("33", "!");
        self.line(&format!("{sign} {}[{item}]: failed: {} ({})", in_line(node), in_line(title), in_line(kind)));
    }

    fn retry(&mut self, retry: &RetryProgress) {
        let item = retry.item.map_or(String::new(), |item| format!("[{item}]"));
        let delay = duration(Duration::from_micros(retry.delay_us));
        let RetryProgress { node, attempt, title, .. } = retry;
        let line = format!(
            "{} {}{item}: attempt {attempt} failed, next in {delay}: {}",
            self.terminal.paint("33", "!"),
            in_line(node),
            in_line(title)
        );
        self.line(&line);
    }

    fn logged(&mut self, name: &str, line: &LogLine) {
        let (level, colour) = match line.level {
            Level::Trace | Level::Debug => return,
            Level::Info => ("info", "34"),
            Level::Warn => ("warn", "33"),
            Level::Error => ("error", "31"),
        };
        let fields = line.fields.as_ref().map_or(String::new(), |fields| format!(" {}", fields.as_str()));
        let text = format!("{}{fields}", line.text);
        let text = printable(&text).replace('\n', "\n    ");
        let level = self.terminal.paint(colour, level);
        self.line(&format!("  {} {level}: {text}", in_line(name)));
    }

    /// Adds a permanent line. Text of guests has been escaped before.
    fn line(&mut self, line: &str) {
        self.pending.push_str(line);
        self.pending.push('\n');
    }
}

/// The instant of this process's clock that is as long ago as that time by the system's clock.
fn since(at: Timestamp) -> Instant {
    let now = Instant::now();
    now.checked_sub(Duration::from_micros(system_time().0.saturating_sub(at.0))).unwrap_or(now)
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
