//! `wfhost verify`.

use crate::cli::args::data::DataArguments;
use crate::cli::args::host::HostArguments;
use crate::cli::commands::replaying::{self, unreadable};
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::table::{Table, counted};
use crate::cli::terminal::{Terminal, print, print_json, printable};
use crate::host::VerifyRunError;
use crate::run::{RebuildError, Verdict, Verified, VerifyError};
use clap::Args;
use serde_json::json;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost verify order-4711
  wfhost verify order-4711 --json | jq '.snapshots[] | select(.verdict != \"equal\")'

Every step is replayed from the first record on, without any snapshot. \
--json prints one object:
  steps       how many were replayed, all as recorded
  snapshots   pid, step, bytes, verdict: equal, differs, or ignored with the
              reason

Exit codes: 0 the run and its snapshots are what its records say, 1 they are not.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

pub(in crate::cli) fn verify(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let (runs, stored) = command.data.find(&command.run)?;
    drop(runs);
    let host = replaying::host(&command.host, command.data.required()?, command.json)?;
    let verified = match host.verify(&stored.id) {
        Ok(verified) => verified,
        Err(VerifyRunError::TakeUp(error)) => return Err(error.into()),
        Err(VerifyRunError::Verify(VerifyError::Records(error))) => return otherwise(&error, command.json, terminal),
        Err(error) => return Err(UserError::new(kind::JOURNAL, format!("{:#}", anyhow::Error::from(error))).into()),
    };
    let differs = verified.snapshots.iter().any(|compared| compared.verdict == Verdict::Differs);
    if command.json {
        print_json(&verified)?;
    } else {
        print(&printable(&text_of(&verified)))?;
        if differs {
            terminal.error("a snapshot differs from the run", Some("the next resume ignores it; please report it"));
        }
    }
    Ok(if differs { Exit::Failed } else { Exit::Success })
}

fn text_of(verified: &Verified) -> String {
    let Verified { steps, snapshots } = verified;
    let compared = counted(snapshots.len() as u64, "snapshot", "snapshots");
    let mut text = format!("{}, all as recorded; {compared}\n", counted(*steps, "step", "steps"));
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

/// Reports a run that diverges from its records.
fn otherwise(error: &RebuildError, json: bool, terminal: Terminal) -> Result<Exit, CommandError> {
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
