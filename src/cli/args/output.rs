//! `--output-dir`: for commands that end with the outputs of a run.

use crate::cli::report::error::{UserError, kind};
use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};

/// Where the outputs that are blobs are written.
#[derive(Args, Debug, Clone, Default)]
pub(in crate::cli) struct OutputArguments {
    /// Write the outputs that are blobs as files to this folder. A file that is there with other
    /// content is not replaced.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) output_dir: Option<PathBuf>,
}

impl OutputArguments {
    /// Makes the folder, before anything runs.
    pub(in crate::cli) fn make(&self) -> Result<(), UserError> {
        let Some(folder) = &self.output_dir else { return Ok(()) };
        std::fs::create_dir_all(folder)
            .map_err(|error| UserError::new(kind::USAGE, format!("--output-dir {}: {error}", folder.display())))
    }

    pub(in crate::cli) fn folder(&self) -> Option<&Path> {
        self.output_dir.as_deref()
    }
}
