//! `wfhost replay` and `wfhost verify`: whether a run does again what it did.

use crate::base::processors;
use crate::cli::Exit;
use crate::cli::args::{Replay, RunningArguments, Verify};
use crate::cli::commands::new_run::by_name;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::{Refused, Stop, kind};
use crate::cli::table::Table;
use crate::cli::terminal::{Terminal, in_line, print, print_json, printable, say};
use crate::host::{Host, ReplayOptions, VerifyRunError};
use crate::process::Pid;
use crate::run::{Difference, RebuildError, Replay as Answer, Unrepeatable, Verdict, Verified, VerifyError};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Lines around the first one that differs. Arbitrary.
const LINES_AROUND: usize = 3;

pub(in crate::cli) fn replay(command: &Replay, terminal: Terminal) -> Result<Exit, Stop> {
    let (runs, stored) = command.data.find(&command.run)?;
    let records = runs.all_records(&stored.id)?;
    let host = host(&command.running, command.data.required()?, command.json)?;
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

pub(in crate::cli) fn verify(command: &Verify, terminal: Terminal) -> Result<Exit, Stop> {
    let (runs, stored) = command.data.find(&command.run)?;
    drop(runs);
    let host = host(&command.running, command.data.required()?, command.json)?;
    let verified = match host.verify(&stored.id) {
        Ok(verified) => verified,
        Err(VerifyRunError::TakeUp(error)) => return Err(error.into()),
        Err(VerifyRunError::Verify(VerifyError::Records(error))) => return otherwise(&error, command.json, terminal),
        Err(error) => return Err(Refused::new(kind::JOURNAL, format!("{:#}", anyhow::Error::from(error))).into()),
    };
    let differs = verified.snapshots.iter().any(|compared| compared.verdict == Verdict::Differs);
    if command.json {
        print_json(&verified)?;
    } else {
        print(&printable(&text_of(&verified)))?;
        if differs {
            terminal
                .error("a snapshot is not what the run was", Some("the next resume does without it; please report it"));
        }
    }
    Ok(if differs { Exit::Failed } else { Exit::Success })
}

fn host(running: &RunningArguments, data: PathBuf, json: bool) -> Result<Host, Refused> {
    Ok(running.host(processors()).data(data).on_compile(say_compiling(json)).build()?)
}

fn place(pid: Pid, scope: Option<&str>) -> String {
    match scope {
        None if pid == Pid::ROOT => "the workflow".to_owned(),
        None => format!("process {pid}"),
        Some(scope) => format!("{scope} ({pid})"),
    }
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

fn text_of(verified: &Verified) -> String {
    let Verified { steps, snapshots } = verified;
    let mut text = format!("{steps} steps, all as recorded; {} snapshots\n", snapshots.len());
    if !snapshots.is_empty() {
        let mut table = Table::new(&["PID", "STEP", "BYTES", "VERDICT"]);
        for compared in snapshots {
            let verdict = match &compared.verdict {
                Verdict::Equal => "equal".to_owned(),
                Verdict::Differs => "differs".to_owned(),
                Verdict::Ignored(why) => format!("ignored: {why}"),
            };
            table.row(vec![compared.pid.to_string(), compared.step.to_string(), compared.bytes.to_string(), verdict]);
        }
        text.push_str(&table.text());
    }
    text
}

/// A run that does otherwise than its records say.
fn otherwise(error: &RebuildError, json: bool, terminal: Terminal) -> Result<Exit, Stop> {
    if !matches!(error, RebuildError::Diverged { .. } | RebuildError::CannotReplay { .. }) {
        return Err(unreadable(error).into());
    }
    if json {
        print_json(&json!({ "problem": error.to_string() }))?;
    } else {
        terminal.error(&error.to_string(), Some("`wfhost replay` shows the difference"));
    }
    Ok(Exit::Failed)
}

fn unreadable(error: &RebuildError) -> Refused {
    Refused::new(kind::JOURNAL, format!("the run cannot be stepped again: {error}"))
}
