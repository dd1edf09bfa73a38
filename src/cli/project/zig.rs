//! The compiler zig, which compiles C too.

use super::c::ZIG;
use super::tool;
use crate::cli::report::error::{UserError, kind};
use std::path::Path;
use std::process::Command;

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
