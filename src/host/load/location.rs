//! Where a component is.

use bytes::Bytes;
use std::path::{Path, PathBuf};

/// Where a component is.
pub(in crate::host) struct ComponentLocation {
    pub(in crate::host) path: PathBuf,
    /// The folder of the workflow. A script imports nothing outside it.
    pub(in crate::host) folder: PathBuf,
    /// Its content, if it was read before; of a script all its sources.
    pub(in crate::host) bytes: Option<Bytes>,
    /// What messages call it.
    pub(in crate::host) name: String,
    /// It replaces the component that the workflow names.
    pub(in crate::host) is_other: bool,
    /// The digest of what its registry has, if that is known.
    pub(in crate::host) pinned: Option<String>,
}

impl ComponentLocation {
    /// A file of the workflow's folder.
    pub(super) fn of(folder: &Path, source: &str) -> Self {
        Self {
            path: folder.join(source),
            folder: folder.to_owned(),
            bytes: None,
            name: source.to_owned(),
            is_other: false,
            pinned: None,
        }
    }

    /// The name that says what kind of file it is.
    pub(in crate::host) fn name_of<'a>(&'a self, source: &'a str) -> &'a str {
        if self.is_other { &self.name } else { source }
    }
}
