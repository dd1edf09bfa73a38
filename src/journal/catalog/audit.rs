//! Who did what: the acts of people and programs on a service.

use crate::journal::StoreError;
use crate::process::Timestamp;

/// An act that somebody did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// Its place in the list: grows.
    pub row: u64,
    /// When.
    pub at: Timestamp,
    /// The id of the token.
    pub token: String,
    /// The name of the token.
    pub name: String,
    /// What was done, such as `runs.cancel`.
    pub act: String,
    /// To what, such as the id of a run.
    pub target: String,
    /// More about it: JSON. Never a payload, never a secret.
    pub detail: Option<String>,
}

/// The list of acts.
#[allow(clippy::missing_errors_doc, reason = "the errors of all are those of the store")]
pub trait Audit {
    /// Adds an act; its row is chosen.
    fn note_act(&self, entry: &AuditEntry) -> Result<(), StoreError>;

    /// Returns at most `limit` acts before a row, the newest first; of one target, if it is given.
    fn acts(&self, target: Option<&str>, before: Option<u64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError>;
}
