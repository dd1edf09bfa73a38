//! What a retry would do, as text and as JSON.

use crate::cli::exit::Exit;
use crate::cli::table::{Table, counted};
use crate::cli::terminal::{print, print_json, printable};
use crate::host::PreparedRetry;
use crate::run::Reuse;
use crate::workflow::interpreter::{ItemKeys, RerunReason, StepFate};
use std::fmt::Write as _;

/// Prints it.
///
/// # Errors
/// Fails if the output cannot be written.
pub(in crate::cli) fn print_plan(run: &str, retrial: &PreparedRetry, is_json: bool) -> anyhow::Result<Exit> {
    if is_json {
        print_json(&retrial.to_json(run))?;
    } else {
        print(&text(retrial))?;
    }
    Ok(Exit::Success)
}

/// A summary before it starts: how much is taken over, and what is dropped.
pub(in crate::cli) fn summary(retrial: &PreparedRetry) -> Vec<String> {
    let steps = &retrial.repetition.steps;
    let again = steps.iter().filter(|step| step.reason.is_some()).count();
    let taken = counted((steps.len() - again) as u64, "step", "steps");
    let mut lines = vec![format!("{taken} taken over, {again} to run again")];
    lines.extend(remarks(retrial));
    lines
}

fn remarks(retrial: &PreparedRetry) -> Vec<String> {
    let mut lines = Vec::new();
    if !retrial.undeclared.is_empty() {
        let names = retrial.undeclared.join(", ");
        lines.push(format!("inputs that the workflow no longer declares are dropped: {names}"));
    }
    if !retrial.repetition.signals.is_empty() {
        let names = retrial.repetition.signals.join(", ");
        lines.push(format!("unclaimed signals are not sent to the new run: {names}"));
    }
    if !retrial.repetition.gone.is_empty() {
        let gone = retrial.repetition.gone.iter().map(|(id, status)| format!("{id} ({status})"));
        let gone = gone.collect::<Vec<_>>().join(", ");
        lines.push(format!("steps that the workflow no longer has: {gone}"));
    }
    lines
}

fn text(retrial: &PreparedRetry) -> String {
    let steps = &retrial.repetition.steps;
    let mut table = Table::new(&["STEP", "BEFORE", "NOW", "WHY"]);
    for step in steps {
        let (now, why) = match &step.reason {
            None => ("taken over", String::new()),
            Some(why) => ("runs again", reason(why)),
        };
        let items = step.items.map(|(taken, total)| {
            format!("{} of {}, {taken} taken over", total - taken, counted(total as u64, "item", "items"))
        });
        let why = [Some(why).filter(|why| !why.is_empty()), items].into_iter().flatten().collect::<Vec<_>>().join("; ");
        table.row(vec![step.id.to_string(), step.before.unwrap_or("").to_owned(), now.to_owned(), why]);
    }
    let mut text = table.text();
    let with_keys: Vec<&StepFate> = steps.iter().filter(|step| !step.keys.is_empty()).collect();
    if !with_keys.is_empty() {
        text.push_str("\nIDEMPOTENCY KEYS\n");
    }
    for step in with_keys {
        for ItemKeys { key, reuse, .. } in &step.keys {
            let key = match key.strip_suffix('/') {
                Some(key) => format!("{key}/… (the calls that its guest made)"),
                None => key.clone(),
            };
            let when = match reuse {
                Reuse::Always => "reused whatever the arguments: the outcome of that call is unknown",
                Reuse::Same => "reused with the same arguments; with others the key is new",
                Reuse::Never => "new: the former call is known not to have happened",
            };
            let _ = writeln!(text, "{}: {}\n  {when}", step.id, printable(&key));
        }
        if step.keys_total > step.keys.len() {
            let _ = writeln!(text, "{}: and {} more", step.id, step.keys_total - step.keys.len());
        }
    }
    for line in remarks(retrial) {
        let _ = write!(text, "\n{line}\n");
    }
    text
}

/// Why a step runs again, in some words.
fn reason(why: &RerunReason) -> String {
    match why {
        RerunReason::NotSucceeded => "it did not succeed".to_owned(),
        RerunReason::Requested => "--from".to_owned(),
        RerunReason::Needs(step) => format!("{step} runs again"),
        RerunReason::Changed(keys) => format!("changed: {}", keys.join(", ")),
        RerunReason::Inputs(names) => format!("changed inputs: {}", names.join(", ")),
        RerunReason::Store => "it may have written to kv, which starts empty".to_owned(),
        RerunReason::Undone => "it was undone".to_owned(),
        RerunReason::New => "a new step".to_owned(),
    }
}
