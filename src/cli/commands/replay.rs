//! `wfhost replay`: whether a run repeats what it recorded.

use crate::cli::args::data::DataArguments;
use crate::cli::args::host::HostArguments;
use crate::cli::args::values::{self, Substitution, by_name};
use crate::cli::commands::replaying::{self, place, unreadable};
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::table::counted;
use crate::cli::terminal::{Terminal, in_line, print, print_json, printable, say};
use crate::host::ReplayOptions;
use crate::run::{Difference, Record, Replay as Answer, Unrepeatable};
use clap::Args;
use std::fmt::Write as _;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost replay order-4711
  wfhost replay order-4711 --with ship=fixed.wasm
  wfhost replay order-4711 --until 12 --verbose

Nothing leaves the host: calls get their recorded answers. The first step that diverges is shown. \
If this host cannot repeat a step, for example because it now hits a limit that it did not hit before, the answer is \
cannot-replay: it \
says nothing about the component. \
--json prints one object:
  answer                same, diverged, or cannot-replay
  steps, fuel-differs, records
                        if it is the same: how many of each
  record, pid, step, scope, component
                        otherwise: where it diverges
  expected, got, line   lines as recorded and as replayed; the first one that
                        differs
  problem               how this host ends the step

Exit codes: 0 the same, 1 it diverged or cannot be replayed.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// Stop after record N.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) until: Option<u64>,
    /// Show each step.
    #[arg(short, long)]
    pub(in crate::cli) verbose: bool,
    /// Replace a component of the workflow with another file.
    #[arg(long = "with", value_name = "NAME=FILE", value_parser = values::other)]
    pub(in crate::cli) others: Vec<Substitution>,
    /// Print JSON.
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
    let records = Record::as_now(runs.records_of(&stored.id)?);
    let host = replaying::host(&command.host, command.data.required()?, command.json)?;
    host.recall(&stored.id, &records);
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
        print_json(&answer.to_json())?;
    } else {
        tell(&answer, terminal)?;
    }
    Ok(if matches!(answer, Answer::Same { .. }) { Exit::Success } else { Exit::Failed })
}

fn tell(answer: &Answer, terminal: Terminal) -> std::io::Result<()> {
    match answer {
        Answer::Same { steps, fuel_differs, records } => {
            let fuel = if *fuel_differs > 0 {
                format!("; {fuel_differs} used different amounts of fuel")
            } else {
                String::new()
            };
            let (steps, records) = (counted(*steps, "step", "steps"), counted(*records, "record", "records"));
            print(&format!("the same: {steps}, {records}{fuel}"))
        }
        Answer::Diverged(difference) => print(&difference_of(difference, terminal)),
        Answer::CannotReplay(unrepeatable) => {
            let Unrepeatable { record, pid, step, scope, problem, .. } = &**unrepeatable;
            let place = place(*pid, scope.as_deref());
            print(&in_line(&format!("cannot be replayed here: record {record}, {place}, step {step}: {problem}")))?;
            terminal.hint(
                "that says nothing about the component: another wfhost, or other limits, ended the step \
                differently then",
            );
            Ok(())
        }
    }
}

/// The lines around the first that differs: the recorded ones with a minus, the replayed ones with
/// a plus.
pub(in crate::cli) fn difference_of(difference: &Difference, terminal: Terminal) -> String {
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
