//! Files that are there at the start.

use super::{DEPTH_MAX, Entry, File, Folder, Quota, names};
use crate::run::BlobReader;
use std::sync::Arc;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// The content of a file that can be read only.
pub(super) struct Blob(pub(super) Arc<dyn BlobReader>);

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a blob of {} bytes", self.0.size())
    }
}

impl Folder {
    /// Puts a file there with the folders that lead to it.
    pub(crate) fn put(self: &Arc<Self>, path: &str, bytes: &[u8]) -> Result<(), ErrorCode> {
        self.put_made(path, |quota| {
            let file = File::new(quota)?;
            file.write(0, bytes)?;
            Ok(file)
        })
    }

    /// The same with a blob, which can be read only.
    pub(crate) fn put_blob(self: &Arc<Self>, path: &str, blob: Arc<dyn BlobReader>) -> Result<(), ErrorCode> {
        self.put_made(path, |quota| File::of_blob(quota, blob))
    }

    fn put_made(
        self: &Arc<Self>,
        path: &str,
        make: impl FnOnce(&Arc<Quota>) -> Result<Arc<File>, ErrorCode>,
    ) -> Result<(), ErrorCode> {
        let mut folder = Arc::clone(self);
        let names = names(path)?;
        let Some((last, folders)) = names.split_last().filter(|_| !names.contains(&"..")) else {
            return Err(ErrorCode::Invalid);
        };
        if folders.len() >= DEPTH_MAX {
            return Err(ErrorCode::NameTooLong);
        }
        for name in folders {
            let next = match folder.get(name) {
                Some(entry) => Arc::clone(entry.folder()?),
                None => {
                    folder.quota.writable()?;
                    let made = Self::new(&self.quota, folder.depth() + 1)?;
                    folder.entries.lock().insert((*name).to_owned(), Entry::Folder(Arc::clone(&made)));
                    made
                }
            };
            folder = next;
        }
        if folder.get(last).is_some() {
            return Err(ErrorCode::Exist);
        }
        folder.quota.writable()?;
        let file = make(&self.quota)?;
        folder.entries.lock().insert((*last).to_owned(), Entry::File(file));
        Ok(())
    }
}
