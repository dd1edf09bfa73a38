//! What `replay` and `verify` share.

use crate::base::processors;
use crate::cli::args::host::HostArguments;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::{UserError, kind};
use crate::host::Host;
use crate::process::Pid;
use crate::run::RebuildError;
use std::path::PathBuf;

pub(in crate::cli) fn host(running: &HostArguments, data: PathBuf, json: bool) -> Result<Host, UserError> {
    Ok(running.host(processors()).data(data).on_compile(say_compiling(json)).build()?)
}

pub(in crate::cli) fn place(pid: Pid, scope: Option<&str>) -> String {
    match scope {
        None if pid == Pid::ROOT => "the workflow".to_owned(),
        None => format!("process {pid}"),
        Some(scope) => format!("{scope} ({pid})"),
    }
}

pub(in crate::cli) fn unreadable(error: &RebuildError) -> UserError {
    UserError::new(kind::JOURNAL, format!("the run cannot be replayed: {error}"))
}
