//! `wfhost blob`: the blobs that a run holds.

use crate::cli::args::output::OutputArguments;
use crate::cli::args::target::TargetArguments;
use crate::cli::commands::target::{RunBlobs, Target};
use crate::cli::exit::Exit;
use crate::cli::output_dir::{self, ELSEWHERE, fetch_new};
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::units::rough_size;
use crate::cli::table::{Table, counted};
use crate::cli::terminal::{Terminal, print, print_json, printable, quoted, say};
use crate::process::Blob;
use crate::workflow::diagnostics::closest;
use clap::{Args, Subcommand, ValueHint};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost blob ls order-4711
  wfhost blob get order-4711 report -o report.jsonl
  wfhost blob get order-4711 inputs/data | head
  wfhost blob get order-4711 --output-dir out

A run holds the blobs that it was given, has fetched and has made, until it is removed. Its outputs are known once it \
has succeeded; until then a blob is named by its digest.")]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    pub(in crate::cli) action: Action,
}

#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Action {
    /// List the blobs that a run holds, with their places in its inputs and outputs.
    #[command(after_help = "\
--json prints a list with one object for each blob:
  digest       of its content: blake3 and 64 hexadecimal digits
  size         bytes
  media-type   what it is
  places       where its handle is: inputs/NAME, outputs/NAME")]
    Ls {
        /// Id of the run, or a unique prefix of it.
        run: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Write a blob of a run to standard output or to a file.
    Get {
        /// Id of the run, or a unique prefix of it.
        run: String,
        /// Its place in the outputs, as `report` or `pages/0`; `inputs/NAME`; or its digest, or the
        /// beginning of it.
        #[arg(value_name = "PLACE|DIGEST", required_unless_present = "output_dir", conflicts_with = "output_dir")]
        blob: Option<String>,
        /// Write to this file, which must not exist.
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "output_dir")]
        output: Option<PathBuf>,
        #[command(flatten)]
        all: OutputArguments,
        #[command(flatten)]
        target: TargetArguments,
    },
}

impl Arguments {
    pub(in crate::cli) fn json(&self) -> bool {
        matches!(&self.action, Action::Ls { json: true, .. })
    }

    pub(in crate::cli) fn target_mut(&mut self) -> &mut TargetArguments {
        match &mut self.action {
            Action::Ls { target, .. } | Action::Get { target, .. } => target,
        }
    }
}

/// Digits of a digest that are shown: enough to name it.
const DIGEST_CHARS: usize = "blake3:".len() + 12;

/// Digits of a digest that name a blob, at least. Arbitrary.
const DIGITS_MIN: usize = 6;

pub(in crate::cli) fn blob(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    match &command.action {
        Action::Ls { run, json, target } => ls(&*target.open()?, run, *json)?,
        Action::Get { run, blob, output, all, target } => {
            let target = target.open()?;
            let held = target.blobs(run)?;
            match blob {
                Some(blob) => get(&*target, &held, blob, output.as_deref())?,
                None => return get_all(&*target, &held, all, terminal),
            }
        }
    }
    Ok(Exit::Success)
}

fn ls(target: &dyn Target, run: &str, as_json: bool) -> Result<(), CommandError> {
    let held = target.blobs(run)?;
    let places = places(&held);
    let places_of = |blob: &Blob| -> Vec<&str> {
        places.iter().filter(|(_, there)| there.digest == blob.digest).map(|(place, _)| place.as_str()).collect()
    };
    if as_json {
        let item = |blob: &Blob| {
            let Blob { digest, size, media_type } = blob;
            json!({ "digest": digest, "size": size, "media-type": media_type, "places": places_of(blob) })
        };
        print_json(&Value::Array(held.blobs.iter().map(item).collect()))?;
        return Ok(());
    }
    if held.blobs.is_empty() {
        say("the run holds no blobs");
        return Ok(());
    }
    let mut table = Table::new(&["DIGEST", "SIZE", "TYPE", "PLACES"]);
    for blob in &held.blobs {
        let digest = blob.digest.chars().take(DIGEST_CHARS).collect();
        table.row(vec![digest, rough_size(blob.size), blob.media_type.clone(), places_of(blob).join(", ")]);
    }
    print(&printable(&table.without_empty_columns().text()))?;
    let bytes = held.blobs.iter().map(|blob| blob.size).sum();
    say(&format!("{}, {}", counted(held.blobs.len() as u64, "blob", "blobs"), rough_size(bytes)));
    Ok(())
}

/// The handles in a run's inputs and outputs, each with its place.
fn places(held: &RunBlobs) -> Vec<(String, Blob)> {
    let mut found = Vec::new();
    for (root, value) in [("inputs", &held.inputs), ("outputs", &held.outputs)] {
        output_dir::find(value, &mut PathBuf::from(root), &mut found);
    }
    found.into_iter().map(|(place, blob)| (place.to_string_lossy().into_owned(), blob)).collect()
}

/// The blob that is meant by its place or its digest.
fn meant(held: &RunBlobs, given: &str) -> Result<Blob, UserError> {
    let places = places(held);
    let at = |place: &str| places.iter().find(|(known, _)| known == place).map(|(_, blob)| blob.clone());
    if let Some(blob) = at(&format!("outputs/{given}")).or_else(|| at(given)) {
        return Ok(blob);
    }
    let digits = given.strip_prefix("blake3:").unwrap_or(given);
    let begins = |blob: &&Blob| blob.digest.strip_prefix("blake3:").is_some_and(|all| all.starts_with(digits));
    let found: Vec<&Blob> = held.blobs.iter().filter(begins).collect();
    let run = &held.run;
    match found[..] {
        [blob] if digits.len() >= DIGITS_MIN => return Ok(blob.clone()),
        [_, _, ..] if digits.len() >= DIGITS_MIN => {
            let refused = UserError::new(kind::USAGE, format!("several blobs of {run} begin with `{}`", quoted(given)));
            return Err(refused.hint(format!("`wfhost blob ls {run} --json` shows their whole digests")));
        }
        _ => {}
    }
    let names = places.iter().map(|(place, _)| place.strip_prefix("outputs/").unwrap_or(place));
    let hint = match closest(given, names) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("`wfhost blob ls {run}` lists its blobs"),
    };
    Err(UserError::new(kind::USAGE, format!("the run {run} has no blob `{}`", quoted(given))).hint(hint))
}

fn get(target: &dyn Target, held: &RunBlobs, given: &str, file: Option<&Path>) -> Result<(), CommandError> {
    let blob = meant(held, given)?;
    let fetch = |digest: &str, to: &mut dyn std::io::Write| target.copy_blob(&held.run, digest, to);
    let failed = |why: String| UserError::new(kind::UNREADABLE, why);
    if let Some(file) = file {
        if file.exists() {
            let refused = UserError::new(kind::USAGE, format!("{} exists already", file.display()));
            return Err(refused.hint("another -o FILE, or remove that one").into());
        }
        fetch_new(file, &blob.digest, &fetch).map_err(failed)?;
        say(&format!("wrote {} ({} bytes)", file.display(), blob.size));
        return Ok(());
    }
    let mut out = std::io::stdout();
    if out.is_terminal() && !is_text(&blob.media_type) {
        let refused = UserError::new(kind::USAGE, format!("the blob is {}, and no text", quoted(&blob.media_type)));
        return Err(refused.hint("-o FILE writes it to a file").into());
    }
    let mut closed = None;
    let mut watched = Watched { out: &mut out, failed: &mut closed };
    let done = fetch(&blob.digest, &mut watched);
    match (closed, done) {
        // A closed pipe is no failure, as everywhere.
        (Some(error), _) => Err(error.into()),
        (None, Err(why)) => Err(failed(why).into()),
        (None, Ok(())) => Ok(out.flush()?),
    }
}

/// Standard output, with the error that it gave.
struct Watched<'a> {
    out: &'a mut std::io::Stdout,
    failed: &'a mut Option<std::io::Error>,
}

impl std::io::Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes).map_err(|error| {
            let told = error.kind().into();
            *self.failed = Some(error);
            told
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Returns whether a terminal can show it.
fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.starts_with("text/") || ["json", "xml", "yaml"].iter().any(|kind| essence.ends_with(kind))
}

fn get_all(
    target: &dyn Target,
    held: &RunBlobs,
    all: &OutputArguments,
    terminal: Terminal,
) -> Result<Exit, CommandError> {
    let run = &held.run;
    if held.outputs.is_null() {
        let refused = UserError::new(kind::WRONG_STATE, format!("the run {run} has no outputs: it has not succeeded"));
        return Err(refused.hint(format!("`wfhost blob ls {run}` lists the blobs that it holds")).into());
    }
    all.make()?;
    let fetch = |digest: &str, to: &mut dyn std::io::Write| target.copy_blob(run, digest, to);
    let write = |folder| output_dir::write(folder, &held.outputs, &fetch, &|line| say(&line));
    Ok(all.folder().map_or(Ok(()), write).map_or_else(
        |why| {
            terminal.error(&why, Some(ELSEWHERE));
            Exit::Failed
        },
        |()| Exit::Success,
    ))
}
