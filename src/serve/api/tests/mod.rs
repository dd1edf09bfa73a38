//! The API over its real router, on a real host with a folder.

mod batches;
mod blobs;
mod checks;
mod following;
mod groups;
mod hostile;
mod parts;
mod ranges;
mod refusals;
mod reruns;
mod rights;
mod starts;
mod upgrades;

use crate::host::Host;
use crate::process::{
    Action, Context, Event as ProcessEvent, Level, LogLine, Micros, Payload, Problem, Process, Status,
};
use crate::run::ParkingPolicy;
use crate::serve::access::{Scope, token};
use crate::serve::{Service, ServiceOptions, router};
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service as _;

/// A workflow whose second step needs an input, and one that waits for a signal.
const WORKFLOWS: [&str; 2] = [
    "name: flaky\ninputs: { ok: { type: boolean, default: false }, secret: { type: string, default: hidden } }\nsteps:\n\
     \x20 - { id: first, set: \"${ .inputs.secret }\" }\n\
     \x20 - { id: second, set: \"${ if .inputs.ok then .steps.first.output else error(\\\"no\\\") end }\" }\n\
     outputs: { got: \"${ .steps.second.output }\" }",
    "name: review\nsteps:\n  - { id: a, wait: { signal: approve, title: Publish? } }\n\
     outputs: { got: \"${ .steps.a.output }\" }",
];

/// A guest that answers twice what it was given, after a moment; it fails at 13, and takes as many
/// moments as it was given beyond 100.
#[derive(Default)]
struct Twice {
    given: Option<i64>,
    slept: i64,
}

impl Process for Twice {
    fn init(&mut self, _: &mut Context<'_>, _: &str, input: Payload) -> Result<(), Problem> {
        let Payload::Json(json) = input else { return Err(Problem::new("no-json", "It takes JSON")) };
        self.given = json.to_value()["n"].as_i64();
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, _: &mut Vec<ProcessEvent>) -> Status {
        let moments = self.given.filter(|given| *given > 100).unwrap_or(1);
        if self.slept < moments {
            self.slept += 1;
            let level = if self.slept % 10 == 0 { Level::Warn } else { Level::Info };
            let text = format!("moment {} of {moments}", self.slept);
            context.log(LogLine { level, text, fields: None });
            context.command(Action::Sleep(Micros(1)));
            return Status::Blocked;
        }
        match self.given {
            Some(13) | None => Status::Failed(Arc::new(Problem::new("unlucky", "It is 13"))),
            Some(given) => Status::Complete(Payload::json(&json!(2 * given))),
        }
    }
}

/// A server on a folder, until it is dropped.
pub(super) struct Server {
    pub(super) host: Host,
    pub(super) service: Arc<Service>,
    router: axum::Router,
    token: String,
}

/// What a server answers.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answered {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }

    /// The body, if the status is the expected one.
    #[track_caller]
    pub(super) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// The kind of the problem that it is, with its status.
    pub(super) fn problem(&self) -> (u16, String) {
        (self.status.as_u16(), self.json()["kind"].as_str().unwrap_or_default().to_owned())
    }
}

impl Server {
    pub(super) fn new(folder: &Path) -> Self {
        let parking = ParkingPolicy { after: Duration::from_millis(50), resident_max: 1_000 };
        let host = Host::builder().workers(1).data(folder).parking(parking).native("twice", 1, Twice::default);
        let host = host.runtime(tokio::runtime::Handle::current()).build().unwrap();
        let service = Service::new(host.clone(), ServiceOptions::default()).unwrap();
        host.resume_all(&mut |_, _| {}).unwrap();
        let router = router(&service);
        let mut server = Self { host, service, router, token: String::new() };
        for text in WORKFLOWS {
            server.deploys(text);
        }
        server.service.resume_jobs().unwrap();
        server.token = server.token_of(&[Scope::Admin], &[]);
        server
    }

    /// Deploys a workflow and makes it the active one; returns its version.
    pub(super) fn deploys(&self, text: &str) -> u64 {
        let workflow = self.host.parse("w.yaml", text, Path::new("/nowhere")).unwrap();
        let (deployed, _) = self.service.deploy(workflow, "ann", None).unwrap();
        let version = &deployed.version;
        let _ = self.service.activate(&version.name, version.number, "ann", None).unwrap();
        version.number
    }

    /// A new token.
    pub(super) fn token_of(&self, scopes: &[Scope], workflows: &[&str]) -> String {
        let workflows = workflows.iter().map(|name| (*name).to_owned()).collect();
        let (token, stored) = token::make("ann", scopes, workflows, None).unwrap();
        self.service.store.add_token(&stored).unwrap();
        token
    }

    pub(super) async fn asks(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answered {
        self.asks_as(&self.token, method, path, headers, body).await
    }

    pub(super) async fn asks_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answered {
        let response = self.router.clone().call(request(token, method, path, headers, body)).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answered { status: parts.status, headers: parts.headers, text }
    }

    /// Opens a stream of events.
    pub(super) async fn follows(&self, token: Option<&str>, path: &str, headers: &[(&str, &str)]) -> Following {
        let token = token.unwrap_or(&self.token);
        let response = self.router.clone().call(request(token, Method::GET, path, headers, None)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Following { body: response.into_body(), text: String::new() }
    }

    pub(super) async fn gets(&self, path: &str) -> Answered {
        self.asks(Method::GET, path, &[], None).await
    }

    pub(super) async fn posts(&self, path: &str, body: Value) -> Answered {
        self.asks(Method::POST, path, &[], Some(body)).await
    }

    /// Starts a run.
    pub(super) async fn begins(&self, workflow: &str, id: &str, inputs: Value) {
        let path = format!("/v1/workflows/{workflow}/runs");
        let body = json!({ "run-id": id, "inputs": inputs, "labels": { "team": "red" } });
        let _ = self.posts(&path, body).await.is(201);
    }

    /// Waits for the outcome of a run.
    pub(super) async fn ends(&self, run: &str) -> Value {
        self.gets(&format!("/v1/runs/{run}/outcome?wait=30s")).await.is(200)
    }
}

/// A stream of events that is read.
pub(super) struct Following {
    body: Body,
    text: String,
}

/// An event of a stream.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

impl Following {
    /// The next event; `None` at the end of the stream, or if there is none for a second.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.next_within(Duration::from_secs(1)).await
    }

    /// The next event; `None` at the end of the stream, or if there is none for that long.
    pub(super) async fn next_within(&mut self, most: Duration) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let of = |key: &str| event.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
                let (name, id, data) = (of("event: "), of("id: "), of("data: "));
                self.text = rest.to_owned();
                let Some(name) = name else { continue };
                return Some(Event { name, id, data: serde_json::from_str(&data.unwrap()).unwrap() });
            }
            let frame = tokio::time::timeout(most, self.body.frame()).await.ok()??;
            self.text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.service.drain();
        let _ = self.host.suspend(Duration::ZERO);
        self.host.settle_folder();
    }
}

fn request(token: &str, method: Method, path: &str, headers: &[(&str, &str)], body: Option<Value>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    request = request.header("authorization", format!("Bearer {token}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = match body {
        Some(body) => {
            request = request.header("content-type", "application/json");
            Body::from(body.to_string())
        }
        None => Body::empty(),
    };
    request.body(body).unwrap()
}
