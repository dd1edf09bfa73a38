//! What the operator decides of `http`.

use super::address::Permission;
use crate::dispatch::Rate;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// What the operator decides of `http`, for every run of the host. All bounds of the default are arbitrary.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpConfig {
    /// Places that requests may go to although their address is not public.
    pub permissions: Vec<Permission>,
    /// Addresses of names, looked at before DNS. They are checked like any other.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// Certificates (DER) that are trusted beside those that the Mozilla programme trusts.
    pub roots: Vec<Vec<u8>>,
    /// How long a TCP connection may take to come about: 10 seconds.
    pub connect_timeout: Duration,
    /// How long a request may take with its redirects and its answer's body, where the call says nothing: 30 seconds.
    pub timeout: Duration,
    /// What a call may ask for at most: 10 minutes.
    pub timeout_max: Duration,
    /// Bytes of a response's body after decompression: 8 MiB. The limit of the process holds too.
    pub response_bytes_max: u64,
    /// Requests at one time, 256, and those that may wait for their turn, 10,000.
    pub concurrent_max: usize,
    /// See [`concurrent_max`](Self::concurrent_max).
    pub waiting_max: usize,
    /// How often requests may begin; none: as often as they come.
    pub rate: Option<Rate>,
    /// Connections that are kept for the next request to the same host: 32, for 90 seconds.
    pub idle_connections_per_host_max: usize,
    /// What the header `user-agent` says where the call says nothing.
    pub user_agent: String,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            permissions: Vec::new(),
            hosts: BTreeMap::new(),
            roots: Vec::new(),
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
