//! Folders and files that only their owner can write to.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Refuses a folder that another user owns or could write, or could replace through one of its
/// parents. The path must be without links.
///
/// # Errors
/// What is wrong, with the path concerned; or the error of the system.
pub(crate) fn guarded(folder: &Path, user: u32) -> io::Result<()> {
    only_written_by(folder, &[user], user)
}

/// Refuses a file that a user other than this one and root owns or could write, or could replace
/// through one of its folders.
///
/// # Errors
/// What is wrong, with the path concerned; or the error of the system.
#[cfg(feature = "cli")]
pub(crate) fn guarded_file(file: &Path, user: u32) -> io::Result<()> {
    if let (true, Some(name)) = (file.is_symlink(), file.file_name()) {
        // A user who can replace the link chooses the file.
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let link = folder.canonicalize()?.join(name);
        for folder in link.ancestors().skip(1) {
            only_folder_of(folder, user)?;
        }
    }
    only_written_by(&file.canonicalize()?, &[user, 0], user)
}

/// `owners` are the permitted owners of the file; its folders must belong to the user or to root.
fn only_written_by(path: &Path, owners: &[u32], user: u32) -> io::Result<()> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !owners.contains(&metadata.uid()) {
        return refuse(path, "belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return refuse(path, "can be written by others");
    }
    path.ancestors().skip(1).try_for_each(|folder| only_folder_of(folder, user))
}

/// Refuses a folder whose content another user could replace.
fn only_folder_of(folder: &Path, user: u32) -> io::Result<()> {
    let metadata = std::fs::symlink_metadata(folder)?;
    let sticky = metadata.mode() & 0o1000 != 0;
    if metadata.uid() != user && metadata.uid() != 0 {
        return refuse(folder, "belongs to another user, who could replace what is in it");
    }
    if metadata.mode() & 0o022 != 0 && !sticky {
        return refuse(folder, "can be written by others, who could replace what is in it");
    }
    Ok(())
}

fn refuse(path: &Path, why: &str) -> io::Result<()> {
    Err(io::Error::other(format!("{} {why}", path.display())))
}
