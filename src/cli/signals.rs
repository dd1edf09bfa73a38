//! Ctrl-C and SIGTERM. A thread of its own waits for them, so that nobody else has to: neither the compiler, which may take seconds,
//! nor whoever waits for the run.
//!
//! Before the run there is nothing to cancel: the process ends. The first signal of a run cancels it, the second ends it at once, and
//! the third ends the process, whatever state it is in.

use super::Exit;
use super::progress::Follower;
use super::refused::Refused;
use super::terminal::{Terminal, say};
use crate::host::RunHandle;
use crate::process::problem;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// How far the command is.
#[derive(Clone)]
pub(super) enum Stage {
    /// Files are read and compiled.
    Loading,
    /// The run is being started: its signals wait.
    Starting,
    /// The run goes on.
    Running(RunHandle),
    /// The run is over.
    Over,
}

/// The thread that waits for signals, as others see it.
#[derive(Clone)]
pub(super) struct Signals(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    json: bool,
    terminal: Terminal,
    follower: Option<Follower>,
}

struct State {
    stage: Stage,
    /// Signals are heard, or it is known that they cannot be.
    ready: bool,
    heard: u32,
}

impl Signals {
    /// Begins to listen.
    pub(super) fn listen(json: bool, terminal: Terminal, follower: Option<Follower>) -> Self {
        let state = State { stage: Stage::Loading, ready: false, heard: 0 };
        let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), json, terminal, follower };
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

    /// Starts the run, by when signals are heard: those that come meanwhile wait until it is known what they cancel.
    pub(super) fn guard<T>(&self, start: impl FnOnce() -> T) -> T {
        let mut state = self.0.state.lock();
        while !state.ready {
            self.0.changed.wait(&mut state);
        }
        state.stage = Stage::Starting;
        drop(state);
        start()
    }

    pub(super) fn enter(&self, stage: Stage) {
        let mut state = self.0.state.lock();
        state.stage = stage;
        let heard = state.heard;
        drop(state);
        if heard > 0 {
            self.act(heard);
        }
    }

    fn is_ready(&self) {
        self.0.state.lock().ready = true;
        self.0.changed.notify_all();
    }

    fn wait(&self) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            self.is_ready();
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                let heard = {
                    let mut state = self.0.state.lock();
                    state.heard += 1;
                    state.heard
                };
                self.act(heard);
            }
        })
    }

    /// Does what the so-manieth signal asks for.
    fn act(&self, heard: u32) {
        let stage = self.0.state.lock().stage.clone();
        match (stage, heard) {
            (Stage::Over, _) => {}
            (Stage::Running(run), 1) => {
                self.tell("the run is cancelled; again to end it at once", || {
                    // It may have ended meanwhile: then its end is told.
                    let _ = run.cancel("it was interrupted", None);
                });
            }
            (Stage::Running(run), 2) => self.tell("the run is ended", || run.kill("it was interrupted twice")),
            (Stage::Starting, ..3) => {}
            (Stage::Loading, _) => self.leave(true),
            (Stage::Starting | Stage::Running(_), _) => self.leave(false),
        }
    }

    /// Does something, and says so: before it where that takes no time, since what follows from it is shown too.
    fn tell(&self, what: &str, act: impl FnOnce()) {
        let line = format!("{}: {what}", self.0.terminal.paint("33", "interrupted"));
        if let Some(follower) = &self.0.follower {
            follower.note(line);
            act();
        } else {
            act();
            say(&line);
        }
    }

    /// Ends the process. What is in the way of a clean end is in the way of telling about it too, so the terminal is left in order
    /// only where nothing ran.
    fn leave(&self, in_order: bool) {
        if in_order {
            if let Some(follower) = &self.0.follower {
                follower.close();
            }
            let refused = Refused::new(problem::kind::CANCELLED, "interrupted before the run began").cancelled();
            if self.0.json {
                // Where it cannot be written there is nobody to tell.
                let _ = refused.print();
            } else {
                refused.say(self.0.terminal);
            }
        }
        std::process::exit(Exit::Cancelled.code());
    }
}
