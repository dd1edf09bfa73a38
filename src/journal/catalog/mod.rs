//! What a service keeps in a journal beside the runs: deployed workflows, tokens, and who did what.
//!
//! One trait for each area, so that an engine implements them one by one. What they write is
//! durable when the call returns, and is never part of the transactions of records.

mod audit;
mod deployments;
mod inbox;
mod jobs;
mod links;
mod schedules;
mod tokens;
mod webhooks;

pub use audit::{Audit, AuditEntry};
pub use deployments::{Activated, ActiveVersion, Deployments, NewVersion, Version};
pub use inbox::{Inbox, InboxFilter, InboxPlace, WaitingRun};
pub use jobs::{Job, JobStatus, Jobs};
pub use links::{Link, Links};
pub use schedules::{Firing, Schedule, ScheduleWrite, Schedules, StoredSchedule};
pub use tokens::{StoredSession, StoredToken, Tokens};
pub use webhooks::{Delivery, Expected, StoredWebhook, Webhook, WebhookWrite, Webhooks};

use super::Journal;

/// A journal with everything that a service keeps.
pub trait Catalog: Journal + Deployments + Tokens + Audit + Webhooks + Links + Inbox + Schedules + Jobs {}

impl<T: Journal + Deployments + Tokens + Audit + Webhooks + Links + Inbox + Schedules + Jobs> Catalog for T {}
