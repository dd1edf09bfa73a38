//! `wfhost replay` and `wfhost verify`: whether a run does again what it did.

use crate::cli::args::data::DataArguments;
use crate::cli::args::host::HostArguments;
use crate::cli::args::values::{self, Substitution, by_name};
use crate::cli::commands::replaying::{self, place, unreadable};
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::terminal::{Terminal, in_line, print, print_json, printable, say};
use crate::host::ReplayOptions;
use crate::run::{Difference, Replay as Answer, Unrepeatable};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost replay 0198
  wfhost replay order-4711 --with ship=fixed.wasm
  wfhost replay 0198 --until 12 --verbose

RUN is a run's id, or a unique prefix of it. Nothing leaves the host: calls get the answers that were recorded. The first step that \
does otherwise is shown. A step that this host cannot repeat, as where a limit ends it that did not end it then, is a third answer: it \
says nothing of the component. \
With --json it is one object:
  answer                same, diverged, or cannot-replay
  steps, fuel-differs, records
                        where it is the same: how many of each
  record, pid, step, scope, component
                        else: where it is otherwise
  expected, got, line   lines of what was recorded, and of what is; the first
                        one that differs
  problem               how this host ends the step

Exit codes: 0 the same, 1 it is not, or cannot be said.")]
pub(in crate::cli) struct Arguments {
    /// The run.
    pub(in crate::cli) run: String,
    /// Stop after the record of this number.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) until: Option<u64>,
    /// Show each step.
    #[arg(short, long)]
    pub(in crate::cli) verbose: bool,
    /// Another file in the place of a component of the workflow.
    #[arg(long = "with", value_name = "NAME=FILE", value_parser = values::other)]
    pub(in crate::cli) others: Vec<Substitution>,
    /// Print it as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

/// Lines around the first one that differs. Arbitrary.
const LINES_AROUND: usize = 3;

pub(in crate::cli) fn replay(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let (runs, stored) = command.data.find(&command.run)?;
    let records = runs.records_of(&stored.id)?;
    let host = replaying::host(&command.host, command.data.required()?, command.json)?;
    let workflow = host.workflow_with(&stored.id, &by_name(&command.others))?;
    let options = ReplayOptions { until: command.until, substituted: !command.others.is_empty() };
    let answer = host.replay(&workflow, &records, options, |step| {
        if command.verbose {
            let place = place(step.stepped.pid, step.scope.as_deref());
            say(&printable(&format!("{:>6} {place}, step {}: the same", step.record, step.stepped.step)));
        }
    });
    let answer = answer.map_err(|error| unreadable(&error))?;
    if command.json {
        print_json(&to_json(&answer))?;
    } else {
        tell(&answer, terminal)?;
    }
    Ok(if matches!(answer, Answer::Same { .. }) { Exit::Success } else { Exit::Failed })
}

fn to_json(answer: &Answer) -> Value {
    let named = |answer: &str, rest: Value| {
        let mut value = json!({ "answer": answer });
        if let (Some(members), Value::Object(rest)) = (value.as_object_mut(), rest) {
            members.extend(rest);
        }
        value
    };
    match answer {
        Answer::Same { steps, fuel_differs, records } => {
            named("same", json!({ "steps": steps, "fuel-differs": fuel_differs, "records": records }))
        }
        Answer::Diverged(difference) => named("diverged", json!(difference)),
        Answer::CannotReplay(unrepeatable) => named("cannot-replay", json!(unrepeatable)),
    }
}

fn tell(answer: &Answer, terminal: Terminal) -> std::io::Result<()> {
    match answer {
        Answer::Same { steps, fuel_differs, records } => {
            let fuel =
                if *fuel_differs > 0 { format!("; {fuel_differs} used other amounts of fuel") } else { String::new() };
            print(&format!("the same: {steps} steps, {records} records{fuel}"))
        }
        Answer::Diverged(difference) => print(&difference_of(difference, terminal)),
        Answer::CannotReplay(unrepeatable) => {
            let Unrepeatable { record, pid, step, scope, problem, .. } = &**unrepeatable;
            let place = place(*pid, scope.as_deref());
            print(&in_line(&format!("cannot be replayed here: record {record}, {place}, step {step}: {problem}")))?;
            terminal.hint(
                "that says nothing of the component: another wfhost, or other limits, ended the step otherwise then",
            );
            Ok(())
        }
    }
}

/// The lines around the first that differs: what was recorded with a minus, what is with a plus.
fn difference_of(difference: &Difference, terminal: Terminal) -> String {
    let Difference { record, pid, step, scope, expected, got, line, .. } = difference;
    let mut text = format!("diverged: record {record}, {}, step {step}\n", place(*pid, scope.as_deref()));
    let from = line.saturating_sub(LINES_AROUND);
    for same in &expected[from.min(expected.len())..(*line).min(expected.len())] {
        let _ = writeln!(text, "    {}", printable(same));
    }
    let rest = |lines: &[String]| lines.iter().skip(*line).take(LINES_AROUND).cloned().collect::<Vec<_>>();
    for (sign, lines, colour) in [("-", rest(expected), "31"), ("+", rest(got), "32")] {
        if lines.is_empty() {
            let _ = writeln!(text, "  {sign} (nothing more)");
        }
        for one in lines {
            let _ = writeln!(text, "  {}", terminal.paint_out(colour, &format!("{sign} {}", printable(&one))));
        }
    }
    text
}
