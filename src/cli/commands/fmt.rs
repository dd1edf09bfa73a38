//! `wfhost fmt`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::exit::Exit;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::{UserError, kind};
use crate::cli::report::source_map::STDIN;
use crate::cli::terminal::{Terminal, print, say};
use crate::host::replaced_file::ReplacedFile;
use crate::host::{Host, read_definition};
use crate::workflow::format::{FormatError, format};
use crate::workflow::plan::{Unchecked, load};
use crate::workflow::syntax::{SOURCE_BYTES_MAX, Source};
use clap::{Args, ValueHint};
use similar::TextDiff;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost fmt workflows/*.yaml
  wfhost fmt --check workflows/*.yaml
  wfhost fmt --diff flow.yaml
  wfhost fmt - < flow.yaml

Each level is indented by two blanks, and keys of the workflow, of steps and of cases have a fixed order. Comments, \
quotes, blank lines between steps (at most one in a row) and the choice between { } and lines of their own stay; a line \
in brackets with more than 120 columns is split. The plan of a file stays the same: that is checked before the file is \
written.

A file is replaced as a whole and keeps its permissions; a symbolic link stays one, and its target is replaced. A file \
with problems in its YAML is reported and left as it is.

Exit codes: 0 success, 1 with --check or --diff a file is not formatted, 2 a file cannot be formatted.")]
pub(in crate::cli) struct Arguments {
    /// Workflow files; `-` is standard input, which is written to standard output.
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Write nothing, but name the files that are not formatted.
    #[arg(long)]
    check: bool,
    /// Write nothing, but show what would change.
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn fmt(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.cache.builder(NO_SLOTS).workers(1).on_compile(say_compiling(false)).build()?;
    let (mut is_good, mut is_formatted) = (true, true);
    for file in &command.files {
        match one(&host, file, command) {
            Ok(same) => is_formatted &= same,
            Err(Failure::Output(error)) => return Err(error.into()),
            Err(Failure::User(error)) => {
                error.say(terminal);
                is_good = false;
            }
        }
    }
    Ok(match (is_good, is_formatted) {
        (false, _) => Exit::Usage,
        (true, false) if command.check || command.diff => Exit::Failed,
        (true, _) => Exit::Success,
    })
}

/// Why a file is not formatted.
enum Failure {
    User(Box<UserError>),
    Output(io::Error),
}

impl From<UserError> for Failure {
    fn from(error: UserError) -> Self {
        Self::User(Box::new(error))
    }
}

/// Formats a file. Returns whether it has its format already.
fn one(host: &Host, file: &Path, command: &Arguments) -> Result<bool, Failure> {
    let is_input = file == Path::new("-");
    let path = if is_input { Path::new("/dev/stdin") } else { file };
    let name = if is_input { STDIN.into() } else { file.to_string_lossy() };
    let before = read_definition(path).map_err(UserError::from)?;
    let after = formatted(host, &name, &before)?;
    let is_same = before == after;
    if command.diff {
        if !is_same {
            let diff = TextDiff::from_lines(&before, &after);
            let (old, new) = (format!("a/{name}"), format!("b/{name}"));
            print(&diff.unified_diff().header(&old, &new).to_string()).map_err(Failure::Output)?;
        }
    } else if command.check {
        if !is_same {
            say(&format!("{name}: not formatted"));
        }
    } else if is_input {
        io::stdout().lock().write_all(after.as_bytes()).or_else(unless_closed).map_err(Failure::Output)?;
    } else if !is_same {
        replace(file, &before, &after)
            .map_err(|error| UserError::new(kind::UNREADABLE, format!("cannot write {}: {error}", file.display())))?;
        say(&format!("{name}: formatted"));
    }
    Ok(is_same)
}

/// A closed pipe is success: its reader has what it wanted.
fn unless_closed(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}

/// The formatted text of a workflow whose plan is the same, or that has no plan before and after.
fn formatted(host: &Host, name: &str, text: &str) -> Result<String, UserError> {
    let refuse = |title: String| UserError::new(kind::BAD_DEFINITION, title);
    let after = format(name, text).map_err(|error| match error {
        FormatError::Unreadable(problems) => UserError::of_definition(problems),
        other => refuse(format!("{name}: {other}")),
    })?;
    let plan = |text: &str| {
        load(&Source::new(name, text), host.expressions(), &Unchecked)
            .map(|plan| plan.digest())
            .map_err(|no| no.count())
    };
    let is_same = after == text || plan(text) == plan(&after);
    // What is longer than a workflow may be could not be read again.
    if is_same && after.len() <= SOURCE_BYTES_MAX {
        Ok(after)
    } else {
        Err(refuse(format!("{name}: {}", FormatError::Changed)))
    }
}

/// Puts a text in the place of a file, whole or not at all. Its permissions stay, and a symbolic
/// link to it.
fn replace(file: &Path, before: &str, after: &str) -> io::Result<()> {
    let file = ReplacedFile::hold(file, ".wfhost-fmt")?;
    if fs::metadata(file.path())?.nlink() > 1 {
        return Err(io::Error::other("it has several names (hard links), which would become different files"));
    }
    file.replace(after, || {
        let is_same = fs::read(file.path())? == before.as_bytes();
        if is_same { Ok(()) } else { Err(io::Error::other("it was changed meanwhile")) }
    })
}
