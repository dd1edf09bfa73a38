//! What other rooms implement or supply: the log, the handlers, the snapshot store, the wall clock.
//!
//! Nothing here knows a run. The journal implements [`Log`](log::Log),
//! [`BlobStore`](blob_store::BlobStore) and [`SnapshotStore`](snapshot_store::SnapshotStore),
//! dispatch implements [`Effects`](effects::Effects).

pub(super) mod awaited;
pub(super) mod backlog;
pub(super) mod blob_store;
pub(super) mod clock;
pub(super) mod effects;
pub(super) mod log;
pub(super) mod place;
pub(super) mod snapshot_store;
