//! C: zig's clang, for `wasm32-wasi` as a library without `main`.

use super::tool::{self, Talk};
use crate::cli::report::error::{UserError, kind};
use std::path::{Path, PathBuf};

/// The release that the SDK is tested with.
pub(super) const ZIG: &str = "0.17.0";

/// Integer overflows and the like end a step with their place, see `wfhost.h`.
const SANITIZERS: &str = "-fsanitize=signed-integer-overflow,integer-divide-by-zero,shift,array-bounds";

pub(super) fn build(folder: &Path, talk: Talk) -> Result<Vec<u8>, UserError> {
    let sources = sources(folder)?;
    let scratch = tool::Scratch::new()?;
    let module = scratch.path("core.wasm");
    let mut command = super::zig::command(folder)?;
    command.current_dir(folder).args(["cc", "--target=wasm32-wasi", "-mexec-model=reactor", "-std=gnu17", "-Os"]);
    command.args(["-Wall", "-Wextra", SANITIZERS, "-fsanitize-recover=all", "-fno-sanitize-trap=all"]);
    // Names of functions stay: a backtrace of a trap has them.
    command.args(["-Wl,-z,stack-size=65536", "-Wl,--strip-debug", "-I", "."]);
    command.args(sources).arg("-o").arg(&module);
    tool::run(&mut command, talk, &super::zig::hint())?;
    tool::made(&module)
}

/// The C files of the folder, without tests.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, UserError> {
    let unread = |error| UserError::new(kind::UNREADABLE, format!("cannot read {}: {error}", folder.display()));
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(unread)?
        .filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name())))
        .filter(|name| is_source(name))
        .collect();
    names.sort();
    if names.is_empty() {
        let title = format!("there is no C file in {}", folder.display());
        return Err(UserError::new(kind::UNREADABLE, title).hint("files that end with `_test.c` are not built"));
    }
    Ok(names)
}

fn is_source(name: &Path) -> bool {
    let stem = name.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_c = name.extension().is_some_and(|ending| ending == "c");
    is_c && !stem.ends_with("_test") && !stem.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_hidden_files_are_no_sources() {
        for (name, expected) in [("a.c", true), ("a_test.c", false), (".a.c", false), ("-o.c", false), ("a.h", false)] {
            assert_eq!(is_source(Path::new(name)), expected, "{name}");
        }
    }
}
