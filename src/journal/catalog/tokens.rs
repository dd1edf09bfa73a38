//! Tokens, and the sessions that were signed in with them.

use crate::journal::StoreError;
use crate::process::Timestamp;

/// A token, without its secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredToken {
    /// Names it, also within the token itself.
    pub id: String,
    /// SHA-256 of the secret.
    pub hash: Vec<u8>,
    /// Whose it is.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// The workflows that it is for: names or patterns with `*`. Empty: all.
    pub workflows: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
    /// From when on it is no longer valid.
    pub expires: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub used: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

/// A session of a browser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSession {
    /// SHA-256 of the cookie.
    pub hash: Vec<u8>,
    /// The id of the token that it was opened with.
    pub token: String,
    /// When it ends.
    pub expires: Timestamp,
}

/// Tokens.
#[allow(clippy::missing_errors_doc, reason = "the errors of all are those of the store")]
pub trait Tokens {
    /// Adds a token.
    fn add_token(&self, token: &StoredToken) -> Result<(), StoreError>;

    /// Returns all tokens, the newest first, the revoked ones too.
    fn tokens(&self) -> Result<Vec<StoredToken>, StoreError>;

    /// Returns a token by its id.
    fn token(&self, id: &str) -> Result<Option<StoredToken>, StoreError>;

    /// Revokes a token, and ends its sessions. Returns false if there is no such token.
    fn revoke_token(&self, id: &str, at: Timestamp) -> Result<bool, StoreError>;

    /// Notes that a token was used.
    fn note_token_used(&self, id: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Opens a session, and removes those that ended before `now`.
    fn add_session(&self, session: &StoredSession, now: Timestamp) -> Result<(), StoreError>;

    /// Returns a session by the hash of its cookie.
    fn session(&self, hash: &[u8]) -> Result<Option<StoredSession>, StoreError>;

    /// Ends a session.
    fn end_session(&self, hash: &[u8]) -> Result<(), StoreError>;

    /// Returns a number that changes when tokens or sessions do, whichever process changes them: a
    /// cache of them is good as long as it stays the same.
    fn tokens_revision(&self) -> Result<u64, StoreError>;
}
