//! `wfhost dev`: runs a workflow again whenever one of its files changes.
//!
//! A turn builds the projects whose sources have changed, runs the workflow in a process of its
//! own, and shows what differs from the last run. There is one turn at a time: a change during a
//! build waits for its end, a change during a run ends the run. What is wrong is shown, and the
//! watch goes on.

mod child;
mod difference;
mod stop;
mod watched;

use crate::cli::args::host::HostArguments;
use crate::cli::args::values;
use crate::cli::exit::Exit;
use crate::cli::project::{self, Project, Talk};
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{Terminal, in_line, print_json, printable, say};
use child::Running;
use clap::{Args, ValueHint};
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stop::Stop;
use watched::{Seen, Watched};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost dev workflow.yaml
  wfhost dev order.yaml --input id=17 --allow-address localhost

Watched are the workflow, its scripts and their folders, its components, and the projects that make them, \
which are built as `wfhost build` does. The runs are not stored. Ctrl-C ends it.")]
pub(in crate::cli) struct Arguments {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// An input: `key=value`, `key=@file` (its text), `@file.json` (an object of inputs).
    #[arg(short, long = "input", value_name = "INPUT")]
    pub(in crate::cli) inputs: Vec<String>,
    /// Cancel each run after this time [default: never].
    #[arg(long, value_name = "DURATION", value_parser = values::timeout)]
    pub(in crate::cli) timeout: Option<Duration>,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

/// How often files are looked at. Arbitrary: soon for a person.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// How often a run and signals are looked at.
const TICK: Duration = Duration::from_millis(25);

/// Looking may take this part of the time, on a slow disk.
const POLL_PART: u32 = 10;

/// Files that are named as changed. Arbitrary: a line.
const NAMED_MAX: usize = 3;

pub(in crate::cli) fn dev(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let file = watched::plain(&command.file);
    if !file.is_file() {
        let title = format!("there is no file {} to watch", file.display());
        return Err(UserError::new(kind::UNREADABLE, title).into());
    }
    let mut watch = Watch {
        words: std::env::args_os().skip(1).collect(),
        watched: Watched::of(&file, &command.inputs, None),
        file,
        inputs: command.inputs.clone(),
        last: None,
        is_first: true,
        stop: Stop::listen()?,
        terminal,
    };
    let mut seen = watch.watched.look();
    let mut stale: Vec<Project> =
        watch.watched.projects.iter().filter(|project| watched::is_stale(project, &seen)).cloned().collect();
    while !watch.stop.is_wanted() {
        watch.turn(&stale, &seen)?;
        let Some((changes, now)) = watch.wait(&seen) else { break };
        watch.watched = Watched::of(&watch.file, &watch.inputs, Some(std::mem::take(&mut watch.watched)));
        let is_stale = |project: &&Project| {
            stale_after_failure(&stale, project, &now) || changes.iter().any(|path| watched::is_source(project, path))
        };
        stale = watch.watched.projects.iter().filter(is_stale).cloned().collect();
        say(&format!("\n{}", terminal.paint("1;36", &changed(&changes))));
        seen = watch.watched.look();
    }
    Ok(Exit::Success)
}

/// Whether a project was to be built before, and its component is still older than its sources.
fn stale_after_failure(before: &[Project], project: &Project, now: &Seen) -> bool {
    before.contains(project) && watched::is_stale(project, now)
}

struct Watch {
    words: Vec<OsString>,
    file: PathBuf,
    inputs: Vec<String>,
    watched: Watched,
    /// The outputs of the last run that succeeded.
    last: Option<Value>,
    is_first: bool,
    stop: Stop,
    terminal: Terminal,
}

impl Watch {
    /// Builds, runs, and shows the result.
    fn turn(&mut self, stale: &[Project], seen: &Seen) -> Result<(), CommandError> {
        for project in stale {
            if let Err(error) = build(project) {
                if !self.stop.is_wanted() {
                    error.say(self.terminal);
                }
                return Ok(());
            }
        }
        if self.stop.is_wanted() {
            return Ok(());
        }
        let begins = Instant::now();
        let mut running = Running::start(&self.words)?;
        while !running.has_ended()? {
            if self.stop.is_wanted() || self.is_other(seen, begins) {
                running.end()?;
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
        let (_, outputs) = running.outcome()?;
        if let Some(outputs) = outputs {
            self.show(outputs, begins.elapsed())?;
        }
        if std::mem::take(&mut self.is_first) {
            let count = self.watched.look().len();
            let files = if count == 1 { "file" } else { "files" };
            say(&format!("watching {count} {files}; Ctrl-C ends it"));
        }
        Ok(())
    }

    /// Shows the outputs, and what differs from those before.
    fn show(&mut self, outputs: Value, took: Duration) -> Result<(), CommandError> {
        print_json(&outputs)?;
        let took = format!("in {:.2} s", took.as_secs_f64());
        match &self.last {
            None => say(&format!("the run succeeded {took}")),
            Some(last) => {
                let lines = difference::lines(last, &outputs);
                if lines.is_empty() {
                    say(&format!("the run succeeded {took}: the outputs are as before"));
                } else {
                    say(&format!("the run succeeded {took}; since the last one:"));
                }
                for line in lines {
                    let colour = if line.starts_with('-') { "31" } else { "32" };
                    say(&self.terminal.paint(colour, &format!("  {}", in_line(&line))));
                }
            }
        }
        self.last = Some(outputs);
        Ok(())
    }

    /// Whether a file has changed during a run. Looking takes a part of the time only.
    fn is_other(&self, seen: &Seen, begins: Instant) -> bool {
        // Each whole interval of the run.
        let is_due = begins.elapsed().as_millis() % POLL_INTERVAL.as_millis() < TICK.as_millis();
        is_due && !self.changes(seen, &self.watched.look()).is_empty()
    }

    fn changes(&self, before: &Seen, now: &Seen) -> Vec<PathBuf> {
        watched::changed(before, now).into_iter().filter(|path| !self.watched.is_made(path)).collect()
    }

    /// Waits until files have changed and are no longer being written. `None` if a signal came.
    fn wait(&self, before: &Seen) -> Option<(Vec<PathBuf>, Seen)> {
        let mut last: Option<Seen> = None;
        loop {
            let begins = Instant::now();
            let now = self.watched.look();
            let changes = self.changes(before, &now);
            if !changes.is_empty() && last.as_ref() == Some(&now) {
                return Some((changes, now));
            }
            last = Some(now);
            let until = Instant::now() + POLL_INTERVAL.max(begins.elapsed() * POLL_PART);
            while Instant::now() < until {
                if self.stop.is_wanted() {
                    return None;
                }
                std::thread::sleep(TICK);
            }
        }
    }
}

/// Builds a project's component in its place.
fn build(project: &Project) -> Result<(), UserError> {
    say(&format!("building {} ({})", project.name, project.language.name()));
    let begins = Instant::now();
    let component = project.build(Talk::OnFailure)?;
    project::write(&project.component(), &component)?;
    say(&format!("built {} in {:.1} s", project.name, begins.elapsed().as_secs_f64()));
    Ok(())
}

/// `order.js changed`, `a, b, c and 2 more changed`.
fn changed(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let names: Vec<String> = paths.iter().take(NAMED_MAX).map(name).collect();
    let more = paths.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    printable(&format!("{}{more} changed", names.join(", "))).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named_in_a_line() {
        let paths = |count: usize| (0..count).map(|i| PathBuf::from(format!("src/{i}.rs"))).collect::<Vec<_>>();
        assert_eq!(changed(&paths(1)), "0.rs changed");
        assert_eq!(changed(&paths(5)), "0.rs, 1.rs, 2.rs and 2 more changed");
    }
}
