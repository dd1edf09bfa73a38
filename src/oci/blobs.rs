//! What was pulled, kept by its digest: a pinned reference needs no registry the second time.
//!
//! A file's name is the SHA-256 of its content, and is checked whenever the file is read, so a file
//! that was changed is one that is not there. Nothing depends on the folder: where it cannot be
//! written, the next run pulls again.

use super::sha256;
use bytes::Bytes;
use std::fs::{DirBuilder, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Bytes that are kept at most; beyond it the files that were pulled first go. Arbitrary.
const KEPT_BYTES_MAX: u64 = 2 << 30;

/// A folder of blobs.
#[derive(Clone, Debug)]
pub(super) struct Blobs(pub(super) Option<PathBuf>);

impl Blobs {
    fn path(&self, digest: &str) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(digest.strip_prefix("sha256:")?))
    }

    /// The blob of a digest, if it is there and undamaged.
    pub(super) fn read(&self, digest: &str, bytes_max: u64) -> Option<Bytes> {
        let mut bytes = Vec::new();
        File::open(self.path(digest)?).ok()?.take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
        (sha256(&bytes) == digest).then(|| bytes.into())
    }

    /// Keeps a blob, where that is possible.
    pub(super) fn write(&self, digest: &str, bytes: &[u8]) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (Some(folder), Some(path)) = (&self.0, self.path(digest)) else { return };
        let temporary = folder.join(format!(".{}-{}.new", std::process::id(), NUMBER.fetch_add(1, Relaxed)));
        let write = || {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            File::options().write(true).create_new(true).mode(0o600).open(&temporary)?.write_all(bytes)?;
            std::fs::rename(&temporary, &path)
        };
        if write().is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        self.trim(KEPT_BYTES_MAX);
    }

    /// Deletes the oldest files until the others have at most so many bytes.
    fn trim(&self, bytes_max: u64) {
        let Some(files) = self.0.as_ref().and_then(|folder| std::fs::read_dir(folder).ok()) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = files
            .flatten()
            .filter_map(|file| {
                let metadata = file.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), file.path()))
            })
            .collect();
        files.sort();
        let mut kept: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if kept <= bytes_max {
                break;
            }
            if std::fs::remove_file(path).is_ok() {
                kept -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_what_its_digest_says_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs(Some(folder.path().join("oci")));
        let digest = sha256(b"component");
        assert_eq!(blobs.read(&digest, 100), None);
        blobs.write(&digest, b"component");
        assert_eq!(blobs.read(&digest, 100).unwrap(), &b"component"[..]);
        assert_eq!(blobs.read(&digest, 3), None, "it is larger than may be read");
        std::fs::write(blobs.path(&digest).unwrap(), b"damaged").unwrap();
        assert_eq!(blobs.read(&digest, 100), None);
        blobs.write(&digest, b"component");
        assert!(blobs.read(&digest, 100).is_some());
        assert_eq!(std::fs::read_dir(folder.path().join("oci")).unwrap().count(), 1);
        Blobs(None).write(&digest, b"component");
    }

    #[test]
    fn the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs(Some(folder.path().to_owned()));
        let digests = [sha256(&[1; 10]), sha256(&[2; 10])];
        for (age, (digest, bytes)) in digests.iter().zip([[1; 10], [2; 10]]).enumerate() {
            blobs.write(digest, &bytes);
            let at = SystemTime::now() - std::time::Duration::from_secs(10 - age as u64);
            File::options().append(true).open(blobs.path(digest).unwrap()).unwrap().set_modified(at).unwrap();
        }
        blobs.trim(10);
        assert_eq!(blobs.read(&digests[0], 100), None);
        assert!(blobs.read(&digests[1], 100).is_some());
    }
}
