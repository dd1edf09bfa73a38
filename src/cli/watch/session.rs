//! Following a run to its end, and telling what it came to.

use crate::cli::exit::Exit;
use crate::cli::report::compiling;
use crate::cli::report::compiling::SAID_BYTES_MIN;
use crate::cli::report::error::Stop;
use crate::cli::report::invocation::Again;
use crate::cli::report::journal::{ANEW_HINT, FULL, FULL_HINT, TORN_HINT, recreated, torn};
use crate::cli::report::outcome::Over;
use crate::cli::report::warnings::Warnings;
use crate::cli::store::{Runs, opened};
use crate::cli::terminal::{Terminal, print_json, say};
use crate::cli::watch::backlog::Past;
use crate::cli::watch::progress::{EVENTS_MAX, Follower};
use crate::cli::watch::signals::{Running, Signals, Stage};
use crate::host::CompileNotice;
use crate::host::{Host, Outcome, RunHandle, Status, StorageNotice, Workflow};
use crate::journal::Journal as _;
use crate::process::Payload;
use crate::run::{Events, Uncertain, Watcher};
use serde_json::{Value, json};
use std::time::Duration;

/// What is seen of a run, from before it begins or is taken up, so that nothing in between is missed.
pub(in crate::cli) struct Watching {
    events: Events,
    past: Past,
}

/// What a run came to, and the calls that may have happened although it ended without their answers.
pub(in crate::cli) struct Ended {
    pub(in crate::cli) outcome: Outcome,
    pub(in crate::cli) uncertain: Vec<Uncertain>,
}

impl Ended {
    /// With what the run's records say of its calls.
    pub(in crate::cli) fn of(outcome: Outcome, runs: &Runs) -> Self {
        Self { uncertain: runs.given_up(&outcome), outcome }
    }
}

/// How a command talks of a run.
pub(in crate::cli) struct Talk {
    pub(in crate::cli) json: bool,
    pub(in crate::cli) quiet: bool,
    pub(in crate::cli) terminal: Terminal,
    /// None where nothing is shown while the run goes on.
    pub(in crate::cli) follower: Option<Follower>,
    pub(in crate::cli) signals: Signals,
    pub(in crate::cli) warnings: Warnings,
    /// The command that was given.
    pub(in crate::cli) again: Again,
    /// What it runs outlives it.
    pub(in crate::cli) durable: bool,
}

impl Talk {
    pub(in crate::cli) fn new(json: bool, quiet: bool, timeout: Option<Duration>, terminal: Terminal) -> Self {
        let follower = (!quiet && !json).then(|| Follower::start(terminal));
        let again = Again::new(timeout);
        let signals = Signals::listen(json, terminal, follower.clone(), &again);
        Self { json, quiet, terminal, follower, signals, warnings: Vec::new(), again, durable: true }
    }

    /// A line for people, where they want to be talked to.
    pub(in crate::cli) fn note(&self, line: String) {
        if let Some(follower) = &self.follower {
            follower.note(line);
        }
    }

    /// A line without which people would wait for nothing, also where they want to hear little.
    pub(in crate::cli) fn insist(&self, line: String) {
        match &self.follower {
            Some(follower) => follower.note(line),
            None if self.json => {}
            None => say(&line),
        }
    }

    /// Says when the disk is full and when it is not any more, also where little is said: meanwhile nothing goes on.
    pub(in crate::cli) fn storage(&self) -> impl Fn(&StorageNotice) + Send + Sync + 'static {
        let (follower, terminal) = (self.follower.clone(), self.terminal);
        move |news| {
            let line = match news {
                StorageNotice::Full => terminal.warning_text(FULL, Some(FULL_HINT)),
                StorageNotice::Room => "there is room on the disk again: runs continue".to_owned(),
                StorageNotice::Torn(kept) => terminal.warning_text(&torn(kept), Some(TORN_HINT)),
                StorageNotice::Anew(path) => terminal.warning_text(&recreated(path), Some(ANEW_HINT)),
                // The runs' outcomes tell.
                StorageNotice::Failed(_) => return,
            };
            match &follower {
                Some(follower) => follower.note(line),
                None => say(&line),
            }
        }
    }

    /// Says what is compiled: on a terminal as long as it takes, elsewhere in a line.
    pub(in crate::cli) fn compiling(&self) -> impl Fn(&CompileNotice<'_>) + Send + Sync + 'static {
        let follower = self.follower.clone();
        move |news| {
            let Some(follower) = &follower else { return };
            match news {
                CompileNotice::Begins { component, bytes } if *bytes >= SAID_BYTES_MIN => {
                    follower.compiling(Some(compiling::text(component, *bytes)));
                }
                CompileNotice::Ended { .. } => follower.compiling(None),
                CompileNotice::Begins { .. } => {}
            }
        }
    }

    pub(in crate::cli) fn warn(&mut self, warnings: Warnings) {
        for (warning, hint) in &warnings {
            self.note(self.terminal.warning_text(warning, Some(hint)));
        }
        self.warnings.extend(warnings);
    }

    /// Nothing more changes on the screen.
    pub(in crate::cli) fn close(&self) {
        if let Some(follower) = &self.follower {
            follower.close();
        }
    }

    /// Ends a command that was stopped.
    pub(in crate::cli) fn stop(&self, stop: Stop) -> anyhow::Result<Exit> {
        self.close();
        stop.tell(self.json, self.terminal)
    }

    /// Who is to watch a run from its first step on, and what is shown of it then.
    pub(in crate::cli) fn watcher(&self) -> (Watching, Option<Watcher>) {
        let (events, watcher) = Events::of_new_run(EVENTS_MAX);
        (Watching { events, past: Past::default() }, self.follower.is_some().then_some(watcher))
    }

    /// As [`Self::watcher`], of a run that is taken up: its steps that run are shown too.
    pub(in crate::cli) fn watcher_of(&self, host: &Host, run: &str) -> (Watching, Option<Watcher>) {
        let (mut watching, watcher) = self.watcher();
        if watcher.is_some() {
            watching.past = Past::of_taken_up(host, run);
        }
        (watching, watcher)
    }

    /// Shows a run of this host to its end, and tells what it came to.
    pub(in crate::cli) fn follow(&self, host: &Host, workflow: &Workflow, run: &RunHandle, watching: Watching) -> Exit {
        self.show(run, workflow, watching);
        let ended = self.to_the_end(host, run, true);
        self.tell(&ended, workflow, host.guests().slots())
    }

    /// Shows what its watcher sees of a run.
    pub(in crate::cli) fn show(&self, run: &RunHandle, workflow: &Workflow, Watching { events, past }: Watching) {
        if let Some(follower) = &self.follower {
            let signal = self.durable.then(|| self.again.beside("signal", run.id()));
            follower.follow(events, workflow, past, signal);
        }
    }

    /// Waits until a run of this host is over, whatever ends it.
    pub(in crate::cli) fn to_the_end(&self, host: &Host, run: &RunHandle, is_durable: bool) -> Ended {
        let running = Running { runs: vec![run.clone()], host: is_durable.then(|| host.clone()) };
        self.signals.enter(Stage::Running(running));
        let outcome = wait(run, &self.again);
        let runs = if is_durable { opened(host).ok() } else { None };
        let ended = match (&runs, outcome.status) {
            (Some(runs), Status::Suspended) => Ended::of(ended(runs, &outcome).unwrap_or(outcome), runs),
            (Some(runs), _) => Ended::of(outcome, runs),
            (None, _) => Ended { outcome, uncertain: Vec::new() },
        };
        self.signals.enter(Stage::Over { late: ended.outcome.status == Status::TimedOut });
        ended
    }

    /// Tells what a run came to.
    pub(in crate::cli) fn tell(&self, ended: &Ended, workflow: &Workflow, slots: u32) -> Exit {
        self.close();
        let Ended { outcome, uncertain } = ended;
        // What succeeded is kept; and with an id the same command once more only tells the end again. A timeout is the command's own.
        let is_retried = self.durable && (outcome.status != Status::TimedOut || self.again.has("--run-id"));
        let again = if is_retried { self.again.about("retry", &outcome.run) } else { self.again.clone() };
        let over = Over { outcome, uncertain, workflow, again: &again, slots };
        if self.json {
            let told = print_json(&self.to_json(&over));
            return self.written(told, outcome, over.exit());
        }
        match &outcome.result {
            Ok(Payload::Json(json)) => {
                let told = print_json(&json.to_value());
                if told.is_err() {
                    return self.written(told, outcome, over.exit());
                }
            }
            Ok(_) => {}
            Err(_) if outcome.status == Status::Suspended => self.say_suspended(&outcome.run),
            Err(_) => over.say(self.terminal),
        }
        over.say_uncertain(self.terminal);
        let abandoned = outcome.abandoned.len();
        if abandoned > 0 && !self.quiet {
            let plural = if abandoned == 1 { " was" } else { "s were" };
            say(&format!("{abandoned} call{plural} abandoned: nobody waited for the answer"));
        }
        over.exit()
    }

    /// How the command ends, by whether the outcome could be written. Where it could not, the run came to something all the same.
    fn written(&self, told: std::io::Result<()>, outcome: &Outcome, exit: Exit) -> Exit {
        let Err(error) = told else { return exit };
        let (id, status) = (&outcome.run, json!(outcome.status));
        let status = status.as_str().unwrap_or_default();
        let shown = if self.durable { format!("; `wfhost status {id}` shows how it ended") } else { String::new() };
        self.terminal.error(&error.to_string(), Some(&format!("the run {id} itself {status}{shown}")));
        Exit::Failed
    }

    /// The object that programs get.
    pub(in crate::cli) fn to_json(&self, over: &Over<'_>) -> Value {
        let mut value = over.to_json();
        if over.outcome.status == Status::Suspended {
            value["problem"]["hint"] = json!(self.to_take_up(&over.outcome.run));
        }
        if !self.warnings.is_empty() {
            value["warnings"] = self.warnings.iter().map(|(warning, _)| json!(warning)).collect();
        }
        value
    }

    pub(in crate::cli) fn say_suspended(&self, run: &str) {
        say(&format!("{}: the run {run} can be resumed", self.terminal.paint("33", "suspended")));
        self.terminal.hint(&self.to_take_up(run));
    }

    fn to_take_up(&self, run: &str) -> String {
        let command = self.again.about("resume", run).plain().unwrap_or_else(|| format!("wfhost resume {run}"));
        format!("to resume it: {command}")
    }
}

/// How a run has ended that was to be suspended: its end may have been durable by then.
fn ended(runs: &Runs, outcome: &Outcome) -> Option<Outcome> {
    runs.store.run(&outcome.run).ok()??.status?;
    runs.projection(&outcome.run).ok()?.outcome(&outcome.run)
}

/// Waits until the run is over, and asks it to end where the command takes too long.
fn wait(run: &RunHandle, command: &Again) -> Outcome {
    let (Some(timeout), Some(left)) = (command.timeout(), command.time_left()) else { return run.wait() };
    if run.inner().wait_for(left).is_some() {
        return run.wait();
    }
    // It may have ended at this very moment.
    let _ = run.time_out(timeout);
    run.wait()
}
