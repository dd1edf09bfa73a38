//! Counts requests.

use super::readings::Samples;
use crate::base::Histogram;
use crate::serve::service::Service;
use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What stands for a route or a method that there is not.
const OTHER: &str = "other";

/// The counts of one route.
#[derive(Default)]
struct Route {
    /// By method and status.
    answers: Mutex<BTreeMap<(&'static str, u16), u64>>,
    durations: Histogram,
}

/// Counts of requests and connections.
#[derive(Default)]
pub(in crate::serve) struct Requests {
    routes: RwLock<HashMap<String, Arc<Route>>>,
    connections: AtomicU64,
}

/// A connection that is open.
pub(in crate::serve) struct Connection<'r>(&'r Requests);

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

impl Requests {
    /// Counts a connection until what this returns is dropped.
    pub(in crate::serve) fn connection(&self) -> Connection<'_> {
        self.connections.fetch_add(1, Relaxed);
        Connection(self)
    }

    /// The counts of a route. Routes are patterns of the router, so there are no more than those.
    fn route(&self, pattern: &str) -> Arc<Route> {
        if let Some(route) = self.routes.read().get(pattern) {
            return Arc::clone(route);
        }
        Arc::clone(self.routes.write().entry(pattern.to_owned()).or_default())
    }

    fn note(&self, pattern: &str, method: &'static str, status: u16, begun: Instant) {
        let route = self.route(pattern);
        *route.answers.lock().entry((method, status)).or_default() += 1;
        route.durations.add_since(begun);
    }

    pub(super) fn read(&self, samples: &mut Samples) {
        let routes: BTreeMap<String, Arc<Route>> =
            self.routes.read().iter().map(|(pattern, route)| (pattern.clone(), Arc::clone(route))).collect();
        for (pattern, route) in routes {
            for ((method, code), count) in route.answers.lock().iter() {
                let labels =
                    vec![("route", pattern.clone()), ("method", (*method).to_owned()), ("code", code.to_string())];
                samples.count("wfhost_http_requests_total", labels, *count);
            }
            let labels = vec![("route", pattern)];
            samples.durations("wfhost_http_request_duration_seconds", labels, route.durations.counts());
        }
        samples.level("wfhost_http_connections", Vec::new(), self.connections.load(Relaxed));
    }
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => OTHER,
    }
}

/// Counts a request when its answer begins.
pub(in crate::serve) async fn count(service: Arc<Service>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = method(request.method());
    let pattern = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let pattern = pattern.as_ref().map_or(OTHER, MatchedPath::as_str);
    service.requests.note(pattern, method, response.status().as_u16(), begun);
    response
}
