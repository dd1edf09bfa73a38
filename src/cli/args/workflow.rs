//! From the FILE of a command to a workflow.

use crate::cli::args::host::CacheArguments;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::UserError;
use crate::cli::report::source_map::STDIN;
use crate::cli::terminal::Terminal;
use crate::host::{Host, LoadError, Workflow, read_definition};
use std::path::Path;

/// Slots of a host that runs nothing.
pub(in crate::cli) const NO_SLOTS: u32 = 1;

/// Loads a workflow file, or standard input, with paths relative to the current folder.
pub(in crate::cli) fn load_file(host: &Host, file: &Path) -> Result<Workflow, LoadError> {
    if file != Path::new("-") {
        return host.load(file);
    }
    let text = read_definition(Path::new("/dev/stdin"))?;
    host.parse(STDIN, &text, ".")
}

/// Loads a workflow to inspect it. `None` if it has problems, which have been reported.
pub(in crate::cli) fn load(
    host: &CacheArguments,
    file: &Path,
    json: bool,
    terminal: Terminal,
) -> anyhow::Result<Option<Workflow>> {
    let host = host.builder(NO_SLOTS).workers(1).on_compile(say_compiling(json)).build()?;
    match load_file(&host, file).map_err(UserError::from) {
        Ok(workflow) => Ok(Some(workflow)),
        Err(refused) => {
            if json {
                refused.print()?;
            } else {
                refused.say(terminal);
            }
            Ok(None)
        }
    }
}
