//! `wfhost verify`.

use crate::cli::args::data::DataArguments;
use crate::cli::args::host::HostArguments;
use crate::cli::commands::replaying::{self, unreadable};
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::table::Table;
use crate::cli::terminal::{Terminal, print, print_json, printable};
use crate::host::VerifyRunError;
use crate::run::{RebuildError, Verdict, Verified, VerifyError};
use clap::Args;
use serde_json::json;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost verify 0198
  wfhost verify order-4711 --json | jq '.snapshots[] | select(.verdict != \"equal\")'

RUN is a run's id, or a unique prefix of it. Every step is stepped again from the first record on, without any snapshot. \
With --json it is one object:
  steps       that were stepped again, all as recorded
  snapshots   pid, step, bytes, verdict: equal, differs, or ignored with the
              reason

Exit codes: 0 the run is what its records say, and so are its snapshots; 1 it is not.")]
pub(in crate::cli) struct Arguments {
    /// The run.
    pub(in crate::cli) run: String,
    /// Print it as JSON.
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
            terminal
                .error("a snapshot is not what the run was", Some("the next resume does without it; please report it"));
        }
    }
    Ok(if differs { Exit::Failed } else { Exit::Success })
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
