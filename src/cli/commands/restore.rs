//! `wfhost restore`: a data folder from a copy.

use crate::cli::args::data::DataArguments;
use crate::cli::commands::copying::{Meter, byte_count, refused};
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::table::counted;
use crate::cli::terminal::{Terminal, print_json, say};
use crate::host;
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost restore /backups/wfhost-2026-11-23
  wfhost restore /backups/wfhost-2026-11-23 --data /var/lib/wfhost

The copy is checked byte by byte, and the data folder must have no journal. Its runs are suspended, as they \
were when the copy was made: what they did since then is done again, under the same idempotency keys. So \
make sure that the original does not continue them too.
--json prints backup.json of the copy.")]
pub(in crate::cli) struct Arguments {
    /// Folder of the copy, made by `wfhost backup`.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) from: PathBuf,
    /// Restore although the original still has its journal: both then continue the same runs.
    #[arg(long)]
    pub(in crate::cli) beside_original: bool,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

pub(in crate::cli) fn restore(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let data = command.data.required()?;
    let mut meter = Meter::new("restored", terminal, command.json);
    let progress = &mut |done, total| meter.show(done, total);
    let restored = host::restore(&command.from, &data, command.beside_original, progress);
    drop(meter);
    let manifest = restored.map_err(refused)?;
    if command.json {
        print_json(&manifest)?;
        return Ok(Exit::Success);
    }
    let runs = counted(manifest.runs, "run", "runs");
    say(&format!("restored {runs} as of {} to {}, {}", manifest.taken, data.display(), byte_count(manifest.bytes())));
    if manifest.unfinished > 0 {
        let suspended = counted(manifest.unfinished, "run has not ended", "runs have not ended");
        let warning = format!("{suspended}: what they did since the copy is done again, under the same keys");
        let hint = "make sure that the original does not continue them, then: wfhost resume --all";
        say(&terminal.warning_text(&warning, Some(hint)));
    }
    Ok(Exit::Success)
}
