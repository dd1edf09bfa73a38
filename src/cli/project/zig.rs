//! Zig: its own compiler, for `wasm32-freestanding`; and the compiler itself, which compiles C too.

use super::c::ZIG;
use super::tool::{self, Talk};
use crate::cli::report::error::{UserError, kind};
use std::path::Path;
use std::process::Command;

/// A fault is a problem with its place, at some cost in size.
const OF: [&str; 4] = ["-target", "wasm32-freestanding", "-O", "ReleaseSafe"];

pub(super) fn build(folder: &Path, talk: Talk) -> Result<Vec<u8>, UserError> {
    let scratch = tool::Scratch::new()?;
    let module = scratch.path("core.wasm");
    let mut command = command(folder)?;
    command.current_dir(folder).args(["build-exe", "-fno-entry", "-rdynamic", "--stack", "131072"]);
    command.args(OF).args(["--dep", "wfhost", "-Mroot=step.zig"]).args(OF).arg("-Mwfhost=wfhost/wfhost.zig");
    command.arg(format!("-femit-bin={}", module.display()));
    tool::run(&mut command, talk, &hint())?;
    tool::made(&module)
}

/// A command of zig: of the project's own environment, or of the PATH.
pub(super) fn command(folder: &Path) -> Result<Command, UserError> {
    // The package of PyPI calls it so.
    let found = ["python-zig", "zig"].iter().find_map(|name| tool::find(folder, name));
    let program = found.ok_or_else(|| UserError::new(kind::MISSING_TOOL, "zig is not installed").hint(hint()))?;
    Ok(Command::new(program))
}

pub(super) fn hint() -> String {
    tool::in_environment(&format!("ziglang=={ZIG}"))
}
