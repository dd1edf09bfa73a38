//! Where the runs are that a command is about: in a folder, or on a server.

use super::data::DataArguments;
use super::http::ServerAddress;
use super::server;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// The folder or the server.
#[derive(Args, Debug, Clone, Default)]
pub(in crate::cli) struct TargetArguments {
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    /// URL of a server, in place of a data folder [default: `WFHOST_SERVER`, unless --data is
    /// given]. The token is in `WFHOST_TOKEN`, or that of `wfhost login`.
    #[arg(long, value_name = "URL", conflicts_with = "data", help_heading = "Host")]
    pub(in crate::cli) server: Option<String>,
    /// PEM file of certificates by which the server is trusted too [default: `WFHOST_CA`, else
    /// those of the login].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "data", help_heading = "Host")]
    pub(in crate::cli) ca: Option<PathBuf>,
}

impl TargetArguments {
    /// The address of the server, if it is one.
    pub(in crate::cli) fn address(&self) -> Option<ServerAddress> {
        let url = self.server.clone().or_else(|| server::of_environment().filter(|_| !self.data.is_flag))?;
        Some(ServerAddress { url, ca: self.ca.clone() })
    }
}
