use super::*;
use crate::process::problem::kind;

fn read(args: Value) -> Result<Request, Problem> {
    let args = Payload::json(&args);
    crate::dispatch::Schema::compile(&schema()).unwrap().check(&args)?;
    Request::read(&args, "run/a/0/1/2", &HttpConfig::default())
}

fn refused(args: Value) -> String {
    let problem = read(args).unwrap_err();
    assert_eq!(problem.kind, kind::BAD_ARGUMENTS);
    problem.detail.unwrap()
}

#[test]
fn the_shortest_call_is_a_get() {
    let request = read(json!({ "url": "https://example.com" })).unwrap();
    assert_eq!((request.method, request.url.as_str()), (Method::GET, "https://example.com/"));
    assert_eq!((request.redirects, request.repeatable, request.body), (5, true, Content::Bytes(Bytes::new())));
    assert!(!request.headers.contains_key("idempotency-key"));
}

#[test]
fn a_post_carries_its_key_and_follows_nothing() {
    let request =
        read(json!({ "url": "https://example.com", "method": "POST", "body": { "json": { "n": 1.50 } } })).unwrap();
    assert_eq!(request.headers["idempotency-key"], "run/a/0/1/2");
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!((request.redirects, request.repeatable), (0, false));
    assert_eq!(request.body, Content::Bytes(r#"{"n":1.5}"#.into()));
}

#[test]
fn fields_that_the_call_sets_are_kept() {
    let request = read(json!({
        "url": "https://example.com/?a=1",
        "method": "PATCH",
        "headers": { "Idempotency-Key": "mine", "Content-Type": "text/csv", "X-Two": ["1", "2"] },
        "query": { "b": "x y&z", "c": [1, true] },
        "body": { "base64": "aGk=" },
        "timeout": "5m",
        "redirects": 2,
        "expect": ["2xx", 404],
        "repeatable": true,
    }))
    .unwrap();
    assert_eq!(request.url.as_str(), "https://example.com/?a=1&b=x+y%26z&c=1&c=true");
    assert_eq!(request.headers["idempotency-key"], "mine");
    assert_eq!(request.headers["content-type"], "text/csv");
    assert_eq!(request.headers.get_all("x-two").iter().count(), 2);
    assert_eq!(request.body, Content::Bytes("hi".into()));
    assert_eq!((request.timeout, request.redirects, request.repeatable), (Duration::from_mins(5), 2, true));
    assert!(request.expects(StatusCode::NOT_FOUND) && request.expects(StatusCode::CREATED));
    assert!(!request.expects(StatusCode::GONE) && !request.expects(StatusCode::FOUND));
}

#[test]
fn a_key_that_does_not_fit_a_header_is_sent_as_its_digest() {
    for key in ["schön", "a b", "line\nbreak", "", &"x".repeat(256)] {
        let value = key_header(key);
        assert_eq!(value.len(), 64, "{key}");
        assert_eq!(value, key_header(key));
    }
    assert_eq!(key_header(&"x".repeat(255)).len(), 255);
}

#[test]
fn the_timeout_is_bounded() {
    let request = read(json!({ "url": "https://example.com", "timeout": "999999999h" })).unwrap();
    assert_eq!(request.timeout, HttpConfig::default().timeout_max);
}

#[test]
fn header_fields_that_the_host_sets_are_refused() {
    for name in ["Host", "connection", "Transfer-Encoding", "content-length", "Proxy-Authorization", "TE", "upgrade"] {
        let why = refused(json!({ "url": "https://example.com", "headers": { name: "x" } }));
        assert!(why.contains("set by the host"), "{why}");
    }
}

#[test]
fn bad_arguments_are_refused() {
    let url = "https://example.com";
    for args in [
        json!({}),
        json!({ "url": "ftp://example.com" }),
        json!({ "url": "https://user:secret@example.com" }),
        json!({ "url": format!("{url}/{}", "x".repeat(9000)) }),
        json!({ "url": url, "method": "CONNECT" }),
        json!({ "url": url, "method": "get" }),
        json!({ "url": url, "headers": { "a b": "x" } }),
        json!({ "url": url, "headers": { "a": "x\r\nb: y" } }),
        json!({ "url": url, "headers": { "a": "x".repeat(70_000) } }),
        json!({ "url": url, "headers": { "a": vec!["x"; 101] } }),
        json!({ "url": url, "body": { "json": 1, "text": "x" } }),
        json!({ "url": url, "body": {} }),
        json!({ "url": url, "body": { "base64": "!" } }),
        json!({ "url": url, "timeout": 30 }),
        json!({ "url": url, "timeout": "30 s" }),
        json!({ "url": url, "redirects": 6 }),
        json!({ "url": url, "expect": ["6xx"] }),
        json!({ "url": url, "expect": [42] }),
        json!({ "url": url, "as": "xml" }),
        json!({ "url": url, "query": { "a": { "b": 1 } } }),
        json!({ "url": url, "query": { "a": "x".repeat(9000) } }),
        json!({ "url": url, "fail-on": [] }),
    ] {
        refused(args);
    }
}

#[test]
fn a_request_is_repeatable_by_its_method_or_if_the_call_says_so() {
    let says = |args: Value| is_repeatable(&Payload::json(&args));
    assert!(says(json!({ "url": "x" })));
    assert!(says(json!({ "method": "PUT" })) && says(json!({ "method": "DELETE" })));
    assert!(!says(json!({ "method": "POST" })) && !says(json!({ "method": "PATCH" })));
    assert!(says(json!({ "method": "POST", "repeatable": true })));
    assert!(!says(json!({ "method": "FETCH" })) && !says(json!(1)));
}

#[test]
fn the_narrowest_pattern_of_a_call() {
    let pattern = |args: Value| pattern_for(&Payload::json(&args));
    for (url, method, expected) in [
        ("https://example.com", "GET", Some("GET https://example.com/")),
        ("https://Example.com:443/a/b?q=1#f", "HEAD", Some("GET https://example.com/a/b")),
        ("http://127.0.0.1:8080/items/*", "POST", Some("POST http://127.0.0.1:8080/items/*")),
        ("https://example.com/item-*/x", "*", Some("* https://example.com/*/x")),
        ("https://*.example.com/", "GET", Some("GET https://*.example.com/")),
        ("https://example.com/a%2Fb", "GET", Some("GET https://example.com")),
        ("*", "GET", None),
        ("https://example.com", "BREW", None),
    ] {
        let found = pattern(json!({ "url": url, "method": method }));
        assert_eq!(found.as_deref(), expected, "{url}");
        // The pattern grants the call.
        if let (Some(found), Some(method), false) = (found, super::method(method), url.contains('*')) {
            assert!(found.parse::<Pattern>().unwrap().matches(&method, &target::parse(url).unwrap()), "{found}");
        }
    }
    assert_eq!(pattern(json!({ "url": "https://example.com/x" })).as_deref(), Some("GET https://example.com/x"));
    assert_eq!(pattern(json!({})), None);
}
