//! Where the runs are that a command is about: in a folder, or on a server.

use super::data::DataArguments;
use super::http::ServerAddress;
use super::server;
use crate::cli::report::invocation::shell_quoted;
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

    /// A hint for a run, whose commands get the options by which this one was told where it is.
    pub(in crate::cli) fn hint(&self, hint: &str, run: &str) -> String {
        let folder = self.data.data.as_ref().filter(|_| self.data.is_flag).and_then(|folder| folder.to_str());
        let option = match (&self.server, folder) {
            (Some(url), _) => format!("--server {}", shell_quoted(url)),
            (None, Some(folder)) => format!("--data {}", shell_quoted(folder)),
            (None, None) => return hint.to_owned(),
        };
        if hint.contains("--data ") || hint.contains("--server ") || !hint.contains("wfhost ") {
            return hint.to_owned();
        }
        hint.replacen(&format!(" {run}"), &format!(" {run} {option}"), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_says_where_the_run_is() {
        let of = |server: Option<&str>, data: Option<&str>| TargetArguments {
            data: DataArguments { data: data.map(PathBuf::from), is_flag: data.is_some() },
            server: server.map(str::to_owned),
            ca: None,
        };
        let signal = "it waits for a signal: wfhost signal r1 go JSON";
        let hint = of(Some("http://h:1"), None).hint(signal, "r1");
        assert_eq!(hint, "it waits for a signal: wfhost signal r1 --server http://h:1 go JSON");
        assert!(of(None, Some("a b")).hint(signal, "r1").contains("signal r1 --data 'a b' go"));
        assert_eq!(of(None, None).hint(signal, "r1"), signal);
        let resume = "to resume it: wfhost resume r1 --data d";
        assert_eq!(of(None, Some("d")).hint(resume, "r1"), resume);
    }
}
