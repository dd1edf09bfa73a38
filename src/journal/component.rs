//! Components by their content: a run is recovered with the components that it was started with,
//! whatever happened to their files since.

use std::io;
use std::path::PathBuf;

/// Bytes of a component that a journal stores at most: no program may be as large.
pub const COMPONENT_BYTES_MAX: usize = 256 << 20;

/// Why a stored component cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentStoreError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Where the component is stored: its file, or its digest.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// Its content is not what was stored.
    #[error("{} is damaged: its content is not the one that it is named after", path.display())]
    Damaged {
        /// The same.
        path: PathBuf,
    },
}

/// The error for bytes with another digest.
pub(super) fn other_content() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the component has another digest")
}

/// Returns whether bytes are those of the component with this BLAKE3 in hexadecimal.
pub(crate) fn is_of(bytes: &[u8], hash: &str) -> bool {
    *blake3::hash(bytes).to_hex() == *hash
}

/// Returns whether a text is a BLAKE3 in hexadecimal.
#[cfg(feature = "sqlite")]
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
