//! Following a run to its end, and reporting its outcome.

use crate::cli::args::output::OutputArguments;
use crate::cli::exit::Exit;
use crate::cli::output_dir;
use crate::cli::report::compiling;
use crate::cli::report::compiling::SAID_BYTES_MIN;
use crate::cli::report::error::{CommandError, UserError};
use crate::cli::report::invocation::Invocation;
use crate::cli::report::journal::{FULL, FULL_HINT, RECREATED_HINT, TORN_HINT, recreated, torn};
use crate::cli::report::outcome::Report;
use crate::cli::report::warnings::Warnings;
use crate::cli::store::{Runs, runs_of};
use crate::cli::terminal::{Terminal, print_json, say};
use crate::cli::watch::backlog::Backlog;
use crate::cli::watch::progress::{EVENTS_MAX, Follower};
use crate::cli::watch::signals::{Running, Signals, Stage};
use crate::host::CompileNotice;
use crate::host::{Host, Outcome, RunHandle, Status, StorageNotice, Workflow};
use crate::process::Payload;
use crate::run::{Events, Uncertain, Watcher};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The events of a run, from before it starts or is recovered, so that none is missed.
pub(in crate::cli) struct Watch {
    events: Events,
    backlog: Backlog,
}

/// The outcome of a run, and the calls that may have happened although it ended before their
/// answers.
pub(in crate::cli) struct EndedRun {
    pub(in crate::cli) outcome: Outcome,
    pub(in crate::cli) uncertain: Vec<Uncertain>,
}

impl EndedRun {
    /// With what the run's records say of its calls.
    pub(in crate::cli) fn of(outcome: Outcome, runs: &Runs) -> Self {
        Self { uncertain: runs.given_up(&outcome), outcome }
    }
}

/// How a command reports a run.
pub(in crate::cli) struct Session {
    pub(in crate::cli) json: bool,
    pub(in crate::cli) quiet: bool,
    pub(in crate::cli) terminal: Terminal,
    /// `None` if no progress is shown.
    pub(in crate::cli) follower: Option<Follower>,
    pub(in crate::cli) signals: Signals,
    pub(in crate::cli) warnings: Warnings,
    /// The command that was given.
    pub(in crate::cli) invocation: Invocation,
    /// The run outlives the command.
    pub(in crate::cli) durable: bool,
    /// The folder for the outputs that are blobs.
    output_dir: Option<PathBuf>,
}

impl Session {
    pub(in crate::cli) fn new(json: bool, quiet: bool, timeout: Option<Duration>, terminal: Terminal) -> Self {
        let follower = (!quiet && !json).then(|| Follower::start(terminal));
        let invocation = Invocation::new(timeout);
        let signals = Signals::listen(json, terminal, follower.clone(), &invocation);
        let warnings = Vec::new();
        Self { json, quiet, terminal, follower, signals, warnings, invocation, durable: true, output_dir: None }
    }

    /// Makes the folder of `--output-dir`, to which the outputs of the run are written.
    pub(in crate::cli) fn write_outputs_to(&mut self, output: &OutputArguments) -> Result<(), UserError> {
        self.output_dir.clone_from(&output.output_dir);
        output.make()
    }

    /// A line that is shown unless the command is quiet.
    pub(in crate::cli) fn note(&self, line: String) {
        if let Some(follower) = &self.follower {
            follower.note(line);
        }
    }

    /// A line that is shown even with `--quiet`: without it users would wait in vain.
    pub(in crate::cli) fn note_always(&self, line: String) {
        match &self.follower {
            Some(follower) => follower.note(line),
            None if self.json => {}
            None => say(&line),
        }
    }

    /// Reports when the disk is full and when it no longer is, even with `--quiet`: meanwhile no
    /// run proceeds.
    pub(in crate::cli) fn storage(&self) -> impl Fn(&StorageNotice) + Send + Sync + 'static {
        let (follower, terminal) = (self.follower.clone(), self.terminal);
        move |news| {
            let line = match news {
                StorageNotice::Full => terminal.warning_text(FULL, Some(FULL_HINT)),
                StorageNotice::Room => "the disk has space again: runs continue".to_owned(),
                StorageNotice::Torn(kept) => terminal.warning_text(&torn(kept), Some(TORN_HINT)),
                StorageNotice::Recreated(path) => terminal.warning_text(&recreated(path), Some(RECREATED_HINT)),
                // The outcomes of the runs report it.
                StorageNotice::Failed(_) => return,
            };
            match &follower {
                Some(follower) => follower.note(line),
                None => say(&line),
            }
        }
    }

    /// Reports what is being compiled: on a terminal while it lasts, elsewhere in one line.
    pub(in crate::cli) fn compiling(&self) -> impl Fn(&CompileNotice<'_>) + Send + Sync + 'static {
        let follower = self.follower.clone();
        move |news| {
            let Some(follower) = &follower else { return };
            match news {
                CompileNotice::Begins { component, bytes } if *bytes >= SAID_BYTES_MIN => {
                    follower.compiling(component, compiling::text(component, *bytes));
                }
                CompileNotice::Begins { .. } => {}
                CompileNotice::Ended { component, took } => {
                    follower.compiled(component);
                    if let Some(line) = compiling::ended(component, *took) {
                        follower.note(line);
                    }
                }
            }
        }
    }

    pub(in crate::cli) fn warn(&mut self, warnings: Warnings) {
        for (warning, hint) in &warnings {
            self.note(self.terminal.warning_text(warning, Some(hint)));
        }
        self.warnings.extend(warnings);
    }

    /// Ends the progress display.
    pub(in crate::cli) fn close(&self) {
        if let Some(follower) = &self.follower {
            follower.close();
        }
    }

    /// Ends a command with an error.
    pub(in crate::cli) fn report_error(&self, error: CommandError) -> anyhow::Result<Exit> {
        self.close();
        error.report(self.json, self.terminal)
    }

    /// A watcher for a run from its first step on, and the events that it receives.
    pub(in crate::cli) fn watcher(&self) -> (Watch, Option<Watcher>) {
        let (events, watcher) = Events::of_new_run(EVENTS_MAX);
        (Watch { events, backlog: Backlog::default() }, self.follower.is_some().then_some(watcher))
    }

    /// As [`Self::watcher`], for a run to be recovered: its running steps are shown too.
    pub(in crate::cli) fn watcher_of(&self, host: &Host, run: &str) -> (Watch, Option<Watcher>) {
        let (mut watch, watcher) = self.watcher();
        if watcher.is_some() {
            watch.backlog = Backlog::of_recovered(host, run);
        }
        (watch, watcher)
    }

    /// Shows a run of this host to its end, and reports its outcome.
    pub(in crate::cli) fn follow(&self, host: &Host, workflow: &Workflow, run: &RunHandle, watch: Watch) -> Exit {
        self.show(run, workflow, watch);
        let ended = self.wait_to_the_end(host, run, true);
        self.report(host, &ended, workflow)
    }

    /// Shows what its watcher sees of a run.
    pub(in crate::cli) fn show(&self, run: &RunHandle, workflow: &Workflow, Watch { events, backlog }: Watch) {
        if let Some(follower) = &self.follower {
            let signal = self.durable.then(|| self.invocation.for_stored_run("signal", run.id()));
            follower.follow(events, workflow, backlog, signal);
        }
    }

    /// Waits until a run of this host ends, whatever the cause.
    pub(in crate::cli) fn wait_to_the_end(&self, host: &Host, run: &RunHandle, is_durable: bool) -> EndedRun {
        let running = Running { runs: vec![run.clone()], host: is_durable.then(|| host.clone()) };
        self.signals.enter(Stage::Running(running));
        let outcome = wait(run, &self.invocation);
        let runs = if is_durable { runs_of(host).ok() } else { None };
        let ended = match (&runs, outcome.status) {
            (Some(runs), Status::Suspended) => EndedRun::of(ended(runs, &outcome).unwrap_or(outcome), runs),
            (Some(runs), _) => EndedRun::of(outcome, runs),
            (None, _) => EndedRun { outcome, uncertain: Vec::new() },
        };
        self.signals.enter(Stage::Ended { late: ended.outcome.status == Status::TimedOut });
        ended
    }

    /// Writes the outputs that are files, and reports the outcome of a run.
    pub(in crate::cli) fn report(&self, host: &Host, ended: &EndedRun, workflow: &Workflow) -> Exit {
        let written = self.output_dir.as_ref().map_or(Ok(()), |folder| {
            let blobs = host.blobs(&ended.outcome.run, self.durable);
            let fetch = |digest: &str, to: &mut dyn std::io::Write| output_dir::copy(&blobs, digest, to);
            output_dir::write(folder, &output_dir::outputs_of(&ended.outcome), &fetch, &|note| self.note(note))
        });
        let exit = self.report_outcome(ended, workflow, host.guests().slots());
        written.map_or_else(
            |why| {
                self.terminal.error(&why, Some(output_dir::ELSEWHERE));
                Exit::Failed
            },
            |()| exit,
        )
    }

    fn report_outcome(&self, ended: &EndedRun, workflow: &Workflow, slots: u32) -> Exit {
        self.close();
        let EndedRun { outcome, uncertain } = ended;
        // A retry reuses what succeeded; the same command with the same id would only report the
        // end again. A timeout is the command's own.
        let is_retried = self.durable && (outcome.status != Status::TimedOut || self.invocation.has_flag("--run-id"));
        let invocation =
            if is_retried { self.invocation.for_run("retry", &outcome.run) } else { self.invocation.clone() };
        let report = Report { outcome, uncertain, workflow, invocation: &invocation, slots };
        if self.json {
            let printed = print_json(&self.to_json(&report));
            return self.exit_after(printed, outcome, report.exit());
        }
        match &outcome.result {
            Ok(Payload::Json(json)) => {
                let printed = print_json(&json.to_value());
                if printed.is_err() {
                    return self.exit_after(printed, outcome, report.exit());
                }
            }
            Ok(_) => {}
            Err(_) if outcome.status == Status::Suspended => self.say_suspended(&outcome.run),
            Err(_) => report.say(self.terminal),
        }
        report.say_uncertain(self.terminal);
        let abandoned = outcome.abandoned.len();
        if abandoned > 0 && !self.quiet {
            let plural = if abandoned == 1 { " was" } else { "s were" };
            say(&format!("{abandoned} call{plural} abandoned: nothing waited for the answer"));
        }
        report.exit()
    }

    /// The exit of the command: failure if the outcome could not be printed, whatever the run's
    /// status.
    fn exit_after(&self, printed: std::io::Result<()>, outcome: &Outcome, exit: Exit) -> Exit {
        let Err(error) = printed else { return exit };
        let (id, status) = (&outcome.run, json!(outcome.status));
        let status = status.as_str().unwrap_or_default();
        let shown = if self.durable { format!("; `wfhost status {id}` shows how it ended") } else { String::new() };
        self.terminal.error(&error.to_string(), Some(&format!("the run {id} itself {status}{shown}")));
        Exit::Failed
    }

    /// The JSON object of the outcome.
    pub(in crate::cli) fn to_json(&self, report: &Report<'_>) -> Value {
        let mut value = report.to_json();
        if report.outcome.status == Status::Suspended {
            value["problem"]["hint"] = json!(self.resume_command(&report.outcome.run));
        }
        if !self.warnings.is_empty() {
            value["warnings"] = self.warnings.iter().map(|(warning, _)| json!(warning)).collect();
        }
        value
    }

    pub(in crate::cli) fn say_suspended(&self, run: &str) {
        say(&format!("{}: the run {run} can be resumed", self.terminal.paint("33", "suspended")));
        self.terminal.hint(&self.resume_command(run));
    }

    fn resume_command(&self, run: &str) -> String {
        let command = self.invocation.for_run("resume", run).text().unwrap_or_else(|| format!("wfhost resume {run}"));
        format!("to resume it: {command}")
    }
}

/// The outcome of a run that was to be suspended but whose end is durable.
fn ended(runs: &Runs, outcome: &Outcome) -> Option<Outcome> {
    runs.store.run(&outcome.run).ok()??.status?;
    runs.projection(&outcome.run).ok()?.outcome(&outcome.run)
}

/// Waits until the run ends, and asks it to end when the command's time is up.
fn wait(run: &RunHandle, command: &Invocation) -> Outcome {
    let (Some(timeout), Some(left)) = (command.timeout(), command.time_left()) else { return run.wait() };
    if run.inner().wait_for(left).is_some() {
        return run.wait();
    }
    // It may have just ended.
    let _ = run.time_out(timeout);
    run.wait()
}
