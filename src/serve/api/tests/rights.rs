//! Every route with every scope: what a token may do, and what it must not see.

use super::{Server, request};
use crate::process::Timestamp;
use crate::run::system_time;
use crate::serve::access::rate::Peer;
use crate::serve::access::{Scope, token};
use crate::serve::router::{Needs, document, table};
use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tower_service::Service as _;

/// What every route needs. A change of this table is a change of what tokens may do.
const ROUTES: &str = include_str!("routes.txt");

/// The answer to a request: its status, and what comes of its body in a moment. Streams do not end.
async fn asks(server: &Server, mut request: Request<Body>) -> (u16, String) {
    // Each from an address of its own: so that unknown tokens are not too many.
    static ADDRESS: AtomicU32 = AtomicU32::new(1);
    let address = Ipv4Addr::from_bits(ADDRESS.fetch_add(1, Relaxed));
    request.extensions_mut().insert(Peer(IpAddr::V4(address)));
    let response = server.router.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let (mut text, mut body) = (Vec::new(), response.into_body());
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(Duration::from_millis(300), body.frame()).await {
        text.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    (status, String::from_utf8_lossy(&text).into_owned())
}

fn named(path: &str, values: &[(&str, &str)]) -> String {
    let filled = values.iter().fold(path.to_owned(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
    assert!(!filled.contains('{'), "{filled} has a parameter that the test does not know");
    filled
}

/// A path of which there is nothing: an act on it changes nothing.
fn ghost(path: &str) -> String {
    let values = [("name", "ghost"), ("id", "ghost"), ("version", "9"), ("digest", "00"), ("step", "ghost")];
    let more = [("pid", "9"), ("call", "9"), ("record", "9"), ("kind", "ghost"), ("secret", "ghost")];
    named(path, &[&values[..], &more[..]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_routes_is_that_of_the_router_and_of_its_document() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let lines = table(&server.service).into_iter().map(|(method, path, needs)| {
        let needs = match needs {
            Needs::Scope(scope) => scope.word(),
            Needs::Nothing => "-",
        };
        format!("{path} {method} {needs}")
    });
    let lines: BTreeSet<String> = lines.collect();
    let expected: BTreeSet<String> = ROUTES.lines().map(str::to_owned).collect();
    assert_eq!(lines, expected, "{}", lines.iter().cloned().collect::<Vec<_>>().join("\n"));
    let document = serde_json::to_value(document(&server.service)).unwrap();
    let documented: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| {
                let needs = operation["security"][0]["token"][0].as_str().unwrap_or("-");
                format!("{path} {} {needs}", method.to_uppercase())
            })
        })
        .collect();
    assert_eq!(documented, lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_takes_the_tokens_with_its_scope_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let store = server.service.store();
    let expired = token::make("ann", &[Scope::Admin], Vec::new(), Some(Timestamp(system_time().0 - 1))).unwrap();
    let revoked = token::make("ann", &[Scope::Admin], Vec::new(), None).unwrap();
    let foreign = token::make("ann", &[Scope::Admin], Vec::new(), None).unwrap();
    // The id of one that is valid, with another secret.
    let (valid, stored) = token::make("ann", &[Scope::Admin], Vec::new(), None).unwrap();
    let (mixed, mut other) = token::make("ann", &[Scope::Admin], Vec::new(), None).unwrap();
    other.hash = stored.hash;
    for stored in [&expired.1, &revoked.1, &other] {
        store.add_token(stored).unwrap();
    }
    assert!(store.revoke_token(&revoked.1.id, system_time()).unwrap());
    let refused = [&expired.0, &revoked.0, &foreign.0, &mixed, &valid, "", "x", &"wfh_".repeat(100)];
    let of_scopes: Vec<(Scope, String)> =
        Scope::ALL.iter().map(|scope| (*scope, server.token_of(&[*scope], &[]))).collect();
    let mut cells = 0;
    for (method, path, needs) in table(&server.service) {
        // It is asked for at the end.
        let Needs::Scope(needed) = needs else { continue };
        let is_drain = path == "/v1/host/drain";
        let path = ghost(&path);
        let method: Method = method.parse().unwrap();
        let with = |token: &str| request(token, method.clone(), &path, &[], None);
        for token in refused {
            let (status, body) = asks(&server, with(token)).await;
            assert_eq!(status, 401, "{method} {path} with `{token}`: {body}");
            cells += 1;
        }
        let mut bare = with("");
        bare.headers_mut().remove("authorization");
        assert_eq!(asks(&server, bare).await.0, 401, "{method} {path} without a token");
        cells += 1;
        for (scope, token) in &of_scopes {
            let is_granted = *scope == needed || *scope == Scope::Admin;
            if is_drain && is_granted {
                continue;
            }
            let (status, body) = asks(&server, with(token)).await;
            if is_granted && path.ends_with("/check") && *scope != Scope::Admin {
                // It reads runs: `deploy` alone is not enough, and it says so.
                assert!(status == 403 && body.contains(Scope::RunsRead.word()), "{path}: {status} {body}");
            } else if is_granted {
                assert!(![401, 403, 405, 500].contains(&status), "{method} {path} with {scope:?}: {status} {body}");
            } else {
                assert_eq!(status, 403, "{method} {path} with {scope:?}: {body}");
                assert!(body.contains("not-granted") && body.contains(needed.word()), "{method} {path}: {body}");
            }
            cells += 1;
        }
    }
    assert!(cells > 60 * 17, "{cells}");
    let admin = &of_scopes.last().unwrap().1;
    assert_eq!(asks(&server, request(admin, Method::POST, "/v1/host/drain", &[], None)).await.0, 202);
}

const SECRET: &str = "xyzzy-4711";

/// It shows the secret wherever a workflow can.
const TELLS: &str = "\
name: tells
inputs: { secret: { type: string } }
steps:
  - { id: said, set: \"${ .inputs.secret }\" }
  - { id: asked, needs: said, wait: { signal: go, title: \"It is ${ .inputs.secret }\", text: \"${ .inputs.secret }\" } }
  - { id: fails, needs: asked, set: \"${ error(.inputs.secret + .steps.asked.output) }\" }
";

/// Starts runs that have the secret in their inputs, waits, signals, outputs and problems.
async fn told(server: &Server) {
    server.deploys(TELLS);
    for run in ["waits", "ended"] {
        server.begins("tells", run, json!({ "secret": SECRET })).await;
    }
    let _ = server.posts("/v1/runs/ended/signals/go", json!(SECRET)).await.is(200);
    assert_eq!(server.ends("ended").await["status"], "failed");
    let _ = server.posts("/v1/runs/waits/signals/another", json!(SECRET)).await.is(200);
    server.begins("flaky", "good", json!({ "ok": true, "secret": SECRET })).await;
    server.ends("good").await;
    let spec = json!({ "workflow": "flaky", "every": "1h", "inputs": { "secret": SECRET } });
    let _ = server.asks(Method::PUT, "/v1/schedules/hourly", &[], Some(spec)).await.is(201);
    let hook = json!({ "starts": "tells", "verify": { "scheme": "none" }, "inputs": "{secret: .body.secret}" });
    let _ = server.asks(Method::PUT, "/v1/webhooks/tells", &[], Some(hook)).await.is(201);
    let _ = server.posts("/hooks/tells", json!({ "secret": SECRET })).await.is(202);
    // It does not fit: why is in the list of deliveries.
    assert_eq!(server.posts("/hooks/tells", json!({ "secret": [SECRET] })).await.status.as_u16(), 422);
    for act in ["retry", "cancel"] {
        let batch = json!({ "act": act, "ids": ["ended", "good"] });
        let job = server.posts("/v1/batches", batch).await.is(202);
        let _ = server.gets(&format!("/v1/jobs/{}?wait=30s", job["id"].as_str().unwrap())).await.is(200);
    }
    let check = server.posts("/v1/workflows/tells/versions/1/check", json!({})).await.is(202);
    let _ = server.gets(&format!("/v1/jobs/{}?wait=30s", check["id"].as_str().unwrap())).await.is(200);
}

/// The paths of a route, for everything that [`told`] has made.
async fn real(server: &Server, path: &str) -> Vec<String> {
    let jobs = server.gets("/v1/jobs").await.is(200);
    let jobs: Vec<&str> = jobs["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    let (mut ids, names) = (vec!["waits", "ended", "good"], ["tells", "flaky", "hourly", "go"]);
    if path.contains("/jobs/") {
        ids = jobs;
    }
    let steps = ["said", "asked", "fails", "first"];
    let mut paths = Vec::new();
    for id in ids {
        for name in names {
            for step in steps {
                for record in ["1", "2", "3", "5", "8"] {
                    paths.push(named(
                        path,
                        &[
                            ("id", id),
                            ("name", name),
                            ("step", step),
                            ("record", record),
                            ("version", "1"),
                            ("pid", record),
                            ("call", "0"),
                            ("digest", "00"),
                            ("kind", "unknown"),
                            ("secret", "ghost"),
                        ],
                    ));
                }
            }
        }
    }
    paths.sort();
    paths.dedup();
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_look_sees_no_payload() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    told(&server).await;
    let looks = server.token_of(&[Scope::RunsRead], &[]);
    let reads = server.token_of(&[Scope::RunsRead, Scope::RunsPayloads], &[]);
    let (mut answered, mut with_secret) = (BTreeSet::new(), BTreeSet::new());
    let routes = table(&server.service);
    for (_, route, _) in routes.iter().filter(|(method, ..)| method == "GET") {
        for path in real(&server, route).await {
            let (status, body) = asks(&server, request(&looks, Method::GET, &path, &[], None)).await;
            assert!(!body.contains(SECRET), "{path} shows a payload: {body}");
            if status == 200 {
                answered.insert(route.clone());
            }
            let (_, body) = asks(&server, request(&reads, Method::GET, &path, &[], None)).await;
            if body.contains(SECRET) {
                with_secret.insert(route.clone());
            }
        }
    }
    let readable = |(method, route, needs): &&(String, String, Needs)| {
        method == "GET" && *needs == Needs::Scope(Scope::RunsRead) && !answered.contains(route)
    };
    let silent: Vec<_> = routes.iter().filter(readable).map(|(_, route, _)| route).collect();
    assert!(silent.is_empty(), "nothing was read of {silent:?}");
    // The test would see it: the same answers have it for those who may.
    for route in ["/v1/runs/{id}", "/v1/runs/{id}/outcome", "/v1/runs/{id}/history", "/v1/inbox", "/v1/schedules"] {
        assert!(with_secret.contains(route), "{route} is not in {with_secret:?}");
    }
}

/// A body with which a route does what it is for.
fn fitting(method: &str, path: &str) -> Option<Value> {
    let deploys = json!({ "file": "w.yaml", "source": "name: flaky\nsteps: [{ id: a, set: 1 }]\n" });
    let schedule = json!({ "workflow": "flaky", "every": "1h" });
    let hook = json!({ "starts": "flaky", "verify": { "scheme": "none" }, "inputs": "{}" });
    let body = match (method, path) {
        ("GET" | "HEAD" | "DELETE", _) => return None,
        ("POST", "/v1/workflows") => deploys,
        ("PUT", "/v1/schedules/{name}") => schedule,
        ("PUT", "/v1/webhooks/{name}") => hook,
        ("POST", "/v1/runs/{id}/fork") => json!({ "at": 1 }),
        ("POST", "/v1/runs/{id}/upgrade") => json!({ "to": 1 }),
        ("POST", "/v1/runs/{id}/links") => json!({ "signal": "approve" }),
        ("POST", "/v1/runs/{id}/uncertain/{pid}/{call}") => json!({ "outcome": "again" }),
        ("POST", "/v1/schedules/{name}/backfill") => {
            json!({ "from": "2026-01-01T00:00:00Z", "until": "2026-01-01T01:00:00Z" })
        }
        _ => json!({}),
    };
    Some(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_other_workflows_sees_and_changes_nothing_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("flaky", "flaky-run", json!({ "ok": true })).await;
    server.ends("flaky-run").await;
    for (path, body) in [
        ("/v1/schedules/flaky", json!({ "workflow": "flaky", "every": "1h" })),
        ("/v1/webhooks/flaky", json!({ "starts": "flaky", "verify": { "scheme": "none" }, "inputs": "{}" })),
    ] {
        let _ = server.asks(Method::PUT, path, &[], Some(body)).await.is(201);
    }
    let job = server.posts("/v1/batches", json!({ "act": "pause", "ids": ["flaky-run"] })).await.is(202);
    let job = job["id"].as_str().unwrap().to_owned();
    // All but `admin`, under another name: jobs are shown to whoever has asked for them.
    let scopes: Vec<Scope> = Scope::ALL.iter().copied().filter(|scope| *scope != Scope::Admin).collect();
    let (elsewhere, stored) = token::make("bob", &scopes, vec!["other-*".to_owned()], None).unwrap();
    server.service.store().add_token(&stored).unwrap();
    let mut hidden = 0;
    for (method, route, needs) in table(&server.service) {
        if !matches!(needs, Needs::Scope(scope) if scope != Scope::Admin) {
            continue;
        }
        let id = if route.contains("/jobs/") { job.as_str() } else { "flaky-run" };
        let values = [("id", id), ("name", "flaky"), ("step", "first"), ("record", "1"), ("version", "1")];
        let path = named(&route, &[&values[..], &[("pid", "0"), ("call", "0"), ("digest", "00")]].concat());
        let asked: Method = method.parse().unwrap();
        let body = fitting(&method, &route);
        let (status, text) = asks(&server, request(&elsewhere, asked, &path, &[], body)).await;
        let names_it =
            route.contains("{id}") || route.contains("{name}") || (&*method, &*route) == ("POST", "/v1/workflows");
        if names_it {
            assert!([403, 404].contains(&status), "{method} {path}: {status} {text}");
            hidden += 1;
        } else if route == "/metrics" {
            assert_eq!(status, 403, "{text}");
        } else if method == "GET" {
            assert!(status != 200 || !text.contains("flaky"), "{method} {path}: {text}");
        }
    }
    assert!(hidden > 40, "{hidden}");
    // All of it is as it was.
    assert_eq!(server.gets("/v1/runs/flaky-run").await.is(200)["state"], "succeeded");
    for path in ["/v1/schedules/flaky", "/v1/webhooks/flaky", "/v1/workflows/flaky"] {
        let _ = server.gets(path).await.is(200);
    }
    assert_eq!(server.gets("/v1/workflows/flaky/versions").await.is(200).as_array().unwrap().len(), 1);
}
