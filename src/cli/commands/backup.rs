//! `wfhost backup`: a copy of the data folder, made while hosts use it.

use crate::cli::args::data::DataArguments;
use crate::cli::commands::copying::{Meter, byte_count, refused};
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::journal::ANOTHER_FOLDER;
use crate::cli::table::counted;
use crate::cli::terminal::{Terminal, print_json, say};
use crate::host;
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost backup /backups/wfhost-$(date +%F)
  wfhost restore /backups/wfhost-2026-11-23 --data /var/lib/wfhost

Runs go on while the copy is made, and it holds all of them as they were at one moment. The folder must be \
new or empty; only its owner can read it. It is complete when it has the file backup.json.
--json prints that file: taken, runs, unfinished, journal, components, missing, origin.

Exit codes: 0 the copy is on disk, 1 it is, but lacks components that the data folder itself lacks.")]
pub(in crate::cli) struct Arguments {
    /// Folder for the copy, new or empty.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) to: PathBuf,
    /// Copy snapshots too: the runs are then resumed faster.
    #[arg(long)]
    pub(in crate::cli) snapshots: bool,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

pub(in crate::cli) fn backup(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let Some(runs) = command.data.open()? else {
        let title = format!("there is nothing to copy: {} has no runs", command.data.required()?.display());
        return Err(UserError::new(kind::JOURNAL, title).hint(ANOTHER_FOLDER).into());
    };
    let Some(file) = runs.store.file() else {
        let title = "the journal is not a file, and is copied by its server's own tools";
        return Err(UserError::new(kind::JOURNAL, title).into());
    };
    let mut meter = Meter::new("copied", terminal, command.json);
    let made = host::backup(file, &command.to, command.snapshots, &mut |done, total| meter.show(done, total));
    drop(meter);
    let manifest = made.map_err(refused)?;
    if command.json {
        print_json(&manifest)?;
    } else {
        let (runs, components) = (manifest.runs, manifest.components.len() as u64);
        say(&format!(
            "copied {} ({} unfinished) and {}, {}",
            counted(runs, "run", "runs"),
            manifest.unfinished,
            counted(components, "component", "components"),
            byte_count(manifest.bytes())
        ));
    }
    for (hash, why) in manifest.missing.iter().take(LISTED_MAX) {
        let hint = "runs that have not ended need it; `wfhost doctor` says which";
        say(&terminal.warning_text(&format!("the component {hash} is not in the copy: {why}"), Some(hint)));
    }
    for (hash, why) in manifest.missing_blobs.iter().take(LISTED_MAX) {
        let hint = "runs hold it; `wfhost doctor` says what is wrong with its file";
        say(&terminal.warning_text(&format!("the blob {hash} is not in the copy: {why}"), Some(hint)));
    }
    let is_whole = manifest.missing.is_empty() && manifest.missing_blobs.is_empty();
    Ok(if is_whole { Exit::Success } else { Exit::Failed })
}

/// Missing components, and missing blobs, that are listed. Arbitrary.
const LISTED_MAX: usize = 5;
