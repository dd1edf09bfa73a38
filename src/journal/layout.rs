//! The names of what is in a data folder.

/// The file of the journal.
pub(crate) const JOURNAL: &str = "journal.db";

/// SQLite's log of pages, beside the journal's file.
pub(crate) const JOURNAL_WAL: &str = "journal.db-wal";

/// What the names of retained damaged logs begin with.
pub(crate) const JOURNAL_WAL_DAMAGED: &str = "journal.db-wal.damaged-";

/// The index of SQLite's log, shared between processes.
pub(crate) const JOURNAL_SHM: &str = "journal.db-shm";

/// The file of snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots.db";

/// The file of the cache of steps.
pub(crate) const CACHE: &str = "cache.db";

/// The folder of components that runs name, by their digests.
pub(crate) const COMPONENTS: &str = "components";

/// The folder of blobs, by their digests.
pub(crate) const BLOBS: &str = "blobs";

/// The folder of the hosts' lock files.
pub(crate) const HOSTS: &str = "hosts";

/// The folder of the hosts' control sockets.
#[cfg(feature = "wasm")]
pub(crate) const SOCKETS: &str = "sockets";

/// What a copy of a data folder has: the last file that is written of it.
#[cfg(feature = "wasm")]
pub(crate) const BACKUP: &str = "backup.json";

/// What a data folder was restored from: the file [`BACKUP`] of the copy.
#[cfg(feature = "wasm")]
pub(crate) const RESTORED: &str = "restored.json";
