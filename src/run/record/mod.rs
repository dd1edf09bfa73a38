//! The records of a run, as plain data and as bytes.
//!
//! - **I1** A record says everything that its commit decided: [`super::state`] needs nothing else.
//! - **I2** The numbers of cases are never reused. Bytes of an earlier release decode to the same
//!   record, and encode to the same bytes.

pub(super) mod arrived;
pub(super) mod codec;
pub(super) mod former_keys;
pub(super) mod kinds;
pub(super) mod started;
pub(super) mod upgraded;
pub(super) mod wire;
