//! How large blobs may be: for commands that run something.

use crate::cli::args::values;
use crate::run::BlobBounds;
use clap::Args;

/// The bounds of blobs.
#[derive(Args, Debug, Clone, Default)]
#[allow(clippy::struct_field_names, reason = "they are flags")]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct BlobArguments {
    /// Bytes of one blob at most: `500MiB`, `2GiB` [default: 1GiB].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub(in crate::cli) blob_max: Option<u64>,
    /// Bytes of the blobs of one run at most [default: 8GiB].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub(in crate::cli) run_blobs_max: Option<u64>,
    /// Bytes of all blobs in the data folder at most [default: 64GiB].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub(in crate::cli) blobs_max: Option<u64>,
}

impl BlobArguments {
    pub(in crate::cli) fn bounds(&self) -> BlobBounds {
        let mut bounds = BlobBounds::default();
        bounds.blob_bytes = self.blob_max.unwrap_or(bounds.blob_bytes);
        bounds.run_bytes = self.run_blobs_max.unwrap_or(bounds.run_bytes);
        bounds.store_bytes = self.blobs_max.unwrap_or(bounds.store_bytes);
        bounds
    }
}
