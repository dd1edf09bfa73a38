//! Webhooks, and the deliveries that came by them.

use crate::journal::StoreError;
use crate::process::Timestamp;
use std::sync::Arc;

/// A webhook as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Webhook {
    /// Its name, unique in the store.
    pub name: Arc<str>,
    /// Where it was described: `api` or `config`.
    pub origin: Arc<str>,
    /// Its description: JSON, without secrets.
    pub spec: Arc<str>,
    /// Who wrote it.
    pub author: Arc<str>,
}

/// A webhook as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredWebhook {
    /// What was written last.
    pub webhook: Webhook,
    /// Grows with each change.
    pub revision: u64,
    /// When it was first written.
    pub created: Timestamp,
    /// When it was last written.
    pub changed: Timestamp,
}

/// What a caller believes to be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Anything, or nothing.
    Any,
    /// Nothing.
    Absent,
    /// This revision.
    Revision(u64),
}

/// The outcome of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum WebhookWrite {
    /// It is written, or was stored already with the same description.
    Stored {
        /// What is stored now.
        webhook: StoredWebhook,
        /// Whether there was none of this name.
        is_new: bool,
    },
    /// Something else than expected is stored: its revision, `None` if nothing is.
    Mismatch(Option<u64>),
}

/// A request that came by a webhook. Its body is not stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The webhook.
    pub webhook: Arc<str>,
    /// What the sender calls it.
    pub id: Option<String>,
    /// When it came.
    pub at: Timestamp,
    /// `started`, `signalled`, `duplicate`, `filtered`, `refused` or `failed`.
    pub outcome: Arc<str>,
    /// The run that it started or signalled.
    pub run: Option<Arc<str>>,
    /// Why it was refused.
    pub reason: Option<String>,
}

/// The webhooks of a service.
#[allow(clippy::missing_errors_doc, reason = "each fails if the store cannot be read or written")]
pub trait Webhooks {
    /// Returns all webhooks, in the order of their names.
    fn webhooks(&self) -> Result<Vec<StoredWebhook>, StoreError>;

    /// Returns a webhook; `None` if there is none of this name.
    fn webhook(&self, name: &str) -> Result<Option<StoredWebhook>, StoreError>;

    /// Writes a webhook if what is stored is what the caller expects.
    fn put_webhook(&self, webhook: &Webhook, expected: Expected, now: Timestamp) -> Result<WebhookWrite, StoreError>;

    /// Removes a webhook with its deliveries if what is stored is what the caller expects. Returns
    /// whether it is gone; if not, the outcome is as that of a write.
    fn remove_webhook(&self, name: &str, expected: Expected) -> Result<Result<bool, Option<u64>>, StoreError>;

    /// Stores deliveries, and removes the oldest beyond `retained` of each webhook concerned. Those
    /// of a webhook that does not exist are not stored.
    fn add_deliveries(&self, deliveries: &[Delivery], retained: u32) -> Result<(), StoreError>;

    /// Returns deliveries of a webhook, the newest first, each with its number; only those with a
    /// lower number than `before`.
    fn deliveries(&self, webhook: &str, before: Option<u64>, limit: u32) -> Result<Vec<(u64, Delivery)>, StoreError>;
}
