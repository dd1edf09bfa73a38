//! Secrets: where values go, where they never go, and what comes back of them.

use super::server::{Server, response};
use super::{Client, assert_problem, certified_for, config};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use wfhost::dispatch::http::{Http, HttpConfig};
use wfhost::dispatch::{Dispatcher, Registry, SecretSource, Secrets};
use wfhost::process::ProblemClass::{Definite, Retryable, Uncertain};
use wfhost::process::secret::{PlaceholderKey, SecretGrant};

const VALUE: &str = "s3cr3t/V+lue\"42";
const OTHER_VALUE: &str = "another-secret-value";

/// A server under TLS as `a.test` and `b.test`, and who trusts it.
fn trusted(
    script: impl Fn(&super::server::Seen, &mut dyn super::server::Wire) -> bool + Send + Sync + 'static,
) -> (Server, HttpConfig) {
    let (certificate, tls) = certified_for(&["a.test", "b.test"], &[]);
    let mut config = config();
    config.roots = vec![certificate];
    (Server::start_on(Some(tls), script), config)
}

fn url(server: &Server, host: &str, path: &str) -> String {
    format!("https://{host}:{}{path}", server.address.port())
}

fn placeholder(name: &str) -> String {
    PlaceholderKey::of_seed(&[1; 32]).placeholder(name)
}

fn grant(name: &str, hosts: &[String]) -> SecretGrant {
    SecretGrant {
        name: name.to_owned(),
        placeholder: placeholder(name),
        hosts: hosts.to_vec(),
        headers: ["authorization", "x-api-key", "cookie"].map(str::to_owned).into(),
    }
}

fn fixed(value: &'static str) -> SecretSource {
    SecretSource::function(move || Ok(value.as_bytes().to_vec()))
}

fn client_with(config: HttpConfig, secrets: Secrets, granted: Vec<SecretGrant>) -> Client {
    let http = Http::new(config.clone()).unwrap().with_secrets(Arc::new(secrets));
    let registry = Registry::builder().handler("http", http).build().unwrap();
    Client { dispatcher: Dispatcher::new(registry), secrets: granted, ..Client::new(config) }
}

/// A step that may send `KEY` to `a.test`, in a run that has `OTHER`, too.
fn client(server: &Server, config: HttpConfig) -> Client {
    let secrets = Secrets::default().with("KEY", fixed(VALUE), None).unwrap();
    let secrets = secrets.with("OTHER", fixed(OTHER_VALUE), None).unwrap();
    secrets.check(["KEY", "OTHER"]).unwrap();
    client_with(config, secrets, vec![grant("KEY", &[format!("a.test:{}", server.address.port())])])
}

fn seen_text(server: &Server) -> String {
    let seen = server.seen();
    let body = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    seen.iter()
        .map(|one| format!("{} {:?} {}\n", one.target, one.headers, body(&one.body)))
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn a_value_is_put_into_the_fields_of_its_declaration() {
    let (server, config) = trusted(|_, wire| wire.write_all(&super::ok_json()).is_ok());
    let client = client(&server, config);
    let (key, url) = (placeholder("KEY"), url(&server, "a.test", "/"));
    let basic = |user: &str, password: &str| format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
    for (args, field, expected) in [
        (
            json!({ "headers": { "authorization": format!("Bearer {key}") } }),
            "authorization",
            format!("Bearer {VALUE}"),
        ),
        (json!({ "headers": { "X-Api-Key": key } }), "x-api-key", VALUE.to_owned()),
        (
            json!({ "headers": { "cookie": format!("a=1; b={key}; c={key}") } }),
            "cookie",
            format!("a=1; b={VALUE}; c={VALUE}"),
        ),
        (json!({ "auth": { "bearer": key } }), "authorization", format!("Bearer {VALUE}")),
        (json!({ "auth": { "basic": { "user": "ann", "password": key } } }), "authorization", basic("ann", VALUE)),
        (json!({ "headers": { "authorization": basic("ann", &key) } }), "authorization", basic("ann", VALUE)),
        (
            json!({ "auth": { "basic": { "user": "ann", "password": "plain" } } }),
            "authorization",
            basic("ann", "plain"),
        ),
    ] {
        let mut args = args;
        args["url"] = json!(url);
        assert_eq!(client.ok(args)["status"], 200);
        assert_eq!(server.seen().last().unwrap().headers[field], expected);
    }
    assert!(!seen_text(&server).contains("wfhost-secret"));
    let both = json!({ "url": url, "auth": { "bearer": "x" }, "headers": { "authorization": "y" } });
    assert_problem(&client.problem(both), "bad-arguments", Definite);
    let colon = json!({ "url": url, "auth": { "basic": { "user": "a:b", "password": "y" } } });
    assert_problem(&client.problem(colon), "bad-arguments", Definite);
}

#[test]
fn a_placeholder_anywhere_else_is_refused_before_anything_is_sent() {
    let (server, config) = trusted(|_, wire| wire.write_all(&super::ok_json()).is_ok());
    let client = client(&server, config);
    let key = placeholder("KEY");
    let https = url(&server, "a.test", "/");
    let of_other_run = PlaceholderKey::of_seed(&[2; 32]).placeholder("KEY");
    let bearer = |text: &str| json!({ "authorization": format!("Bearer {text}") });
    for (args, why) in [
        (json!({ "url": format!("{https}{key}") }), "KEY: a placeholder of it is in the URL"),
        (json!({ "url": format!("{https}?k=x{key}y") }), "in the URL"),
        (json!({ "url": https, "query": { "k": key } }), "in the URL"),
        (json!({ "url": https, "query": { key.clone(): "x" } }), "in the URL"),
        (json!({ "url": format!("https://{key}.a.test/") }), "in the URL"),
        (json!({ "url": https, "method": "POST", "body": { "json": { "a": key } } }), "in the body"),
        (json!({ "url": https, "method": "POST", "body": { "text": format!("..{key}..") } }), "in the body"),
        (json!({ "url": https, "method": "POST", "body": { "base64": STANDARD.encode(&key) } }), "in the body"),
        (
            json!({ "url": https, "headers": { "x-other": key } }),
            "KEY: its `headers` are authorization, x-api-key, cookie, and not x-other",
        ),
        (json!({ "url": https, "headers": { "user-agent": format!("me {key}") } }), "not user-agent"),
        (json!({ "url": https, "method": "POST", "headers": { "idempotency-key": key } }), "not idempotency-key"),
        (json!({ "url": https, "headers": { key.clone(): "x" } }), "in the name of a header field"),
        (json!({ "url": url(&server, "b.test", "/"), "headers": bearer(&key) }), "and not https://b.test"),
        (json!({ "url": "https://a.test:1/", "headers": bearer(&key) }), "and not https://a.test:1"),
        (json!({ "url": server.url_as("a.test", "/"), "headers": bearer(&key) }), "would receive it without TLS"),
        (
            json!({ "url": https, "headers": bearer(&placeholder("OTHER")) }),
            "OTHER: it is not among the `secrets` of this step",
        ),
        (json!({ "url": https, "headers": bearer(&of_other_run) }), "KEY: the placeholder is not the one of this run"),
        (
            json!({ "url": https, "auth": { "basic": { "user": "a", "password": placeholder("OTHER") } } }),
            "OTHER: it is not among",
        ),
    ] {
        let problem = client.problem(args.clone());
        assert_problem(&problem, "secret-refused", Definite);
        assert!(problem.detail.as_ref().unwrap().contains(why), "{args}: {problem}");
        assert!(!problem.to_string().contains(VALUE));
    }
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn what_is_no_placeholder_stays_what_it_is() {
    let (server, config) = trusted(|_, wire| wire.write_all(&super::ok_json()).is_ok());
    let client = client(&server, config);
    let key = placeholder("KEY");
    let https = url(&server, "a.test", "/");
    let (front, back) = key.split_at(20);
    for headers in [
        json!({ "authorization": front, "x-api-key": back }),
        json!({ "authorization": [front, back] }),
        json!({ "authorization": key.to_uppercase() }),
        json!({ "authorization": STANDARD.encode(&key) }),
        json!({ "authorization": key.chars().rev().collect::<String>() }),
        json!({ "x-other": "wfhost-secret-KEY-0123" }),
    ] {
        assert_eq!(client.ok(json!({ "url": https, "headers": headers }))["status"], 200);
    }
    let seen = seen_text(&server);
    assert!(!seen.contains(VALUE) && !seen.contains(OTHER_VALUE), "{seen}");
}

#[test]
fn a_redirect_to_another_origin_drops_it_and_each_hop_is_checked() {
    let (server, config) = trusted(move |seen, wire| {
        let port = seen.headers["host"].split(':').nth(1).unwrap().to_owned();
        let to = |location: &str| response(302, &format!("location: {location}\r\n"), "");
        let bytes = match seen.target.as_str() {
            "/same" => to("/end"),
            "/other" => to(&format!("https://b.test:{port}/end")),
            "/leak" => to(&format!("https://b.test:{port}/?k={}", VALUE.replace('"', "%22"))),
            "/encoded" => to("/?k=s3cr3t%2FV%2Blue%2242"),
            _ => super::ok_json(),
        };
        wire.write_all(&bytes).is_ok()
    });
    let mut client = client(&server, config);
    // Both hosts may have it: the redirect to another origin drops it all the same.
    client.secrets[0].hosts.push(format!("b.test:{}", server.address.port()));
    client.secrets[0].headers.push("accept".to_owned());
    let key = placeholder("KEY");
    let ask = |path: &str| json!({ "url": url(&server, "a.test", path), "headers": { "cookie": key, "accept": key } });
    assert!(client.ok(ask("/same"))["url"].as_str().unwrap().ends_with("/end"));
    assert_eq!(server.seen()[1].headers["cookie"], VALUE);
    assert!(client.ok(ask("/other"))["url"].as_str().unwrap().starts_with("https://b.test"));
    let last = server.seen().pop().unwrap();
    assert!(!last.headers.contains_key("cookie") && !last.headers.contains_key("accept"), "{last:?}");
    let before = server.seen().len();
    for path in ["/leak", "/encoded"] {
        let problem = client.problem(ask(path));
        assert_problem(&problem, "secret-refused", Definite);
        assert!(problem.detail.as_ref().unwrap().contains("redirects to a URL with a secret"), "{problem}");
        assert!(!problem.to_string().contains("s3cr3t"));
    }
    assert_eq!(server.seen().len(), before + 2);
    // The redirect is an answer, too.
    let stays = json!({ "url": url(&server, "a.test", "/encoded"), "redirects": 0, "headers": { "cookie": key } });
    assert_eq!(client.ok(stays)["headers"]["location"], "/?k=[secret KEY]");
    let post =
        json!({ "url": url(&server, "a.test", "/leak"), "method": "POST", "redirects": 1, "auth": { "bearer": key } });
    assert_problem(&client.problem(post), "secret-refused", Uncertain);
}

#[test]
fn what_comes_back_has_no_value_in_it() {
    let json_text = serde_json::to_string(VALUE).unwrap();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("content-type: text/plain\r\n", format!("you said {VALUE}!").into()),
        ("content-type: application/json\r\n", format!("{{\"headers\": {{\"Authorization\": {json_text}}}}}").into()),
        ("content-type: application/json\r\n", json_text.replace('/', "\\/").replace('+', "\\u002b").into()),
        ("content-type: text/plain\r\n", STANDARD.encode(format!("ann:{VALUE}")).into()),
        ("content-type: text/plain\r\n", "k=s3cr3t%2fV%2Blue%2242&x".into()),
        ("content-type: image/png\r\n", [b"\xff\xfe".as_slice(), VALUE.as_bytes(), b"\xff"].concat()),
        (
            "content-type: text/plain\r\nx-echo: Bearer s3cr3t/V+lue\"42\r\nset-cookie: s3cr3t%2FV%2Blue%2242\r\n",
            "x".into(),
        ),
    ];
    for (headers, body) in cases {
        let (echo, text) = (body.clone(), headers.to_owned());
        let (server, config) = trusted(move |seen, wire| {
            let status = if seen.target == "/bad" { 500 } else { 200 };
            wire.write_all(&response(status, &text, &echo)).is_ok()
        });
        let client = client(&server, config);
        let ask = |path: &str| json!({ "url": url(&server, "a.test", path), "auth": { "bearer": placeholder("KEY") } });
        let answer = client.ok(ask("/")).to_string();
        let problem = serde_json::to_string(&client.problem(ask("/bad"))).unwrap();
        for text in [answer, problem] {
            let value: Value = serde_json::from_str(&text).unwrap();
            let data = value["data"].as_str().map_or(value.clone(), |data| serde_json::from_str(data).unwrap());
            let body = STANDARD.decode(data["body"].as_str().unwrap_or_default()).unwrap_or_default();
            let decoded = String::from_utf8_lossy(&body).into_owned();
            assert!(text.contains("[secret KEY]") || decoded.contains("[secret KEY]"), "{text}");
            assert!(!text.contains("s3cr3t") && !decoded.contains("s3cr3t"), "{text} {decoded}");
        }
    }
}

#[test]
fn a_value_is_found_across_chunks_in_compressed_bodies_and_at_the_limit() {
    let (server, config) = trusted(|seen, wire| {
        let bytes = match seen.target.as_str() {
            "/chunks" => {
                let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
                for byte in VALUE.bytes() {
                    bytes.extend([b"1\r\n".as_slice(), &[byte], b"\r\n"].concat());
                }
                bytes.extend(b"0\r\n\r\n");
                bytes
            }
            "/zstd" => {
                let body = zstd::encode_all(VALUE.as_bytes(), 3).unwrap();
                response(200, "content-encoding: zstd\r\n", body)
            }
            // The shown part of a failure ends within the value.
            "/cut" => response(500, "", format!("{}{VALUE} and more{}", "x".repeat((16 << 10) - 7), "y".repeat(9999))),
            // What replaces the values is shorter, and what is read ends within a value: one of
            // these bodies, whatever more is read than is shown.
            many if many.starts_with("/many") => {
                let body = format!("{}{}", &"xxxxxxxxxxxxxxxx"[..many.len() - 5], VALUE.repeat(4_000));
                response(500, "", body)
            }
            _ => unreachable!(),
        };
        wire.write_all(&bytes).is_ok()
    });
    let client = client(&server, config);
    let ask = |path: &str| json!({ "url": url(&server, "a.test", path), "auth": { "bearer": placeholder("KEY") } });
    assert_eq!(client.ok(ask("/chunks"))["body"], "[secret KEY]");
    assert_eq!(client.ok(ask("/zstd"))["body"], "[secret KEY]");
    let problem = serde_json::to_string(&client.problem(ask("/cut"))).unwrap();
    assert!(problem.contains("xxxxxxx") && !problem.contains("s3cr"), "{}", &problem[problem.len() - 99..]);
    for more in 0..VALUE.len() {
        let problem = serde_json::to_string(&client.problem(ask(&format!("/many{}", "-".repeat(more))))).unwrap();
        assert!(problem.contains("[secret KEY]") && !problem.contains("s3"), "{}", &problem[problem.len() - 99..]);
    }
}

#[test]
fn a_step_without_secrets_gets_none_from_a_server_that_has_one() {
    let (server, config) = trusted(|_, wire| wire.write_all(&response(200, "", VALUE)).is_ok());
    let mut client = client(&server, config);
    client.secrets.clear();
    assert_eq!(client.ok(json!({ "url": url(&server, "a.test", "/") }))["body"], "[secret KEY]");
}

#[test]
fn a_value_is_that_of_now_and_a_missing_one_is_a_problem() {
    let (server, config) = trusted(|_, wire| wire.write_all(&super::ok_json()).is_ok());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "the first value\n").unwrap();
    let secrets = Secrets::default().with("KEY", SecretSource::File(path.clone()), None).unwrap();
    let granted = vec![
        grant("KEY", &[format!("*.test:{}", server.address.port())]),
        grant("NONE", &[format!("a.test:{}", server.address.port())]),
    ];
    let client = client_with(config, secrets, granted);
    let ask = |name: &str| json!({ "url": url(&server, "a.test", "/"), "auth": { "bearer": placeholder(name) } });
    client.ok(ask("KEY"));
    std::fs::write(&path, "the second value\n").unwrap();
    client.ok(ask("KEY"));
    let seen = server.seen();
    assert_eq!(seen[0].headers["authorization"], "Bearer the first value");
    assert_eq!(seen[1].headers["authorization"], "Bearer the second value");
    std::fs::remove_file(&path).unwrap();
    let problem = client.problem(ask("KEY"));
    assert_problem(&problem, "secret-missing", Retryable);
    // Its place is the operator's matter.
    assert_eq!(problem.detail.as_deref(), Some("KEY: it cannot be read now"));
    assert_problem(&client.problem(ask("NONE")), "secret-missing", Retryable);
    std::fs::write(&path, "of two\nlines").unwrap();
    let problem = client.problem(ask("KEY"));
    assert_problem(&problem, "secret-missing", Definite);
    assert!(!problem.to_string().contains("lines"), "{problem}");
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn the_operator_bounds_who_may_receive_it() {
    let (server, config) = trusted(|_, wire| wire.write_all(&super::ok_json()).is_ok());
    let port = server.address.port();
    let secrets = Secrets::default().with("KEY", fixed(VALUE), Some(vec![format!("b.test:{port}")])).unwrap();
    let granted = vec![grant("KEY", &[format!("*.test:{port}")])];
    let client = client_with(config, secrets, granted);
    let ask = |host: &str| json!({ "url": url(&server, host, "/"), "auth": { "bearer": placeholder("KEY") } });
    client.ok(ask("b.test"));
    let problem = client.problem(ask("a.test"));
    assert_problem(&problem, "secret-refused", Definite);
    assert!(problem.detail.as_ref().unwrap().contains("the operator does not let https://a.test"), "{problem}");
}

#[test]
fn plain_text_is_for_addresses_of_this_machine_that_the_operator_permits() {
    let server = Server::answering(super::ok_json());
    let hosts = [server.address.to_string(), format!("a.test:{}", server.address.port())];
    let ask = |url: String| json!({ "url": url, "auth": { "bearer": placeholder("KEY") } });
    for permits in [false, true] {
        let mut config = config();
        config.plain_secrets_to_loopback = permits;
        let secrets = Secrets::default().with("KEY", fixed(VALUE), None).unwrap();
        let client = client_with(config, secrets, vec![grant("KEY", &hosts)]);
        if permits {
            client.ok(ask(server.url("/")));
        } else {
            assert_problem(&client.problem(ask(server.url("/"))), "secret-refused", Definite);
        }
        // A name can lead elsewhere.
        assert_problem(&client.problem(ask(server.url_as("a.test", "/"))), "secret-refused", Definite);
    }
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_command_is_run_again_after_a_refusal() {
    let runs = Arc::new(Mutex::new(0));
    let (server, config) = trusted(move |_, wire| {
        let mut runs = runs.lock().unwrap();
        *runs += 1;
        let bytes = if *runs == 2 { response(401, "", "") } else { super::ok_json() };
        wire.write_all(&bytes).is_ok()
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "the first value").unwrap();
    let source = SecretSource::Command(vec!["cat".into(), path.to_str().unwrap().into()]);
    let secrets = Secrets::default().with("KEY", source, None).unwrap();
    let granted = vec![grant("KEY", &[format!("a.test:{}", server.address.port())])];
    let client = client_with(config, secrets, granted);
    let ask = || json!({ "url": url(&server, "a.test", "/"), "auth": { "bearer": placeholder("KEY") } });
    client.ok(ask());
    std::fs::write(&path, "the second value").unwrap();
    assert_problem(&client.problem(ask()), "http-status", Definite);
    client.ok(ask());
    let seen: Vec<_> = server.seen().iter().map(|one| one.headers["authorization"].clone()).collect();
    assert_eq!(seen, ["Bearer the first value", "Bearer the first value", "Bearer the second value"]);
}
