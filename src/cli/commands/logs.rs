//! `wfhost logs`.

use crate::cli::args::data::DataArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::journal::{FULL, FULL_HINT};
use crate::cli::report::reasons;
use crate::cli::report::unresponsive::silent;
use crate::cli::store::{LiveStatus, Ownership, POLL_EVERY, POLLS_MAX, Runs, live_status};
use crate::cli::table::{clock, counted, rfc3339};
use crate::cli::terminal::{Terminal, printable, printable_json, say, unwritable};
use crate::host::control::{Answer, Answers};
use crate::host::{Line, RunProjection, Status};
use crate::journal::Stored;
use crate::process::Level;
use crate::workflow::interpreter::progress::Progress;
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, ErrorKind, Write as _};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost logs order-4711
  wfhost logs -f order-4711
  wfhost logs order-4711 --json | jq -r 'select(.level == \"error\") | .text'

--json prints one object per line:
  at        in RFC 3339
  process   the step that wrote the line; empty for the workflow itself
  pid, level, text, fields

Exit codes with -f: 0 the run has ended, whatever its status; 3 it is unfinished and no longer followed, \
because the wfhost process running it died or released it.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// Follow the log until the run ends.
    #[arg(short, long)]
    pub(in crate::cli) follow: bool,
    /// Include `trace` and `debug` lines.
    #[arg(short, long)]
    pub(in crate::cli) all: bool,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

pub(in crate::cli) fn logs(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let (runs, stored) = command.data.find(&command.run)?;
    let writer = Writer { json: command.json, all: command.all, terminal };
    match show(&runs, &stored, command, &writer) {
        // The reader has what it wanted.
        Err(CommandError::Internal(error)) if is_broken_pipe(&error) => Ok(Exit::Success),
        other => other,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

fn show(runs: &Runs, stored: &Stored, command: &Arguments, writer: &Writer) -> Result<Exit, CommandError> {
    let mut projection = RunProjection::default();
    // Watching begins first, so that it covers what was not yet written.
    let mut watched = if command.follow { watch(runs, &stored.id, writer.terminal)? } else { None };
    let recorded = watched.as_ref().map(Answers::records);
    for record in runs.records(&stored.id, recorded)? {
        let mut failed = Ok(());
        projection.apply(&record, &mut |line| {
            if failed.is_ok() {
                failed = writer.line(&line);
            }
        });
        failed?;
    }
    let Some(watched) = &mut watched else {
        if !command.follow {
            return Ok(Exit::Success);
        }
        let (now, ownership) = settled(runs, &stored.id)?;
        return Ok(unwatched(&now, &ownership));
    };
    for answer in watched {
        match answer? {
            Answer::Event(event) => {
                if let Some(line) = projection.apply_event(&event) {
                    writer.line(&line)?;
                }
            }
            Answer::Dropped(count) => {
                let dropped = counted(count, "event was", "events were");
                say(&format!("({dropped} dropped: the output was slower than the run)"));
            }
            Answer::Ended(outcome) if outcome.status == Status::Suspended => {
                return Ok(unfinished("the host released it", &stored.id));
            }
            Answer::Ended(outcome) => {
                say(&format!("the run {}", json!(outcome.status).as_str().unwrap_or_default()));
                return Ok(Exit::Success);
            }
            _ => {}
        }
    }
    // The host has ended; the store knows the state of the run.
    match settled(runs, &stored.id)? {
        (now, Ownership::Orphaned) => Ok(unfinished("the host died", &now.id)),
        (now, ownership) => Ok(unwatched(&now, &ownership)),
    }
}

/// A run and its ownership, once its host has ended or answers: a host that ends closes its socket
/// before it releases its runs, and a host that starts owns a run before it listens.
fn settled(runs: &Runs, id: &str) -> Result<(Stored, Ownership), CommandError> {
    let mut looks = 0;
    loop {
        let stored = runs.find(id)?;
        let ownership = runs.ownership(&stored)?;
        looks += 1;
        if !matches!(ownership, Ownership::Owned(_)) || looks == POLLS_MAX {
            return Ok((stored, ownership));
        }
        match live_status(runs, &stored, &ownership)? {
            LiveStatus::Status(_) => return Ok((stored, ownership)),
            LiveStatus::Silent(process) => {
                let (title, hint) = silent(id, process);
                return Err(UserError::new(kind::HOST_FAULT, title).hint(hint).into());
            }
            LiveStatus::Gone => {}
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// Reports a run that was to be followed and cannot be watched.
fn unwatched(stored: &Stored, ownership: &Ownership) -> Exit {
    let id = &stored.id;
    match (stored.status, ownership) {
        (Some(status), _) => {
            say(&format!("the run {}", status.name()));
            Exit::Success
        }
        (None, Ownership::Owned(owner)) => {
            say(&format!("the run continues in process {}; to follow it there: wfhost logs -f {id}", owner.pid));
            Exit::Cancelled
        }
        (None, _) => unfinished("it is not running", id),
    }
}

/// Reports that a run is unfinished and not running.
fn unfinished(why: &str, id: &str) -> Exit {
    say(&format!("{why}; the run is unfinished: wfhost resume {id}"));
    Exit::Cancelled
}

/// Watches a run that a host has, and says where nothing goes on in it.
fn watch(runs: &Runs, id: &str, terminal: Terminal) -> Result<Option<Answers>, CommandError> {
    let (_, Ownership::Owned(owner)) = settled(runs, id)? else { return Ok(None) };
    let Some((host, answers)) = runs.ask(&owner, |host| Ok((host.clone(), host.watch(id)?)))? else { return Ok(None) };
    if host.is_stalled() {
        say(&terminal.warning_text(FULL, Some(FULL_HINT)));
    }
    Ok(Some(answers))
}

struct Writer {
    json: bool,
    all: bool,
    terminal: Terminal,
}

impl Writer {
    fn line(&self, line: &Line) -> io::Result<()> {
        if !self.all && line.line.level < Level::Info {
            return Ok(());
        }
        let text = if self.json { printable_json(&to_json(line).to_string()).into_owned() } else { self.text(line) };
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(unwritable)
    }

    fn text(&self, line: &Line) -> String {
        let fields = match (&line.line.fields, line.progress()) {
            (Some(fields), None) => format!(" {}", fields.as_str()),
            _ => String::new(),
        };
        let mut text = format!("{}{fields}", line.line.text);
        for detail in details(line) {
            text.push('\n');
            text.push_str(&detail);
        }
        let text = printable(&text).replace('\n', "\n    ");
        let (level, colour) = match line.line.level {
            Level::Trace => ("trace", "2"),
            Level::Debug => ("debug", "2"),
            Level::Info => ("info", "34"),
            Level::Warn => ("warn", "33"),
            Level::Error => ("error", "31"),
        };
        let level = self.terminal.paint_out(colour, &format!("{level:<5}"));
        let process = if line.process.is_empty() { String::new() } else { format!("{}: ", printable(&line.process)) };
        format!("{} {level} {process}{text}", clock(line.at))
    }
}

/// The detail of a failure that a line reports, beyond its text.
fn details(line: &Line) -> Vec<String> {
    match line.progress() {
        Some(Progress::Node(node)) => reasons::details(&node.error),
        Some(Progress::Item(failure)) => failure.detail.into_iter().collect(),
        _ => Vec::new(),
    }
}

fn to_json(line: &Line) -> Value {
    json!({
        "at": rfc3339(line.at),
        "pid": line.pid,
        "process": line.process,
        "level": line.line.level,
        "text": line.line.text,
        "fields": line.line.fields.as_ref().map(crate::process::Json::to_value),
    })
}
