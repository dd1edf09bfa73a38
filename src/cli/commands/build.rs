//! `wfhost build`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::commands::fitness;
use crate::cli::exit::Exit;
use crate::cli::project::{self, Project, Talk};
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::process::Program as _;
use clap::{Args, ValueHint};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost build
  wfhost build greeter --output components/greeter.wasm
  wfhost build --json | jq -r .component

The language's own tool chain is run as you would run it: cargo for Cargo.toml, componentize-py for \
pyproject.toml, go for go.mod, componentize-js of npm for package.json, zig for wfhost.h and wfhost.zig. What it makes becomes a \
component, which is checked as `wfhost inspect` does, and compiled, so that the first run does not wait.

--json prints one object:
  component     the path of what was written
  digest, bytes
  language, seconds
  or problem    kind (missing-tool, build-failed, unfit), title, hint

Exit codes: 0 success, 2 the component was not built.")]
pub(in crate::cli) struct Arguments {
    /// The project's folder.
    #[arg(default_value = ".", hide_default_value = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) folder: PathBuf,
    /// The file to write [default: NAME.wasm in the project's folder].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) output: Option<PathBuf>,
    /// Print the result as JSON, and nothing of the tool chain unless it fails.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn build(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let begins = Instant::now();
    let project = Project::find(&command.folder)?;
    let built = project.build(if command.json { Talk::OnFailure } else { Talk::Shown })?;
    let path = command.output.clone().unwrap_or_else(|| project.component());
    let shown = path.display().to_string();
    let host = command.cache.builder(NO_SLOTS).workers(1).build().map_err(UserError::from)?;
    let component = match fitness::load(&host, &shown, &built, command.json) {
        Ok(component) => component,
        Err(unfit) if command.json => {
            let error = UserError::new(kind::UNFIT, unfit.why.clone()).hint_maybe(unfit.hint.clone());
            let mut told = error.to_json();
            told["fitness"] = unfit.to_json(&shown);
            print_json(&told)?;
            return Ok(Exit::Usage);
        }
        Err(unfit) => {
            unfit.say(&shown, terminal);
            return Ok(Exit::Usage);
        }
    };
    project::write(&path, &built)?;
    let seconds = begins.elapsed().as_secs_f64();
    if command.json {
        let (digest, language) = (component.digest().to_string(), project.language.name());
        print_json(&json!({
            "component": shown, "digest": digest, "bytes": built.len(), "language": language,
            "seconds": (seconds * 1000.0).round() / 1000.0,
        }))?;
        return Ok(Exit::Success);
    }
    let kilobytes = built.len().div_ceil(1000);
    say(&format!("built {} ({kilobytes} kB) in {seconds:.1} s: it can be a step", project.name));
    print(&shown)?;
    Ok(Exit::Success)
}
