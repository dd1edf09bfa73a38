//! The names of the handlers that every host has. Each is also the name of the capability that its
//! calls need; `log` needs none.

/// Sends requests.
pub const HTTP: &str = "http";
/// Reads and writes the keys and values of the run.
pub const KV: &str = "kv";
/// Writes log lines.
pub const LOG: &str = "log";
/// Waits for a signal.
pub const SIGNAL: &str = "signal";
