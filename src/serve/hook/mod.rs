//! Webhooks in: deliveries of others start runs or are signals. And approval links: whoever has one
//! sends one signal.
//!
//! A delivery passes, in this order: its webhook ([`hooks`]), the proof that it is genuine
//! ([`verify`]), the expressions of the webhook ([`mapping`]), and the start or the signal
//! ([`receive`]). What came, and what it did, is listed ([`delivery_log`]).
//!
//! - **I1** Nothing of a delivery is parsed before its raw bytes are verified.
//! - **I2** The same delivery is one run or one signal, however often and however late it comes:
//!   the id of the run or of the act is derived from the delivery's. That holds as long as the run
//!   is in the journal, or remembers the act.
//! - **I3** An answer that says that a delivery counts is sent when that is durable.
//! - **I4** Secrets are in no row, record, message or log: a description names where they are.
//! - **I5** A `GET` of an approval link changes nothing, and a link is used once.

mod delivery_log;
pub(in crate::serve) mod hooks;
pub(in crate::serve) mod link;
mod mapping;
pub(in crate::serve) mod page;
pub(in crate::serve) mod receive;
mod secret;
pub mod spec;
mod verify;

pub(in crate::serve) use delivery_log::DeliveryLog;

#[cfg(test)]
mod tests;
