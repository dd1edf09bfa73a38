//! The folder of durable runs.

use crate::cli::report::error::{UserError, kind};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Where durable runs are.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct DataArguments {
    /// Folder of durable runs [default: `wfhost` in the user's data folder].
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) data: Option<PathBuf>,
    /// Whether a flag names it.
    #[arg(skip)]
    pub(in crate::cli) is_flag: bool,
}

impl DataArguments {
    /// The folder: `--data`, `$WFHOST_DATA`, or `wfhost` in `$XDG_DATA_HOME` or `~/.local/share`.
    /// `None` without a home directory.
    pub(in crate::cli) fn folder(&self) -> Option<PathBuf> {
        if let Some(folder) = self.data.as_ref().filter(|folder| !folder.as_os_str().is_empty()) {
            return Some(folder.clone());
        }
        let absolute = |dir: PathBuf| dir.is_absolute().then_some(dir);
        let base = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).and_then(absolute);
        let base = base.or_else(|| std::env::home_dir().and_then(absolute).map(|home| home.join(".local/share")))?;
        Some(base.join("wfhost"))
    }

    /// The folder, or why there is none.
    pub(in crate::cli) fn required(&self) -> Result<PathBuf, UserError> {
        self.folder().ok_or_else(|| {
            UserError::new(kind::USAGE, "there is no folder for durable runs: there is no home directory")
                .hint("--data DIR or WFHOST_DATA names one")
        })
    }
}
