//! Folders of the machine that a program is granted: read once, and shared by all its processes.

use crate::guest::wasi::files::tree::{BYTES_MAX, ENTRIES_MAX, Folder};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Folders below `/` that a program can read, and not change.
#[derive(Clone, Debug, Default)]
pub struct GrantedFolders {
    mounts: BTreeMap<String, Arc<Folder>>,
}

/// Bytes of the files of one granted folder, and its files and folders.
pub const GRANTED_BYTES_MAX: u64 = BYTES_MAX;
/// See [`GRANTED_BYTES_MAX`].
pub const GRANTED_ENTRIES_MAX: u64 = ENTRIES_MAX;

impl GrantedFolders {
    /// Adds a folder: the name that it has below `/`, and its files by their paths within it.
    ///
    /// # Errors
    /// Says which file cannot be granted: one of too many, too large or too deep.
    pub fn add<'a>(&mut self, name: &str, files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<(), String> {
        let folder = Folder::granted();
        for (path, bytes) in files {
            folder.put(path, bytes).map_err(|error| format!("the file `{path}` cannot be granted: {error}"))?;
        }
        folder.seal();
        self.mounts.insert(name.to_owned(), folder);
        Ok(())
    }

    /// Puts them into the root of a program.
    pub(super) fn mount(&self, root: &Folder) {
        for (name, folder) in &self.mounts {
            root.mount(name, folder);
        }
    }
}
