//! The names of the handlers that every host has. Each is also the name of the capability that its
//! calls need; `log` needs none.

/// Looks up an outcome in the cache of steps: for native processes alone. An embedder's handler of
/// this name is never reached.
pub const CACHE: &str = "wfhost.cache";
/// Reads a blob of the run. It needs no capability.
pub const BLOB_GET: &str = "blob.get";
/// Stores a blob of the run. It needs no capability.
pub const BLOB_PUT: &str = "blob.put";
/// Sends requests.
pub const HTTP: &str = "http";
/// Reads and writes the keys and values of the run.
pub const KV: &str = "kv";
/// Writes log lines.
pub const LOG: &str = "log";
/// Waits for a signal.
pub const SIGNAL: &str = "signal";
