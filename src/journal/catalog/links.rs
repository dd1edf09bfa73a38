//! Approval links: whoever has one sends one signal to one run, once.

use crate::journal::StoreError;
use crate::process::Timestamp;
use std::sync::Arc;

/// An approval link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The SHA-256 of the secret in the link.
    pub hash: [u8; 32],
    /// The run that gets the signal.
    pub run: Arc<str>,
    /// The name of the signal.
    pub signal: Arc<str>,
    /// What a person is shown, and may answer: JSON.
    pub detail: Option<Arc<str>>,
    /// When it was made.
    pub created: Timestamp,
    /// Who made it.
    pub author: Arc<str>,
    /// When it ends.
    pub expires: Timestamp,
    /// When it was used.
    pub used: Option<Timestamp>,
}

/// The approval links of a service.
#[allow(clippy::missing_errors_doc, reason = "each fails if the store cannot be read or written")]
pub trait Links {
    /// Stores a new link, and removes those that ended before `expired_before`.
    fn add_link(&self, link: &Link, expired_before: Timestamp) -> Result<(), StoreError>;

    /// Returns the link with this hash; `None` if there is none.
    fn link(&self, hash: &[u8; 32]) -> Result<Option<Link>, StoreError>;

    /// Marks a link as used. Returns false if it was used before, or does not exist.
    fn use_link(&self, hash: &[u8; 32], at: Timestamp) -> Result<bool, StoreError>;
}
