//! Python: componentize-py, which puts CPython and the modules into a component.

use super::component::{CONTRACT, DESCRIBED};
use super::tool::{self, Talk};
use crate::cli::report::error::{UserError, kind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that the SDK is tested with.
const COMPONENTIZE: &str = "0.25.1";

/// The module with the entries.
const MAIN: &str = "main";

/// The module that componentize-py takes: the contract's exports, before the entries, since they
/// replace the library's clocks.
const APP: &str = "from wfhost.component import Describe, Guest\nimport main\n";

/// Replaces functions of the C library in a component of componentize-py.
const STUBS: &str = include_str!("../../../guests/python/wfhost/stubs.py");

const NO_PYTHON: &str = "Python 3.11 or later comes with your system's packages";

pub(super) fn build(folder: &Path, talk: Talk) -> Result<Vec<u8>, UserError> {
    if !folder.join(format!("{MAIN}.py")).is_file() {
        let title = format!("there is no {MAIN}.py in {}", folder.display());
        return Err(UserError::new(kind::UNREADABLE, title).hint("it holds the entries, and imports other modules"));
    }
    let hint = tool::in_environment(&format!("componentize-py=={COMPONENTIZE}"));
    let program = tool::find(folder, "componentize-py");
    let missing = || UserError::new(kind::MISSING_TOOL, "componentize-py is not installed").hint(&hint);
    let program = program.ok_or_else(missing)?;
    let scratch = tool::Scratch::new()?;
    let package = "package wfhost:process@0.1.0;\n";
    scratch.write("wit/process.wit", CONTRACT)?;
    scratch.write("wit/described.wit", &format!("{package}{DESCRIBED}\n"))?;
    scratch.write("app/wfhost_app.py", APP)?;
    let component = scratch.path("component.wasm");
    let mut command = Command::new(program);
    command.current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg("-q").arg("-d").arg(scratch.path("wit")).args(["-w", "described", "componentize"]);
    command.arg("-p").arg(scratch.path("app")).args(["-p", ".", "wfhost_app", "--stub-wasi", "-o"]).arg(&component);
    tool::run(&mut command, talk, &hint)?;
    // A traceback looks for files: it finds none, instead of ending the step.
    scratch.write("stubs.py", STUBS)?;
    let python = tool::find(folder, "python3").unwrap_or_else(|| PathBuf::from("python3"));
    tool::run(Command::new(python).arg(scratch.path("stubs.py")).arg(&component), talk, NO_PYTHON)?;
    tool::made(&component)
}
