//! What people see of a run that waits.

use super::support::{World, eventually};
use super::transcript;
use serde_json::{Value, json};

const ASKS: &str = "
steps:
  - { id: asks, wait: { signal: answer, timeout: 24h } }
  - { id: later, needs: asks, set: 1 }
outputs: { got: \"${ .steps.asks.output }\" }
";

fn step(status: &Value, id: &str) -> Value {
    status["steps"].as_array().unwrap().iter().find(|step| step["node"] == id).unwrap().clone()
}

#[test]
fn a_step_that_waits_for_a_signal_says_so_wherever_its_run_is_told_of() {
    let world = World::new(ASKS);
    let run = world.spawn(&["run", "--run-id", "it", &world.file]);
    eventually(|| (world.tells(&["ls", "--json"])[0]["state"] == "waiting").then_some(()));
    for status in ["waiting", "running"] {
        let list = world.says(&["ls", "--status", status]);
        assert!(list.lines().nth(1).unwrap().contains(" waiting "), "{list}");
    }
    assert!(world.says(&["ps"]).contains(" waiting "));
    let mut since = None;
    let is_told = |world: &World, since: &mut Option<Value>| {
        let status = world.tells(&["status", "--json", "it"]);
        let asks = step(&status, "asks");
        let wait = &asks["waits"][0];
        assert_eq!((&wait["for"], &wait["name"], &asks["waiting"]), (&json!("signal"), &json!("answer"), &json!(1)));
        let at = |key: &str| wait[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert_eq!(at("until").duration_since(at("since")).as_hours(), 24, "{wait}");
        assert_eq!(since.get_or_insert_with(|| wait.clone()), wait, "it is the same wait, whoever tells of it");
        assert!(step(&status, "later")["waits"].is_null());
        let shown = world.does(&["status", "it"]);
        let text = transcript(&shown);
        let row = text.lines().find(|line| line.starts_with("asks")).unwrap();
        let words: Vec<&str> = row.split_whitespace().take(7).collect();
        assert_eq!(words, ["asks", "waiting", "waits", "for", "signal", "answer", "since"], "{text}");
        assert!(row.contains(", until ") && row.contains("23 h 5") && row.ends_with(" left"), "{text}");
        assert!(text.contains("wfhost signal it answer JSON"), "{text}");
        assert!(!text.contains("ATTEMPTS") && !text.contains("ITEMS"), "what is empty is left out: {text}");
    };
    is_told(&world, &mut since);
    assert!(world.says(&["history", "it"]).contains("calls signal with {\"name\":\"answer\"}, at most 1d"));
    run.send("-TERM");
    let said = String::from_utf8(run.output().stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.iter().any(|line| line.starts_with("asks: waits for signal answer, 2")), "{said}");
    let hints = lines.iter().filter(|line| line.contains("wfhost signal it answer JSON")).count();
    assert_eq!(hints, 1, "{said}");
    // Nobody runs it, and it waits as it did.
    is_told(&world, &mut since);
    assert!(world.says(&["ls"]).contains(" suspended "));
    world.says(&["signal", "it", "answer", "1"]);
    assert_eq!(world.tells(&["resume", "--json", "it"])["outputs"], json!({ "got": 1 }));
    assert!(step(&world.tells(&["status", "--json", "it"]), "asks")["waits"].is_null());
}

#[test]
fn who_wants_to_hear_little_gets_no_hint_of_a_signal() {
    for how in ["-q", "--json"] {
        let world = World::new(ASKS);
        let run = world.begin("it", "asks", if how == "-q" { &["-q"] } else { &[] });
        world.says(&["signal", "it", "answer", "1"]);
        let output = run.output();
        assert!(!String::from_utf8_lossy(&output.stderr).contains("hint"), "{}", transcript(&output));
    }
}

#[test]
fn a_step_says_until_when_it_waits_and_when_it_times_out() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = World::new(&format!(
        "steps:
  - {{ id: naps, wait: 1h }}
  - id: busy
    call: http
    with: {{ url: \"http://127.0.0.1:{port}/\" }}
    allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}
    timeout: 2h
  - id: tries
    call: http
    with: {{ url: \"http://127.0.0.1:1/\" }}
    allow: {{ http: [ \"GET http://127.0.0.1:1\" ] }}
    retry: {{ max: 3, backoff: 1h..1h }}
"
    ));
    let _run = world.begin("it", "busy", &["--allow-address", "127.0.0.1"]);
    let status = eventually(|| {
        let status = world.tells(&["status", "--json", "it"]);
        step(&status, "tries")["waits"].is_array().then_some(status)
    });
    assert_eq!(step(&status, "naps")["waits"][0]["for"], "time");
    assert!(step(&status, "busy")["deadline"].is_string(), "{status}");
    let wait = &step(&status, "tries")["waits"][0];
    assert_eq!((&wait["for"], &wait["attempt"], &wait["attempts-max"]), (&json!("attempt"), &json!(2), &json!(4)));
    let text = world.says(&["status", "it"]);
    let row = |id: &str| text.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(row("naps").contains("waits since ") && row("naps").contains(", until "), "{text}");
    assert!(row("busy").contains("times out at "), "{text}");
    assert!(row("tries").contains("for attempt 2 of 4, after: "), "{text}");
}

#[test]
fn a_guest_that_waits_for_a_signal_is_seen_at_its_step() {
    let world = World::new(
        "steps:
  - id: guests
    for-each: [one, two]
    uses: ./guests/approval.wasm
    with: { signal: \"${ .item }\", count: 1, timeout_ms: 3600000 }
outputs: { got: \"${ .steps.guests.output }\" }
",
    );
    let run = world.begin("it", "guests", &[]);
    let waits = eventually(|| {
        let waits = step(&world.tells(&["status", "--json", "it"]), "guests")["waits"].clone();
        (waits.as_array().map(Vec::len) == Some(2)).then_some(waits)
    });
    let mut told: Vec<_> = waits.as_array().unwrap().iter().map(|wait| json!([wait["item"], wait["name"]])).collect();
    told.sort_by_key(|wait| wait[0].as_u64());
    assert_eq!(told, [json!([0, "one"]), json!([1, "two"])]);
    assert!(waits[0]["until"].is_string(), "{waits}");
    let text = world.says(&["status", "it"]);
    assert!(text.contains(" waits for signal ") && text.contains("; 1 more item waits"), "{text}");
    for name in ["one", "two"] {
        world.says(&["signal", "it", name, "1"]);
    }
    assert_eq!(run.told().0["outputs"], json!({ "got": [[1], [1]] }));
}

#[test]
fn a_guest_that_waits_for_a_slot_is_seen_at_its_step() {
    let world = World::new(
        "steps:
  - id: guests
    for-each: [1, 2]
    uses: ./guests/hostile.wasm
    entry: endless-loop
    limits: { fuel-per-step: 1000G, fuel: 1000G }
",
    );
    let _run = world.begin("it", "guests", &["--slots", "1"]);
    eventually(|| world.says(&["status", "it"]).contains("1 guest waits for a slot").then_some(()));
}
