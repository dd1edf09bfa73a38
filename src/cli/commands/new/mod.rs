//! `wfhost new`: a folder with a program in one language, the workflow that uses it, and the SDK.

mod templates;

use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::invocation::shell_quoted;
use crate::cli::terminal::{print, print_json, say};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use templates::Template;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost new greeter --lang rust
  wfhost new order --script
  wfhost new order --lang ts
  wfhost new flows/order --script --lang python

The folder has a README with the commands that build, run and test it, and a copy of the SDK: nothing \
is fetched. A script is run as it is: --script needs nothing else. Existing files are never overwritten.")]
pub(in crate::cli) struct Arguments {
    /// The folder to make. Its name is the project's: small letters, digits and dashes.
    #[arg(value_name = "NAME", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) folder: PathBuf,
    /// The language; of a script it may be omitted: JavaScript.
    #[arg(long = "lang", value_enum, value_name = "LANGUAGE", required_unless_present = "script")]
    pub(in crate::cli) language: Option<Language>,
    /// Only a script and a workflow: nothing is built, and nothing else needs to be installed.
    #[arg(long)]
    pub(in crate::cli) script: bool,
    /// Print what was written, and the commands, as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// The languages that there is a template for.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Language {
    Rust,
    /// JavaScript.
    Js,
    /// TypeScript.
    Ts,
    Python,
    Go,
    C,
    Zig,
}

/// Letters of a name. Arbitrary.
const NAME_MAX: usize = 60;

/// What stands for the project's name in the files of a template.
const NAME: &str = "my-project";
/// The same where a dash cannot be.
const NAME_AS_WORD: &str = "my_project";

pub(in crate::cli) fn new(command: &Arguments) -> Result<Exit, CommandError> {
    let template = templates::find(command.language, command.script)?;
    let name = name(&command.folder)?;
    let written = template.write(&command.folder, name)?;
    let folder = command.folder.to_string_lossy();
    let folder = folder.trim_end_matches('/');
    let commands: Vec<String> = template.commands.iter().map(|line| with_name(line, name)).collect();
    if command.json {
        print_json(&json!({ "name": name, "folder": folder, "files": written, "commands": commands }))?;
        return Ok(Exit::Success);
    }
    say(&format!("wrote {} files to {folder}/; README.md says how to go on", written.len()));
    say("to run it:");
    print(&format!("cd {}\n{}", shell_quoted(folder), commands.join("\n")))?;
    Ok(Exit::Success)
}

/// The name of the project in that folder.
fn name(folder: &Path) -> Result<&str, UserError> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_one = name.len() <= NAME_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
        && !name.ends_with('-');
    if is_one {
        return Ok(name);
    }
    let title = format!("`{name}` cannot be the name of a project");
    let hint = "a name begins with a small letter, and has small letters, digits and dashes: order-mail, for example";
    Err(UserError::new(kind::USAGE, title).hint(hint))
}

fn with_name(text: &str, name: &str) -> String {
    text.replace(NAME, name).replace(NAME_AS_WORD, &name.replace('-', "_"))
}

impl Template {
    /// Writes its files into a folder, created if missing. No existing file is changed.
    fn write(&self, folder: &Path, name: &str) -> Result<Vec<PathBuf>, UserError> {
        let files: Vec<_> = self.files().map(|file| (folder.join(with_name(file.path, name)), file)).collect();
        if let Some((there, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
            let title = format!("{} already exists, and nothing is overwritten", there.display());
            return Err(UserError::new(kind::CONFLICT, title).hint("name another folder"));
        }
        let refuse = |path: &Path, error: &io::Error| {
            UserError::new(kind::UNREADABLE, format!("cannot write {}: {error}", path.display()))
        };
        for (path, file) in &files {
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).map_err(|error| refuse(parent, &error))?;
            let bytes = match std::str::from_utf8(file.bytes) {
                Ok(text) if file.is_named => with_name(text, name).into_bytes(),
                _ => file.bytes.to_vec(),
            };
            let written = OpenOptions::new().write(true).create_new(true).open(path);
            written.and_then(|mut to| to.write_all(&bytes)).map_err(|error| refuse(path, &error))?;
        }
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }
}
