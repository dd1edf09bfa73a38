//! The cache of steps, for commands that run something.

use crate::cli::args::values;
use crate::host::StepCaching;
use crate::journal::CacheBounds;
use clap::Args;
use std::path::Path;

/// Whether outcomes of steps are used again, and how many are kept.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct StepCacheArguments {
    /// Run every step: neither use nor keep the outcomes of steps with `cache`.
    #[arg(long)]
    pub(in crate::cli) no_cache: bool,
    /// How much is kept of the outcomes of steps with `cache`: `64MiB`, `2GiB`; those that were not
    /// used for longest go first [default: 256MiB].
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(in crate::cli) cache_bytes: Option<u64>,
}

impl StepCacheArguments {
    /// Where outcomes are kept: in this folder, or without one in memory.
    pub(in crate::cli) fn caching(&self, folder: Option<&Path>) -> StepCaching {
        let bounds =
            CacheBounds { bytes: self.cache_bytes.unwrap_or(CacheBounds::default().bytes), ..CacheBounds::default() };
        match folder {
            _ if self.no_cache || bounds.bytes == 0 => StepCaching::Off,
            Some(folder) => StepCaching::Folder(folder.to_owned(), bounds),
            None => StepCaching::Bounded(bounds),
        }
    }
}
