//! The host that owns a run, and where it is asked.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The host that owns a run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Owner {
    /// Its number in the journal.
    pub host: u64,
    /// What people call it. Hosts of a folder have no names.
    pub name: Option<Arc<str>>,
    /// The id of its operating system process, if it is on this machine.
    pub pid: Option<u32>,
    /// Where it listens, if it does.
    pub address: Option<Address>,
    /// Whether it still runs.
    pub alive: bool,
}

/// Where a host listens.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// A Unix socket on this machine.
    Socket(PathBuf),
    /// A URL, such as `https://host-1:8080`.
    Url(String),
}

impl Address {
    /// Returns the path of a socket; `None` for a URL.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Socket(path) => Some(path),
            Self::Url(_) => None,
        }
    }
}

/// A path, or a URL, which has a scheme.
impl From<&str> for Address {
    fn from(text: &str) -> Self {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if is_scheme { Self::Url(text.to_owned()) } else { Self::Socket(text.into()) }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Url(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for (text, expected) in [
            ("/run/user/1/a.sock", Address::Socket("/run/user/1/a.sock".into())),
            ("a://b", Address::Url("a://b".into())),
            ("https://host-1:8080", Address::Url("https://host-1:8080".into())),
            ("/odd://path", Address::Socket("/odd://path".into())),
            ("", Address::Socket(PathBuf::new())),
        ] {
            assert_eq!(Address::from(text), expected);
            assert_eq!(expected.to_string(), text);
        }
    }
}
