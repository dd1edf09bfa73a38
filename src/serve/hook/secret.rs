//! Secrets of webhooks: named in their specification, and read when a delivery is verified, so that
//! a file that was replaced counts at once. They are never stored or shown.
//!
//! A webhook of the configuration file may name whatever the server can read: its author is the
//! operator. One that came by the API may name what the operator has set aside for that, and its
//! author does not learn why a secret cannot be used.

use crate::dispatch::{secret_file as file, secret_variable as variable};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use utoipa::ToSchema;
use zeroize::Zeroizing;

/// The longest secret, in bytes. Arbitrary: far above what senders make.
const SECRET_BYTES_MAX: usize = 4096;

/// The shortest secret, in bytes: 64 bits of hexadecimal digits. Shorter ones can be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// What the names of variables begin with that a webhook of the API may name.
pub(crate) const VARIABLE_PREFIX: &str = "WFHOST_SECRET_";

/// What a webhook may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach<'a> {
    /// The folder in which relative paths begin.
    pub(crate) folder: Option<&'a Path>,
    /// Whether it may name anything, and not only files below the folder, and variables with
    /// [`VARIABLE_PREFIX`].
    pub(crate) is_trusted: bool,
}

/// Where a secret is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SecretSource {
    /// A variable of the server's environment.
    Env {
        /// The name of the variable. In a webhook of the API it begins with `WFHOST_SECRET_`.
        name: String,
    },
    /// A file that the server can read. White space at its end does not count.
    File {
        /// The path of the file, absolute or below the folder that the server's `--secrets` names.
        /// In a webhook of the API it leads into that folder.
        path: String,
    },
}

/// Why a secret cannot be used. The text is for the operator, not for a sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub(crate) struct SecretError {
    place: String,
    why: String,
}

/// A secret in memory, which is overwritten when it is dropped. It has no `Debug`, so that no
/// message can contain it.
#[derive(Clone)]
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    #[cfg(test)]
    pub(super) fn of(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }
}

impl SecretSource {
    /// Reads the secret.
    ///
    /// # Errors
    /// Says what is wrong, and never what the secret is.
    pub(crate) fn read(&self, reach: Reach<'_>) -> Result<Secret, SecretError> {
        let (place, bytes) = match self {
            Self::Env { name } if !reach.is_trusted && !name.starts_with(VARIABLE_PREFIX) => {
                (format!("the variable {name:?}"), Err(format!("its name does not begin with {VARIABLE_PREFIX}")))
            }
            Self::Env { name } => (format!("the variable {name:?}"), variable(name, SECRET_BYTES_MAX)),
            Self::File { path } => {
                (format!("the file {path:?}"), reach.file(path).and_then(|path| file(&path, SECRET_BYTES_MAX)))
            }
        };
        let checked = bytes.and_then(|bytes| match bytes.trim_ascii_end() {
            bytes if bytes.len() < SECRET_BYTES_MIN => {
                Err(format!("a secret has at least {SECRET_BYTES_MIN} bytes, and this one has {}", bytes.len()))
            }
            bytes => Ok(Secret(Zeroizing::new(bytes.to_vec()))),
        });
        checked.map_err(|why| SecretError { place, why })
    }
}

impl Reach<'_> {
    /// The file that a path names, after its links are followed.
    fn file(self, path: &str) -> Result<PathBuf, String> {
        let path = match self.folder {
            Some(folder) => folder.join(path),
            None => PathBuf::from(path),
        };
        if !path.is_absolute() {
            return Err("the path of a secret is absolute, or begins in the folder of --secrets".to_owned());
        }
        let text = |error: std::io::Error| error.to_string();
        let file = path.canonicalize().map_err(text)?;
        if self.is_trusted {
            return Ok(file);
        }
        let folder = self.folder.ok_or("the server has no folder for secrets (--secrets)")?.canonicalize();
        if file.starts_with(folder.map_err(text)?) {
            Ok(file)
        } else {
            Err("it is not in the folder of --secrets".to_owned())
        }
    }
}
