//! `--output-dir`: for commands that end with the outputs of a run.

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
    pub(in crate::cli) fn folder(&self) -> Option<&Path> {
        self.output_dir.as_deref()
    }
}
