//! Components in OCI registries: `oci://host/repository:tag@sha256:…`.
//!
//! A component is stored as the CNCF's "Wasm OCI artifact" layout says: an image manifest with one
//! layer of the media type `application/wasm`. The protocol is that of the OCI Distribution
//! Specification 1.1: [`pull`] gets a manifest and its layer, [`push`] puts a layer, a
//! configuration and a manifest.
//!
//! # Invariants
//! - **O1** What a reference with a digest names is never anything else: the manifest's SHA-256 is
//!   the reference's digest, the layer's SHA-256 is the manifest's, wherever the bytes come from.
//! - **O2** Everything that a registry answers is bounded: manifests at 1 MiB, tokens at 64 KiB,
//!   layers at the largest component that may be compiled, redirects at 5, a request at 5 minutes.
//! - **O3** A connection goes only to an address that the host permits ([`HttpConfig`]), and is
//!   encrypted unless it goes to the registry on a loopback address.
//! - **O4** Credentials go to the registry that they are for, and to the token server that this
//!   registry names. A redirect to another origin carries none.
//!
//! [`HttpConfig`]: crate::dispatch::http::HttpConfig

mod blobs;
mod client;
mod credentials;
mod exchange;
mod manifest;
mod reference;
#[cfg(test)]
mod tests;

pub use client::Registries;
pub(crate) use reference::SCHEME;
pub use reference::{Reference, ReferenceError};

/// Why a component cannot be pulled or pushed: a sentence, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct RegistryError {
    /// What went wrong.
    pub message: String,
    /// What to do, if that is known.
    pub hint: Option<String>,
}

impl RegistryError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A component that was pulled.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// Its bytes.
    pub bytes: bytes::Bytes,
    /// The manifest's digest, `sha256:…`: with it the reference names this component for ever.
    pub digest: String,
}

/// The SHA-256 of bytes, as references and manifests write it.
fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let mut text = String::with_capacity(7 + 64);
    text.push_str("sha256:");
    for byte in digest.as_ref() {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Returns whether a text is `sha256:` and 64 hexadecimal digits in lower case.
fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
