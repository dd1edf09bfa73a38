//! Redirects: what is followed, what is granted again, and what is not repeated.

use super::server::{Server, response};
use super::{Client, assert_problem, config, ok_json};
use serde_json::json;
use wfhost::process::ProblemClass::*;

#[test]
fn redirects_of_a_get_are_followed_and_each_hop_is_granted() {
    let server = Server::start(|seen, wire| {
        let bytes = match seen.target.as_str() {
            "/one" => response(302, "location: two\r\n", ""),
            "/two" => response(307, "location: /three?x=1\r\n", ""),
            "/out" => response(301, "location: /forbidden\r\n", ""),
            _ => ok_json(),
        };
        wire.write_all(&bytes).is_ok()
    });
    let patterns = ["/one", "/two", "/three", "/out"].map(|path| format!("GET {}", server.url(path)));
    let client = Client::granting(&patterns.each_ref().map(String::as_str));
    let answer = client.ok(json!({ "url": server.url("/one") }));
    assert_eq!(answer["url"], server.url("/three?x=1"));
    let problem = client.problem(json!({ "url": server.url("/out") }));
    assert_problem(&problem, "not-granted", Definite);
    assert!(server.seen().iter().all(|seen| seen.target != "/forbidden"));
    let stayed = client.ok(json!({ "url": server.url("/one"), "redirects": 0 }));
    assert_eq!((stayed["status"].as_u64(), stayed["headers"]["location"].as_str()), (Some(302), Some("two")));
}

#[test]
fn a_post_is_redirected_only_where_it_asks_for_it() {
    let server = Server::start(|seen, wire| {
        let bytes = match seen.target.as_str() {
            "/303" => response(303, "location: /end\r\n", ""),
            "/308" => response(308, "location: /end\r\n", ""),
            _ => response(200, "", seen.method.clone()),
        };
        wire.write_all(&bytes).is_ok()
    });
    let client = Client::new(config());
    let post = |path: &str, redirects: Option<u8>| {
        let mut args = json!({ "url": server.url(path), "method": "POST", "body": { "text": "hi" } });
        if let Some(redirects) = redirects {
            args["redirects"] = redirects.into();
        }
        client.ok(args)
    };
    assert_eq!(post("/303", None)["status"], 303);
    assert_eq!(post("/303", Some(1))["body"], "GET");
    assert_eq!(post("/308", Some(1))["body"], "POST");
    let ends: Vec<_> = server.seen().into_iter().filter(|seen| seen.target == "/end").collect();
    assert!(ends[0].body.is_empty() && !ends[0].headers.contains_key("idempotency-key"));
    assert!(!ends[0].headers.contains_key("content-type"));
    assert_eq!((ends[1].body.as_slice(), ends[1].headers.contains_key("idempotency-key")), (&b"hi"[..], true));
}

#[test]
fn a_post_that_was_taken_is_never_called_undone_by_what_follows() {
    let server = Server::start(|seen, wire| {
        let bytes = match seen.target.as_str() {
            "/lost" => response(303, "location: http://127.0.0.1:1/\r\n", ""),
            "/inside" => response(303, "location: http://10.0.0.1/\r\n", ""),
            "/busy" => response(303, "location: /503\r\n", ""),
            "/moved" => response(307, "location: /503\r\n", ""),
            _ => response(503, "", ""),
        };
        wire.write_all(&bytes).is_ok()
    });
    let client = Client::new(config());
    for (path, kind, once, often) in [
        ("/lost", "connection-failed", Uncertain, Retryable),
        ("/inside", "address-refused", Uncertain, Definite),
        ("/busy", "http-status", Uncertain, Retryable),
        ("/moved", "http-status", Retryable, Retryable),
    ] {
        for (repeatable, class) in [(false, once), (true, often)] {
            let args = json!({ "url": server.url(path), "method": "POST", "redirects": 1, "repeatable": repeatable });
            assert_problem(&client.problem(args), kind, class);
        }
    }
}

#[test]
fn secrets_do_not_follow_a_redirect_to_another_origin() {
    let server = Server::start(|seen, wire| {
        let port = seen.headers["host"].rsplit_once(':').unwrap().1.to_owned();
        let bytes = match seen.target.as_str() {
            "/same" => response(302, "location: /end\r\n", ""),
            "/other" => response(302, &format!("location: http://b.test:{port}/end\r\n"), ""),
            _ => ok_json(),
        };
        wire.write_all(&bytes).is_ok()
    });
    let client = Client::new(config());
    let headers = json!({ "authorization": "Bearer s", "cookie": "s", "x-api-key": "s", "private-token": "s", "accept": "text/csv" });
    for path in ["/same", "/other"] {
        client.ok(json!({ "url": server.url_as("a.test", path), "headers": headers }));
    }
    let ends: Vec<_> = server.seen().into_iter().filter(|seen| seen.target == "/end").collect();
    for name in ["authorization", "cookie", "x-api-key", "private-token"] {
        assert!(ends[0].headers.contains_key(name) && !ends[1].headers.contains_key(name), "{name}");
    }
    assert_eq!(ends[1].headers["accept"], "text/csv");
}

#[test]
fn redirects_that_lead_nowhere_end() {
    let server = Server::start(|seen, wire| {
        let bytes = match seen.target.as_str() {
            "/loop" => response(302, "location: /loop\r\n", ""),
            "/file" => response(302, "location: file:///etc/passwd\r\n", ""),
            "/user" => response(302, "location: http://user:pw@a.test/\r\n", ""),
            "/inside" => response(302, "location: http://10.0.0.1/\r\n", ""),
            _ => response(302, &format!("location: /{}\r\n", "x".repeat(9000)), ""),
        };
        wire.write_all(&bytes).is_ok()
    });
    let client = Client::new(config());
    for path in ["/loop", "/file", "/user", "/long"] {
        assert_problem(&client.problem(json!({ "url": server.url(path) })), "bad-redirect", Definite);
    }
    assert_eq!(server.seen().iter().filter(|seen| seen.target == "/loop").count(), 6);
    assert_problem(&client.problem(json!({ "url": server.url("/inside") })), "address-refused", Definite);
    let posted = client.problem(json!({ "url": server.url("/file"), "method": "POST", "redirects": 1 }));
    assert_problem(&posted, "bad-redirect", Uncertain);
}
