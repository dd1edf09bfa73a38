//! `wfhost engine`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::commands::fitness;
use crate::cli::exit::Exit;
use crate::cli::project::{self, Talk, python_engine};
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{print, print_json, say};
use crate::host::component_file;
use crate::host::script::{JAVASCRIPT, PYTHON, engines_folder};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost engine
  wfhost engine python
  wfhost engine python --from script-py.wasm

The engine of JavaScript and TypeScript is part of the program. That of Python is built once on this \
machine: it takes half a minute and fetches 50 MB from PyPI. It is stored in $WFHOST_ENGINES, otherwise in \
`wfhost/engines` in the user's data folder. A run keeps the engine that it was started with.")]
pub(in crate::cli) struct Arguments {
    /// The engine to get.
    #[arg(value_enum)]
    pub(in crate::cli) name: Option<Name>,
    /// Take the engine from this file, instead of building it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "name")]
    pub(in crate::cli) from: Option<PathBuf>,
    /// Print JSON: of each engine name, path, bytes and digest; null where it is not installed.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

/// Engines that are not part of the program.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Name {
    Python,
}

pub(in crate::cli) fn engine(command: &Arguments) -> Result<Exit, CommandError> {
    let folder = engines_folder().ok_or_else(|| {
        UserError::new(kind::UNREADABLE, "there is no home directory, and so no folder for engines")
            .hint("WFHOST_ENGINES names one")
    })?;
    let path = folder.join(PYTHON);
    if command.name.is_some() {
        install(command, &folder, &path)?;
    }
    let python = component_file::read(&path).ok();
    let all = [described("javascript", None, Some(JAVASCRIPT)), described("python", Some(&path), python.as_deref())];
    if command.json {
        print_json(&all)?;
        return Ok(Exit::Success);
    }
    print(&all.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    if python.is_none() {
        say("hint: to get the engine of Python: wfhost engine python");
    }
    Ok(Exit::Success)
}

/// Gets the engine of Python, and checks it.
fn install(command: &Arguments, folder: &Path, path: &Path) -> Result<(), CommandError> {
    let bytes = match &command.from {
        Some(file) => component_file::read(file)
            .map_err(|error| UserError::new(kind::UNREADABLE, format!("cannot read {}: {error}", file.display())))?,
        None => {
            if !command.json {
                say("building the engine of Python: half a minute, and 50 MB from PyPI the first time");
            }
            python_engine(if command.json { Talk::OnFailure } else { Talk::Shown })?
        }
    };
    let host = command.cache.builder(NO_SLOTS).workers(1).build().map_err(UserError::from)?;
    let loaded = fitness::load(&host, "the engine of Python", &bytes, command.json);
    let loaded = loaded.map_err(|unfit| UserError::new(kind::UNFIT, unfit.why).hint_maybe(unfit.hint))?;
    if !loaded.is_script_engine() {
        let title = "this is no script engine: it does not export wfhost:process/script";
        return Err(UserError::new(kind::UNFIT, title).into());
    }
    std::fs::create_dir_all(folder)
        .map_err(|error| UserError::new(kind::UNREADABLE, format!("cannot make {}: {error}", folder.display())))?;
    project::write(path, &bytes)?;
    Ok(())
}

fn described(name: &str, path: Option<&PathBuf>, bytes: Option<&[u8]>) -> Value {
    json!({
        "name": name,
        "path": path,
        "bytes": bytes.map(<[u8]>::len),
        "digest": bytes.map(|bytes| format!("blake3:{}", blake3::hash(bytes).to_hex())),
    })
}

fn line(engine: &Value) -> String {
    let name = engine["name"].as_str().unwrap_or_default();
    let place = engine["path"].as_str().unwrap_or("part of the program");
    match (engine["bytes"].as_u64(), engine["digest"].as_str()) {
        (Some(bytes), Some(digest)) => format!("{name:<10}  {place}, {} kB, {digest}", bytes.div_ceil(1000)),
        _ => format!("{name:<10}  not installed"),
    }
}
