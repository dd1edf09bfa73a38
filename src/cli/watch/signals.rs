//! Ctrl-C, SIGTERM, and the end of the command's time. A thread of its own waits for them, so that
//! neither the compiler, which may take seconds, nor the thread that waits for the run has to.
//!
//! Before the run there is nothing to cancel: the process ends, with the compilers that it started.
//! The first Ctrl-C of a run cancels it, the second ends it at once, and the third ends the
//! process, whatever state it is in. A durable run need not be cancelled: on a terminal the first
//! Ctrl-C asks, and the others count from there; SIGTERM suspends it, and a second one ends the
//! process. For a run that is not durable, SIGTERM acts as Ctrl-C.
//!
//! A command that was asked to end has [`REPORTING_MAX`] to write its output, then it exits even if
//! the output was not read.

use crate::cli::exit::Exit;
use crate::cli::report::error::UserError;
use crate::cli::report::invocation::Invocation;
use crate::cli::report::units::exact_duration;
use crate::cli::terminal::{Terminal, say};
use crate::cli::watch::progress::Follower;
use crate::host::{Host, RunHandle};
use crate::process::problem;
use parking_lot::{Condvar, Mutex};
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// How long calls in flight may take to be answered when a durable run is suspended. Arbitrary:
/// unanswered ones are repeated under their keys.
const SUSPEND_GRACE: Duration = Duration::from_secs(2);

/// How long a command that was asked to end, or has timed out, may take to write its outcome.
/// Arbitrary: ample for any reader that is still reading.
const REPORTING_MAX: Duration = Duration::from_secs(5);

/// The stage of the command.
#[derive(Clone)]
pub(in crate::cli) enum Stage {
    /// Files are being read and compiled.
    Loading,
    /// The run is being started: signals wait.
    Starting,
    /// The run is executing.
    Running(Running),
    /// The run is executing in another process.
    Attached { run: String, process: u32 },
    /// The run has ended. `late`: because it timed out.
    Ended { late: bool },
}

/// The runs that execute here.
#[derive(Clone)]
pub(in crate::cli) struct Running {
    pub(in crate::cli) runs: Vec<RunHandle>,
    /// Their host, if they are durable.
    pub(in crate::cli) host: Option<Host>,
}

/// The thread that waits for signals, as others see it.
#[derive(Clone)]
pub(in crate::cli) struct Signals(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    json: bool,
    terminal: Terminal,
    follower: Option<Follower>,
    /// The rest of the command's time, and the hint for when it is up.
    time: Option<(Duration, Option<String>)>,
}

struct State {
    stage: Stage,
    /// The thread listens, or cannot.
    ready: bool,
    counts: SignalCounts,
}

/// Terminations that come so close together are one: `timeout` sends one to a process, and then to
/// its group. Arbitrary.
const TOGETHER: Duration = Duration::from_millis(200);

/// The signals so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SignalCounts {
    interrupts: u32,
    terminations: u32,
}

/// What the signals request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reaction {
    Ask,
    Cancel,
    Kill,
    Suspend,
    Exit,
}

impl SignalCounts {
    /// What these signals request of a run; `is_termination` is about the newest.
    fn reaction(self, is_durable: bool, can_ask: bool, is_termination: bool) -> Reaction {
        if is_durable && is_termination {
            return if self.terminations == 1 { Reaction::Suspend } else { Reaction::Exit };
        }
        let (interrupts, asks) =
            if is_durable { (self.interrupts, can_ask) } else { (self.interrupts + self.terminations, false) };
        match interrupts + u32::from(!asks) {
            0 | 1 => Reaction::Ask,
            2 => Reaction::Cancel,
            3 => Reaction::Kill,
            _ => Reaction::Exit,
        }
    }
}

impl Signals {
    /// Starts to listen.
    pub(in crate::cli) fn listen(
        json: bool,
        terminal: Terminal,
        follower: Option<Follower>,
        command: &Invocation,
    ) -> Self {
        let state = State { stage: Stage::Loading, ready: false, counts: SignalCounts::default() };
        let time = command.time_left().map(|time_left| (time_left, command.longer()));
        let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), json, terminal, follower, time };
        let signals = Self(Arc::new(shared));
        let listener = signals.clone();
        let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if listener.wait().is_err() {
                listener.is_ready();
            }
        });
        if spawned.is_err() {
            // Without the thread a signal ends the process, as it does by default.
            signals.is_ready();
        }
        signals
    }

    /// Starts the run once the thread listens: signals that arrive meanwhile wait until the run
    /// exists.
    pub(in crate::cli) fn guard<T>(&self, start: impl FnOnce() -> T) -> T {
        let mut state = self.0.state.lock();
        while !state.ready {
            self.0.changed.wait(&mut state);
        }
        state.stage = Stage::Starting;
        drop(state);
        start()
    }

    pub(in crate::cli) fn enter(&self, stage: Stage) {
        let mut state = self.0.state.lock();
        state.stage = stage;
        let (counts, is_late) = (state.counts, matches!(state.stage, Stage::Ended { late: true }));
        drop(state);
        if counts != SignalCounts::default() {
            self.react(counts, counts.terminations > 0);
        } else if is_late {
            end_soon();
        }
    }

    fn is_ready(&self) {
        self.0.state.lock().ready = true;
        self.0.changed.notify_all();
    }

    fn wait(&self) -> std::io::Result<()> {
        // Tokio panics if it gets no socket pair for signals: check that descriptors are free for
        // it.
        let room = [(); 3].map(|()| std::os::unix::net::UnixStream::pair());
        for pair in room {
            pair?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            self.is_ready();
            // A deadline that never comes equals none.
            let time_left = self.0.time.as_ref().map_or(Duration::MAX, |(time_left, _)| *time_left);
            let mut time = std::pin::pin!(tokio::time::sleep(time_left));
            let mut is_late = false;
            let mut terminated: Option<Instant> = None;
            loop {
                let is_termination = tokio::select! {
                    _ = interrupt.recv() => false,
                    _ = terminate.recv() => true,
                    () = &mut time, if !is_late => {
                        is_late = true;
                        self.time_out();
                        continue;
                    }
                };
                if is_termination {
                    if terminated.is_some_and(|at| at.elapsed() < TOGETHER) {
                        continue;
                    }
                    terminated = Some(Instant::now());
                }
                let counts = {
                    let mut state = self.0.state.lock();
                    state.counts.interrupts += u32::from(!is_termination);
                    state.counts.terminations += u32::from(is_termination);
                    state.counts
                };
                self.react(counts, is_termination);
            }
        })
    }

    /// Ends the process if the command's time is up before there is a run. After that, the thread
    /// that waits for the run sees to its timeout.
    fn time_out(&self) {
        if !matches!(self.0.state.lock().stage, Stage::Loading) {
            return;
        }
        let hint = self.0.time.as_ref().and_then(|(_, hint)| hint.clone());
        let refused = UserError::new(problem::kind::TIMED_OUT, "the time was up before the run began").timed_out();
        self.close_and_end(&refused.hint_maybe(hint));
    }

    /// Reacts to the signals so far.
    fn react(&self, counts: SignalCounts, is_termination: bool) {
        let stage = self.0.state.lock().stage.clone();
        match stage {
            Stage::Ended { .. } => end_soon(),
            Stage::Loading => self.exit(true),
            Stage::Starting if counts.interrupts + counts.terminations < 3 => {}
            Stage::Starting => self.exit(false),
            Stage::Attached { run, process } => self.detach(&run, process),
            Stage::Running(running) => match counts.reaction(running.host.is_some(), self.can_ask(), is_termination) {
                Reaction::Ask => self.ask(running),
                Reaction::Cancel => self.cancel(&running),
                Reaction::Kill => {
                    let is_full = running.host.as_ref().is_some_and(Host::is_full);
                    let what = if is_full {
                        "the disk is full, and the run is killed when there is space; interrupt again to exit at once"
                    } else {
                        "killing the run"
                    };
                    self.announce(what, || running.runs.iter().for_each(|run| run.kill("it was interrupted twice")));
                }
                Reaction::Suspend => self.suspend(running),
                Reaction::Exit => {
                    if running.host.is_some() {
                        say(&format!(
                            "{}: what is not yet written is lost",
                            self.0.terminal.paint("33", "interrupted")
                        ));
                    }
                    self.exit(false);
                }
            },
        }
    }

    /// Returns whether there is a user to ask.
    fn can_ask(&self) -> bool {
        self.0.follower.is_some() && self.0.terminal.live && std::io::stdin().is_terminal()
    }

    fn cancel(&self, running: &Running) {
        let what = if running.host.as_ref().is_some_and(Host::is_full) {
            "the disk is full: the run is cancelled as soon as there is space; interrupt again to kill it"
        } else {
            "cancelling the run; interrupt again to kill it"
        };
        self.announce(what, || {
            for run in &running.runs {
                // It may have ended in the meantime: then its end is reported.
                let _ = run.cancel("it was interrupted", None);
            }
        });
    }

    /// Asks whether to cancel or suspend a durable run. It keeps running until the answer.
    fn ask(&self, running: Running) {
        let what = "c or Ctrl-C cancels the run, d suspends it until `wfhost resume` (then Enter); until \
        then it keeps running";
        self.announce(what, || {});
        let signals = self.clone();
        // Without an answer only this thread waits.
        let _ = std::thread::Builder::new().name("answers".to_owned()).spawn(move || {
            let Ok(terminal) = std::fs::File::open("/dev/tty") else { return };
            for line in BufReader::new(terminal).lines() {
                match line.as_deref().map(str::trim) {
                    Ok("c" | "C") => return signals.cancel(&running),
                    Ok("d" | "D") => return signals.suspend(running),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
    }

    /// Suspends durable runs. The threads that wait for their outcomes receive that.
    fn suspend(&self, running: Running) {
        let Some(host) = running.host else { return };
        // Suspending waits for calls in flight, and further signals must be handled meanwhile.
        let spawned = std::thread::Builder::new().name("suspending".to_owned()).spawn(move || {
            // If the journal cannot be written, the runs' outcomes say so.
            let _ = host.suspend(SUSPEND_GRACE);
        });
        if spawned.is_err() {
            self.exit(false);
        }
    }

    /// Ends the process, but not the run.
    fn detach(&self, run: &str, process: u32) {
        // The progress display would end with the other process, so it is not awaited.
        let title = format!("the run {run} keeps running in process {process}");
        let refused = UserError::new(problem::kind::CANCELLED, title).running();
        end_soon();
        self.end(&refused.hint(format!("to end it: wfhost cancel {run}")));
    }

    /// Ends the process, but not the run, because the time to follow it is up.
    pub(in crate::cli) fn stop_following(&self, run: &str, process: u32, after: Duration) {
        if !matches!(self.0.state.lock().stage, Stage::Attached { .. }) {
            return;
        }
        let after = exact_duration(after);
        let title =
            format!("{after} have passed: the run {run} keeps running in process {process}, and is no longer followed");
        let refused = UserError::new(problem::kind::TIMED_OUT, title).running();
        let hint = format!("to follow it: wfhost logs -f {run}; to end it: wfhost cancel {run}");
        // As in `detach`, the progress display is not awaited.
        end_soon();
        self.end(&refused.hint(hint));
    }

    /// Does something and announces it: before it if there is a progress display, which shows the
    /// effects too.
    fn announce(&self, what: &str, act: impl FnOnce()) {
        let line = format!("{}: {what}", self.0.terminal.paint("33", "interrupted"));
        if let Some(follower) = &self.0.follower {
            follower.note(line);
            act();
        } else {
            act();
            say(&line);
        }
    }

    /// Ends the process. An obstacle to a clean end would also block the report, so the terminal is
    /// restored only if nothing ran.
    fn exit(&self, in_order: bool) {
        if in_order {
            self.close_and_end(
                &UserError::new(problem::kind::CANCELLED, "interrupted before the run began").cancelled(),
            );
        }
        std::process::exit(Exit::Cancelled.code());
    }

    fn close_and_end(&self, refused: &UserError) {
        end_soon();
        if let Some(follower) = &self.0.follower {
            follower.close();
        }
        self.end(refused);
    }

    fn end(&self, refused: &UserError) {
        if self.0.json {
            // A failure to print is ignored.
            let _ = refused.print();
        } else {
            refused.say(self.0.terminal);
        }
        std::process::exit(Exit::Cancelled.code());
    }
}

/// Ends the process after [`REPORTING_MAX`]: its output may go to a pipe without a reader.
fn end_soon() {
    let end = || {
        std::thread::sleep(REPORTING_MAX);
        std::process::exit(Exit::Cancelled.code());
    };
    // If the thread cannot be started, the process ends once its output has been read.
    let _ = std::thread::Builder::new().name("ending".to_owned()).spawn(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reactions(is_durable: bool, can_ask: bool) -> [Reaction; 4] {
        [1, 2, 3, 4].map(|interrupts| SignalCounts { interrupts, terminations: 0 }.reaction(is_durable, can_ask, false))
    }

    #[test]
    fn each_interrupt_is_more_than_the_one_before() {
        assert_eq!(reactions(true, true), [Reaction::Ask, Reaction::Cancel, Reaction::Kill, Reaction::Exit]);
        for (is_durable, can_ask) in [(true, false), (false, false), (false, true)] {
            assert_eq!(
                reactions(is_durable, can_ask),
                [Reaction::Cancel, Reaction::Kill, Reaction::Exit, Reaction::Exit]
            );
        }
    }

    #[test]
    fn a_termination_leaves_what_is_durable_and_cancels_what_is_not() {
        let reaction = |is_durable, interrupts, terminations| {
            SignalCounts { interrupts, terminations }.reaction(is_durable, true, true)
        };
        assert_eq!(
            [reaction(true, 0, 1), reaction(true, 2, 1), reaction(true, 0, 2)],
            [Reaction::Suspend, Reaction::Suspend, Reaction::Exit]
        );
        assert_eq!(
            [reaction(false, 0, 1), reaction(false, 1, 1), reaction(false, 1, 2)],
            [Reaction::Cancel, Reaction::Kill, Reaction::Exit]
        );
        // After a termination Ctrl-C counts by itself.
        assert_eq!(SignalCounts { interrupts: 1, terminations: 1 }.reaction(true, false, false), Reaction::Cancel);
    }
}
