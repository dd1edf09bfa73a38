//! The servers that the user has logged in to, with their tokens: `wfhost/servers.json` in the
//! user's configuration folder, which only the user can read.

use super::config;
use crate::base::guarded_file;
use crate::cli::report::error::{UserError, kind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of the file. Arbitrary: thousands of servers.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The servers, and the one that was logged in to last.
#[derive(Default, Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Logins {
    /// The URL of the server that commands ask which need one and are told none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) last: Option<String>,
    /// The tokens, by URL.
    #[serde(default)]
    pub(in crate::cli) servers: BTreeMap<String, Login>,
}

/// What is known of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Login {
    /// The token that is sent there.
    pub(in crate::cli) token: String,
    /// The certificates by which it is trusted, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) ca: Option<String>,
}

impl Logins {
    /// The path of the file. `None` without a home directory.
    pub(in crate::cli) fn path() -> Option<PathBuf> {
        Some(config::default_path()?.with_file_name("servers.json"))
    }

    /// Reads the file; a file that is not there has no servers.
    pub(in crate::cli) fn read() -> Result<Self, UserError> {
        Self::path().map_or_else(|| Ok(Self::default()), |path| Self::read_from(&path))
    }

    fn read_from(path: &Path) -> Result<Self, UserError> {
        let unusable = |why: String| {
            UserError::new(kind::USAGE, format!("the stored logins cannot be used: {}: {why}", path.display()))
        };
        let bytes = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unusable(error.to_string())),
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => return Err(unusable("it is too large".to_owned())),
            Ok(metadata) if metadata.mode() & 0o077 != 0 => {
                return Err(unusable("others can read its tokens".to_owned())
                    .hint(format!("chmod 600 {}, and revoke the tokens in it", path.display())));
            }
            Ok(_) => std::fs::read(path).map_err(|error| unusable(error.to_string()))?,
        };
        guarded_file(path, rustix::process::geteuid().as_raw()).map_err(|why| unusable(why.to_string()))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| unusable(error.to_string()).hint("remove the file, and log in again"))
    }

    /// Writes the file, whole or not at all.
    pub(in crate::cli) fn write(&self) -> Result<PathBuf, UserError> {
        let path = Self::path().ok_or_else(|| {
            UserError::new(kind::USAGE, "there is no folder for the login: there is no home directory")
                .hint("WFHOST_SERVER and WFHOST_TOKEN do without")
        })?;
        self.write_to(&path).map_err(|error| {
            UserError::new(kind::UNREADABLE, format!("the login cannot be stored: {}: {error}", path.display()))
        })?;
        Ok(path)
    }

    fn write_to(&self, path: &Path) -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let bytes = serde_json::to_vec_pretty(self)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(std::io::Error::other("there are too many logins: `wfhost logout URL` removes one"));
        }
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let written = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let written = written.and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_all()
        });
        let placed = written.and_then(|()| std::fs::rename(&new, path));
        if placed.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_file_is_its_owners_alone_and_no_other_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/servers.json");
        assert!(Logins::read_from(&path).unwrap_or_else(|error| panic!("{}", error.title)).servers.is_empty());
        let mut logins = Logins { last: Some("http://localhost:7007".to_owned()), ..Logins::default() };
        logins.servers.insert("http://localhost:7007".to_owned(), Login { token: "wfh_x".to_owned(), ca: None });
        logins.write_to(&path).unwrap();
        logins.write_to(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let read = Logins::read_from(&path).unwrap_or_else(|error| panic!("{}", error.title));
        assert_eq!(read.servers["http://localhost:7007"].token, "wfh_x");
        assert_eq!(read.last, logins.last);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Logins::read_from(&path).err().unwrap();
        assert!(refused.title.contains("others can read"), "{}", refused.title);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
