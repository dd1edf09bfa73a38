//! What an embedder does around each request of `http`.

use crate::dispatch::CallContext;
use crate::process::Problem;
use http::{HeaderMap, Method, StatusCode};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A request that is sent: that of a call, or of a redirect.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The call: its run, its process, its idempotency key.
    pub call: &'a CallContext,
    /// The method.
    pub method: &'a Method,
    /// The normalised URL that is sent, which the workflow's grant covers.
    pub url: &'a str,
}

/// What an embedder does around each request of `http`, redirects included. It is called on a
/// thread of the handlers' runtime, and must not block.
pub trait HttpHook: Send + Sync + 'static {
    /// Called when a request is granted, before it is sent. Fields that it adds, such as
    /// credentials, are in no record and in no other request: that of a redirect asks again.
    ///
    /// # Errors
    /// The request is not sent, and the call fails with this problem.
    fn before(&self, hop: Hop<'_>, headers: &mut HeaderMap) -> Result<(), Problem> {
        let _ = (hop, headers);
        Ok(())
    }

    /// Called when the head of the response is there, or none will come: then there is no status.
    fn after(&self, hop: Hop<'_>, status: Option<StatusCode>, took: Duration) {
        let _ = (hop, status, took);
    }
}

/// The hook of a handler, for the requests of one call.
#[derive(Clone, Copy)]
pub(super) struct CallHook<'a> {
    pub(super) hook: Option<&'a Arc<dyn HttpHook>>,
    pub(super) call: &'a CallContext,
}

impl CallHook<'_> {
    pub(super) fn before(&self, method: &Method, url: &str, headers: &mut HeaderMap) -> Result<(), Problem> {
        self.hook.map_or(Ok(()), |hook| hook.before(Hop { call: self.call, method, url }, headers))
    }

    pub(super) fn after(&self, method: &Method, url: &str, status: Option<StatusCode>, took: Duration) {
        if let Some(hook) = self.hook {
            hook.after(Hop { call: self.call, method, url }, status, took);
        }
    }
}

impl fmt::Debug for dyn HttpHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpHook")
    }
}
