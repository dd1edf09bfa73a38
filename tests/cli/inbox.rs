//! What waits for a person, over all runs.

use super::support::{World, eventually};
use super::transcript;
use serde_json::json;
use std::io::Read as _;
use std::net::TcpListener;

const ASKS: &str = "
inputs: { what: string }
steps:
  - id: asks
    wait: { signal: approve, title: \"Publish ${ .inputs.what }?\", text: Two words., schema: { type: object } }
outputs: { got: \"${ .steps.asks.output }\" }
";

#[test]
fn what_waits_is_listed_whether_or_not_a_host_has_it() {
    let world = World::new(ASKS);
    assert!(transcript(&world.does(&["inbox"])).contains("nothing waits for a person"));
    let run = world.begin("first", "asks", &["--input", "what=a"]);
    let other = world.begin("second", "asks", &["--input", "what=b"]);
    let listed = |arguments: &[&str]| {
        let list = world.tells(&[&["inbox", "--json"], arguments].concat());
        list.as_array().unwrap().iter().map(|one| one["run"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), ["first", "second"]);
    other.send("-TERM");
    other.output();
    // Nobody has it any more, and it waits as it did.
    assert_eq!(listed(&["--kind", "signal", "--name", "approve"]), ["first", "second"]);
    let one = &world.tells(&["inbox", "--json", "--limit", "1"])[0];
    assert_eq!((&one["kind"], &one["name"], &one["workflow"]), (&json!("signal"), &json!("approve"), &json!("flow")));
    let shown = json!({ "title": "Publish a?", "text": "Two words.", "schema": { "type": "object" } });
    assert_eq!(one["detail"], shown);
    let status = world.tells(&["status", "--json", "first"]);
    let asks = status["steps"].as_array().unwrap().iter().find(|step| step["node"] == "asks").unwrap();
    assert_eq!(one["since"], asks["waits"][0]["since"], "it is the same wait");
    assert_eq!(listed(&["--kind", "uncertain"]), [""; 0]);
    assert_eq!(listed(&["--older-than", "1h"]), [""; 0]);
    let text = transcript(&world.does(&["inbox", "--limit", "1"]));
    assert!(text.contains("first") && text.contains("signal approve") && text.contains("Publish a?"), "{text}");
    assert!(
        text.contains("and 1 more: --limit 2 shows them") && text.contains("`wfhost signal RUN NAME BODY`"),
        "{text}"
    );
    world.says(&["signal", "first", "approve", "{\"by\": \"ann\"}"]);
    assert_eq!(run.output().status.code(), Some(0));
    assert_eq!(listed(&[]), ["second"]);
}

#[test]
fn a_call_whose_outcome_is_unknown_waits_for_a_person() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = World::new(&format!(
        "steps:
  - id: pay
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/pay\" }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
"
    ));
    let run = world.begin("it", "pay", &["--allow-address", "127.0.0.1"]);
    let (mut request, _) = listener.accept().unwrap();
    let _ = request.read(&mut [0; 16]).unwrap();
    assert_eq!(world.tells(&["inbox", "--json"]), json!([]), "its host will get the answer");
    run.kill();
    let one = eventually(|| world.tells(&["inbox", "--json"]).get(0).cloned());
    assert_eq!((&one["kind"], &one["detail"]["handler"]), (&json!("uncertain"), &json!("http")));
    let call = one["name"].as_str().unwrap();
    assert!(transcript(&world.does(&["inbox"])).contains(&format!("call {call}")));
    world.says(&["resolve", "it", call, "--completed", "1"]);
    world.does(&["resume", "it", "--allow-address", "127.0.0.1"]);
    assert_eq!(world.tells(&["inbox", "--json"]), json!([]));
}
