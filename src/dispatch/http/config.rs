//! The operator's settings of `http`.

use super::address::Permission;
use crate::dispatch::Rate;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The operator's settings of `http`, for every run of the host. All default bounds are arbitrary.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpConfig {
    /// Targets that requests may reach although their address is not public.
    pub permissions: Vec<Permission>,
    /// Addresses of names, consulted before DNS. They are checked like any other.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// Certificates (DER) that are trusted besides those of the Mozilla programme.
    pub roots: Vec<Vec<u8>>,
    /// Whether secrets may be sent without TLS to the loopback addresses of this machine, given as
    /// addresses: for tests. The address must be permitted, too.
    pub plain_secrets_to_loopback: bool,
    /// How long connecting by TCP may take: 10 seconds.
    pub connect_timeout: Duration,
    /// How long a request may take, redirects and body included, unless the call says: 30 seconds.
    pub timeout: Duration,
    /// The longest timeout that a call may ask for: 10 minutes.
    pub timeout_max: Duration,
    /// Bytes of a response's body after decompression: 8 MiB. The process's limit applies too.
    pub response_bytes_max: u64,
    /// Requests that may run at one time: 256.
    pub concurrent_max: usize,
    /// Requests that may be queued: 10,000.
    pub waiting_max: usize,
    /// How often requests may begin; `None` if without limit.
    pub rate: Option<Rate>,
    /// Idle connections kept for each host: 32, for 90 seconds.
    pub idle_connections_per_host_max: usize,
    /// The header `user-agent`, unless the call sets its own.
    pub user_agent: String,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            permissions: Vec::new(),
            hosts: BTreeMap::new(),
            roots: Vec::new(),
            plain_secrets_to_loopback: false,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            timeout_max: Duration::from_mins(10),
            response_bytes_max: 8 << 20,
            concurrent_max: 256,
            waiting_max: 10_000,
            rate: None,
            idle_connections_per_host_max: 32,
            user_agent: concat!("wfhost/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
