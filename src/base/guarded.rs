//! Folders and files that only their owner can write to.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Refuses a folder that another user owns or could write, or could replace through one of its parents. The path is one without links.
///
/// # Errors
/// What is wrong, by the path of what it is wrong with; or what the system says.
pub(crate) fn guarded(folder: &Path, user: u32) -> io::Result<()> {
    only_written_by(folder, &[user], user)
}

/// Refuses a file that a user other than this one and root owns or could write, or could replace through one of its folders.
///
/// # Errors
/// What is wrong, by the path of what it is wrong with; or what the system says.
#[cfg(feature = "cli")]
pub(crate) fn guarded_file(file: &Path, user: u32) -> io::Result<()> {
    only_written_by(&file.canonicalize()?, &[user, 0], user)
}

/// `owners`: who may own what the path leads to. Its folders belong to the user or to root.
fn only_written_by(path: &Path, owners: &[u32], user: u32) -> io::Result<()> {
    let refuse = |path: &Path, why: &str| Err(io::Error::other(format!("{} {why}", path.display())));
    for (depth, path) in path.ancestors().enumerate() {
        let metadata = std::fs::symlink_metadata(path)?;
        let writable_by_others = metadata.mode() & 0o022 != 0;
        let sticky = metadata.mode() & 0o1000 != 0;
        if depth == 0 {
            if !owners.contains(&metadata.uid()) {
                return refuse(path, "belongs to another user");
            }
            if writable_by_others {
                return refuse(path, "can be written by others");
            }
        } else if metadata.uid() != user && metadata.uid() != 0 {
            return refuse(path, "belongs to another user, who could replace what is in it");
        } else if writable_by_others && !sticky {
            return refuse(path, "can be written by others, who could replace what is in it");
        }
    }
    Ok(())
}
