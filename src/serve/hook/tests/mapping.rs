//! Descriptions of webhooks, and what deliveries do by them.

use crate::serve::hook::mapping::{Deed, Unfit};
use crate::serve::hook::spec::{CheckedWebhook, WebhookSpec, check_webhook_name};
use crate::workflow::expression::{EngineConfig, Jq};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::sync::LazyLock;

static JQ: LazyLock<Jq> = LazyLock::new(|| Jq::new(EngineConfig::default()).unwrap());

fn checked(spec: Value) -> CheckedWebhook {
    serde_json::from_value::<WebhookSpec>(spec).unwrap().check(&JQ).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn faults(spec: Value) -> Vec<(String, String)> {
    let spec = serde_json::from_value::<WebhookSpec>(spec).unwrap();
    let faults = spec.check(&JQ).err().unwrap_or_default();
    faults.into_iter().map(|fault| (fault.pointer, fault.message)).collect()
}

fn headers(headers: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = headers.iter();
    pairs.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
}

fn decide(spec: Value, given: &[(&'static str, &str)], query: &str, body: &str) -> Result<Deed, Unfit> {
    checked(spec).decide(&JQ, &headers(given), Some(query), body.as_bytes())
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

#[test]
fn the_body_is_the_inputs_if_nothing_else_is_said() {
    let spec = json!({ "starts": "order", "verify": { "scheme": "none" } });
    let deed = decide(spec.clone(), &[JSON], "", r#"{"id": 9007199254740993}"#).unwrap();
    let inputs: Value = serde_json::from_str(r#"{"id": 9007199254740993}"#).unwrap();
    assert_eq!(deed, Deed::Start { workflow: "order".into(), inputs: inputs.as_object().unwrap().clone() });
    assert_eq!(decide(spec.clone(), &[], "", "[1]"), Err(Unfit::Inputs("a list")));
    assert_eq!(decide(spec.clone(), &[], "", ""), Err(Unfit::Inputs("null")));
    assert!(matches!(decide(spec.clone(), &[], "", "{"), Err(Unfit::NotJson(_))));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(matches!(decide(spec.clone(), &[], "", &deep), Err(Unfit::NotJson(_))));
    let reserved = r#"{"a": {"\u0024serde_json::private::Number": "1e"}}"#;
    assert!(matches!(decide(spec, &[], "", reserved), Err(Unfit::NotJson(_))));
}

#[test]
fn expressions_read_body_headers_and_query() {
    let spec = json!({
        "starts": "order",
        "accept": "(.headers[\"x-github-event\"] == \"push\") and (.body.deleted | not)",
        "inputs": { "who": "${ .body.pusher.name }", "all": ["${ .query.a }", "ref ${ .body.ref }", 1], "b": "literal" },
        "verify": { "scheme": "none" },
    });
    let body = r#"{"ref": "main", "pusher": {"name": "ann"}}"#;
    let deed = decide(spec.clone(), &[JSON, ("x-github-event", "push")], "a=1&b&a=%C3%A9+2", body).unwrap();
    let inputs = json!({ "who": "ann", "all": [["1", "é 2"], "ref main", 1], "b": "literal" });
    assert_eq!(deed, Deed::Start { workflow: "order".into(), inputs: inputs.as_object().unwrap().clone() });
    assert_eq!(decide(spec.clone(), &[("x-github-event", "star")], "", body), Ok(Deed::Filtered));
    let why = decide(spec, &[("x-github-event", "push")], "", r#"{"ref": 1}"#).map(|deed| format!("{deed:?}"));
    assert!(why.as_ref().is_ok_and(|deed| deed.contains("\"who\": Null")), "{why:?}");
}

#[test]
fn a_signal_names_its_run() {
    let spec = |run: &str| {
        json!({
            "signals": { "name": "paid", "run": run }, "inputs": ".body.data", "verify": { "scheme": "none" },
        })
    };
    let body = r#"{"order": 7, "data": [1, 2]}"#;
    let deed = Deed::Signal { run: "order-7".into(), name: "paid".into(), body: json!([1, 2]) };
    assert_eq!(decide(spec("order-${ .body.order }"), &[JSON], "", body), Ok(deed.clone()));
    assert_eq!(decide(spec("\"order-\\(.body.order)\""), &[JSON], "", body), Ok(deed));
    assert_eq!(decide(spec(".body.order"), &[JSON], "", body), Err(Unfit::RunId("a number")));
    assert_eq!(decide(spec(".body.none"), &[JSON], "", body), Err(Unfit::RunId("null")));
    let error = decide(spec(".body.order, 1"), &[JSON], "", body).unwrap_err().to_string();
    assert!(error.starts_with("`signals.run`: the expression gave 2 values"), "{error}");
}

#[test]
fn forms_and_texts_are_read_as_they_are() {
    let spec = |raw: bool| json!({ "starts": "a", "raw": raw, "inputs": { "b": "${ .body }" }, "verify": { "scheme": "none" } });
    let input = |deed: Result<Deed, Unfit>| match deed {
        Ok(Deed::Start { inputs, .. }) => inputs["b"].clone(),
        other => panic!("{other:?}"),
    };
    let form = ("content-type", "application/x-www-form-urlencoded");
    assert_eq!(
        input(decide(spec(false), &[form], "", "text=a%20b&n=1&n=2")),
        json!({ "text": "a b", "n": ["1", "2"] })
    );
    assert_eq!(input(decide(spec(true), &[form], "", "text=a%20b")), json!("text=a%20b"));
    assert_eq!(checked(spec(true)).decide(&JQ, &HeaderMap::new(), None, b"\xff"), Err(Unfit::NotText));
    assert_eq!(decide(spec(false), &[form], "", &"a&".repeat(1001)), Err(Unfit::TooManyFields));
}

#[test]
fn no_expression_reads_a_secret_of_the_headers() {
    let spec = json!({
        "starts": "a", "inputs": { "h": "${ .headers }" },
        "verify": { "scheme": "token", "header": "X-Token", "secrets": [{ "from": "env", "name": "A" }] },
    });
    let given = [("x-token", "s1"), ("authorization", "s2"), ("cookie", "s3"), ("x-other", "seen")];
    let Ok(Deed::Start { inputs, .. }) = decide(spec, &given, "", "{}") else { panic!("it starts") };
    assert_eq!(inputs["h"], json!({ "x-other": "seen" }));
}

#[test]
fn everything_wrong_with_a_description_is_said_at_once() {
    let found = faults(json!({
        "starts": "", "signals": { "name": "\n", "run": ".body.(" }, "accept": ".bodi.a", "inputs": { "a": ["${ .b", "${ .x }"] },
        "verify": { "scheme": "hmac", "secrets": [], "header": "a b", "algorithm": "sha256", "encoding": "hex",
                    "signed": "timestamp.body" },
    }));
    let pointers: Vec<_> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
    let expected = [
        "/signals",
        "/verify/secrets",
        "/verify/header",
        "/verify/timestamp",
        "/signals/run",
        "/accept",
        "/inputs/a/0",
    ];
    assert_eq!(pointers, expected, "{found:?}");
    assert!(found[5].1.contains("there is no `.bodi` here"), "{found:?}");
    let none = json!({ "verify": { "scheme": "none" } });
    assert_eq!(faults(none)[0].1, "it starts a workflow (`starts`) or signals a run (`signals`): one of them");
    let source = json!({ "from": "env", "name": "A" });
    let three = json!({ "starts": "a", "verify": { "scheme": "github", "secrets": [source, source, source] } });
    assert_eq!(faults(three)[0].0, "/verify/secrets");
    let large = json!({ "starts": "a", "inputs": { "a": "x".repeat(70_000) }, "verify": { "scheme": "none" } });
    assert!(faults(large)[0].1.contains("at most 65536 bytes"));
}

#[test]
fn a_name_is_a_part_of_a_url() {
    for name in ["a", "orders.v2", "9-x_Y"] {
        assert_eq!(check_webhook_name(name), Ok(()));
    }
    for name in ["", ".", "..", "-a", "a/b", "a b", "é", &"x".repeat(129), "a%2f"] {
        assert!(check_webhook_name(name).is_err(), "{name}");
    }
}
