//! `wfhost logs`.

use crate::cli::args::target::TargetArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::report::log_line::line_text;
use crate::cli::table::rfc3339;
use crate::cli::terminal::{Terminal, printable_json, unwritable};
use crate::host::Line;
use crate::process::Level;
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
    pub(in crate::cli) target: TargetArguments,
}

pub(in crate::cli) fn logs(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let writer = Writer { json: command.json, all: command.all, terminal };
    let target = command.target.open()?;
    match target.log(&command.run, command.follow, terminal, &mut |line| writer.line(line)) {
        // The reader has what it wanted.
        Err(CommandError::Internal(error)) if is_broken_pipe(&error) => Ok(Exit::Success),
        other => other,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
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
        let text = if self.json {
            printable_json(&to_json(line).to_string()).into_owned()
        } else {
            line_text(line, &|colour, text| self.terminal.paint_out(colour, text))
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(unwritable)
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
