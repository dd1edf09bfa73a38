//! The folder of the sockets of a data folder, and its rights.

use crate::journal::layout;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of a socket's path. Linux takes 107, others 103; the rest is for the name under which it
/// is first bound.
const PATH_BYTES_MAX: usize = 100;

/// Bytes of a socket's name: a process id, some random digits, an ending.
const NAME_BYTES_MAX: usize = 24;

/// The ending of a socket that has a listener.
pub(super) const ENDING: &str = "sock";

/// Returns the folder for the sockets of the hosts of a data folder. It may not exist yet.
///
/// # Errors
/// Fails if the data folder does not exist, or no folder for sockets has a path that is short
/// enough.
pub(super) fn folder(data: &Path) -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    folder_among(data, runtime, std::env::temp_dir())
}

fn folder_among(data: &Path, runtime: Option<PathBuf>, temporary: PathBuf) -> io::Result<PathBuf> {
    // Every path of a data folder leads to the same sockets.
    let data = data.canonicalize()?;
    let digest = blake3::hash(data.as_os_str().as_encoded_bytes()).to_hex();
    let digest = &digest.as_str()[..16];
    let runtime = runtime.filter(|folder| folder.is_absolute()).map(|folder| folder.join("wfhost").join(digest));
    let places =
        [Some(data.join(layout::SOCKETS)), runtime, Some(temporary.join(format!("wfhost-{}", user()?)).join(digest))];
    let fits = |place: &PathBuf| place.as_os_str().len() + 1 + NAME_BYTES_MAX <= PATH_BYTES_MAX;
    places
        .into_iter()
        .flatten()
        .find(fits)
        .ok_or_else(|| io::Error::other("no folder has a path short enough for a socket"))
}

/// Makes the folder, if it does not exist, with its parents, for this user alone.
///
/// # Errors
/// Fails if it cannot be made, or does not belong to this user alone.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check(folder)
}

/// Refuses a folder that does not belong to this user alone, or whose parent lets another user
/// replace it.
pub(super) fn check(folder: &Path) -> io::Result<()> {
    let user = user()?;
    let refuse = |path: &Path, why: &str| Err(io::Error::other(format!("{}: {why}", path.display())));
    // Not through a link: other users might be able to change it.
    let metadata = fs::symlink_metadata(folder)?;
    if !metadata.is_dir() {
        return refuse(folder, "it is no folder");
    }
    if metadata.uid() != user {
        return refuse(folder, "it belongs to another user");
    }
    if metadata.mode() & 0o077 != 0 {
        return refuse(folder, "others have rights to it");
    }
    let Some(parent) = folder.parent() else { return Ok(()) };
    let metadata = fs::symlink_metadata(parent)?;
    if metadata.uid() != user && metadata.uid() != 0 {
        return refuse(parent, "it belongs to another user, who could replace the folder in it");
    }
    if metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0 {
        return refuse(parent, "others can write to it, and could replace the folder in it");
    }
    Ok(())
}

/// Returns the sockets of a folder, in the order of their names; empty if the folder does not
/// exist.
///
/// # Errors
/// Fails if the folder cannot be read, or does not belong to this user alone.
pub(super) fn sockets(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match check(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        checked => checked?,
    }
    let mut sockets = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            sockets.push(path);
        }
    }
    sockets.sort();
    Ok(sockets)
}

/// Returns the user that owns this process's files: the owner of its entry in `/proc`, or, if there
/// is none, of a file that it makes.
pub(in crate::host) fn user() -> io::Result<u32> {
    if let Ok(metadata) = fs::metadata("/proc/self") {
        return Ok(metadata.uid());
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let path = std::env::temp_dir().join(format!("wfhost-{:016x}", u64::from_le_bytes(random)));
    let made = fs::OpenOptions::new().write(true).create_new(true).open(&path)?.metadata();
    fs::remove_file(&path)?;
    made.map(|metadata| metadata.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_path_that_is_too_long_leads_elsewhere() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let near = base.join("near");
        let far = base.join("far".repeat(40));
        fs::create_dir_all(&near).unwrap();
        fs::create_dir_all(&far).unwrap();
        let place = |data: &Path, runtime: Option<&str>, temporary: &str| {
            folder_among(data, runtime.map(PathBuf::from), temporary.into())
        };
        assert_eq!(place(&near, Some("/run"), "/tmp").unwrap(), near.join("sockets"));
        let elsewhere = place(&far, Some("/run/user/0"), "/tmp").unwrap();
        assert!(elsewhere.starts_with("/run/user/0/wfhost"), "{elsewhere:?}");
        // A folder that is not absolute is none, and what is too long again is passed over.
        let last = place(&far, Some("run"), "/tmp").unwrap();
        assert!(last.starts_with(format!("/tmp/wfhost-{}", user().unwrap())), "{last:?}");
        assert_eq!(place(&far, Some(&format!("/{}", "x".repeat(90))), "/tmp").unwrap(), last);
        assert!(place(&far, None, &format!("/{}", "x".repeat(90))).is_err());
        // Two folders have two places, and each way to a folder leads to the same.
        let other = base.join("far".repeat(41));
        fs::create_dir_all(&other).unwrap();
        assert_ne!(place(&other, None, "/tmp").unwrap(), last);
        std::os::unix::fs::symlink(&far, base.join("link")).unwrap();
        assert_eq!(place(&base.join("link"), None, "/tmp").unwrap(), last);
    }

    #[test]
    fn a_folder_that_others_can_enter_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("sockets");
        assert!(sockets(&folder).unwrap().is_empty(), "there is none");
        make(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::write(folder.join("a.sock"), "").unwrap();
        fs::write(folder.join("b.new"), "").unwrap();
        assert_eq!(sockets(&folder).unwrap(), [folder.join("a.sock")]);
        for mode in [0o750, 0o701, 0o777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            assert!(make(&folder).unwrap_err().to_string().contains("others have rights"), "{mode:o}");
            assert!(sockets(&folder).is_err());
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(check(&link).unwrap_err().to_string().contains("no folder"));
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(check(&folder).unwrap_err().to_string().contains("others can write"));
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        check(&folder).unwrap();
    }
}
