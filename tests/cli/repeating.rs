//! Runs that a person repeats, against a server that keeps the requests and their keys.

use super::support::World;
use super::transcript;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A request: its path, its key, its body.
pub(super) type Request = (String, String, String);

/// What the server does with the next requests of a path, in order; then it answers 200.
#[derive(Clone, Copy)]
pub(super) enum Does {
    Answers(u16),
    /// It closes the connection: the request may have been carried out.
    Drops,
}

#[derive(Clone, Default)]
pub(super) struct Server {
    seen: Arc<Mutex<Vec<Request>>>,
    next: Arc<Mutex<Vec<(String, Does)>>>,
    pub(super) port: u16,
}

impl Server {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { port: listener.local_addr().unwrap().port(), ..Self::default() };
        let this = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                this.answer(stream.unwrap());
            }
        });
        server
    }

    fn answer(&self, mut stream: std::net::TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let field = |name: &str| {
            head.iter().find_map(|line| line.to_lowercase().strip_prefix(&format!("{name}: ")).map(str::to_owned))
        };
        let mut body = vec![0; field("content-length").map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let path = head[0].split(' ').nth(1).unwrap().to_owned();
        let key = field("idempotency-key").unwrap_or_default();
        self.seen.lock().unwrap().push((path.clone(), key, String::from_utf8(body).unwrap()));
        let does = {
            let mut next = self.next.lock().unwrap();
            let at = next.iter().position(|(wanted, _)| *wanted == path);
            at.map_or(Does::Answers(200), |at| next.remove(at).1)
        };
        if let Does::Answers(status) = does {
            let body = "{\"ok\":true}";
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n");
            stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).unwrap();
        }
    }

    pub(super) fn next(&self, path: &str, does: Does) {
        self.next.lock().unwrap().push((path.to_owned(), does));
    }

    /// The requests since it was last asked.
    pub(super) fn seen(&self) -> Vec<Request> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

pub(super) const ALLOW: [&str; 2] = ["--allow-address", "127.0.0.1"];

pub(super) fn does(world: &World, words: &[&str]) -> (Value, Option<i32>) {
    let output = world.does(&[words, &["--json"], &ALLOW].concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", transcript(&output)));
    (told, output.status.code())
}

/// What read the result of a step that runs again reads the new one, and what reacted to its
/// failure has not happened.
#[test]
fn what_depends_on_a_step_that_runs_again_runs_again_or_is_skipped() {
    let server = Server::start();
    let port = server.port;
    let get = |path: &str, more: &str| {
        format!(
            "call: http, {more} with: {{ url: \"http://127.0.0.1:{port}/{path}\" }}, allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}"
        )
    };
    let world = World::new(&format!(
        "steps:
  - {{ id: a, {} }}
  - {{ id: sum, set: \"a was ${{ .steps.a.status }}: ${{ .steps.a.output.status }}\" }}
  - {{ id: alert, needs: a, when: failed, call: log, with: {{ message: alert }} }}
  - {{ id: beside, set: 1 }}
  - {{ id: last, needs: sum, {} }}
outputs: {{ a: \"${{ .steps.a.status }}\", sum: \"${{ .steps.sum.output }}\", alert: \"${{ .steps.alert.status }}\" }}
",
        get("flip", "continue-on-error: true,"),
        get("last", ""),
    ));
    server.next("/flip", Does::Answers(404));
    server.next("/last", Does::Answers(404));
    assert_eq!(does(&world, &["run", &world.file, "--run-id", "s1"]).1, Some(1));
    let (told, code) = does(&world, &["retry", "s1", "--run-id", "s2"]);
    let outputs = json!({ "a": "succeeded", "sum": "a was succeeded: 200", "alert": "skipped" });
    assert_eq!((&told["outputs"], code), (&outputs, Some(0)), "{told}");
    let status = world.tells(&["status", "s2", "--json"]);
    let taken: Vec<&str> = status["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["taken-over"] == true)
        .filter_map(|step| step["id"].as_str().or(step["node"].as_str()))
        .collect();
    assert_eq!(taken, ["beside"], "{status}");
    assert!(world.says(&["logs", "s2"]).contains("beside: succeeded, taken over"));
    assert!(world.says(&["status", "s2"]).contains("taken over from the former run"));
    // And the other way round: a reaction that is due this time happens.
    server.next("/flip", Does::Answers(404));
    let (told, code) = does(&world, &["retry", "s2", "--from", "a", "--run-id", "s3"]);
    let outputs = json!({ "a": "failed", "sum": "a was failed: null", "alert": "succeeded" });
    assert_eq!((&told["outputs"], code), (&outputs, Some(0)), "{told}");
    let steps = |run: &str| {
        let told = world.tells(&["retry", run, "--from", "sum", "--dry-run", "--json"]);
        let step = |step: &Value| (step["id"].as_str().unwrap().to_owned(), step["now"].as_str().unwrap().to_owned());
        told["steps"].as_array().unwrap().iter().map(step).collect::<Vec<_>>()
    };
    let now = |step: &str, now: &str| (step.to_owned(), now.to_owned());
    let (taken, again) = ("taken-over", "runs-again");
    assert_eq!(
        steps("s2"),
        [now("a", taken), now("sum", again), now("alert", taken), now("beside", taken), now("last", again)]
    );
    assert_eq!(
        steps("s3"),
        [now("a", again), now("sum", again), now("alert", again), now("beside", taken), now("last", again)],
        "a tolerated failure runs again"
    );
}

fn paying(port: u16, more: &str) -> String {
    format!(
        "inputs: {{ amount: {{ type: integer, default: 1 }} }}
steps:
  - {{ id: before, set: \"${{ .inputs.amount }}\" }}
  - id: pay
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/pay\", body: {{ json: {{ amount: \"${{ .steps.before.output }}\" }} }} {more} }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
outputs: {{ pay: \"${{ .steps.pay.output.body }}\" }}
"
    )
}

/// Outcome known or not, arguments the same or others: against the server that hears the keys.
#[test]
fn a_server_hears_a_new_key_for_another_request_and_the_old_one_for_the_same() {
    let server = Server::start();
    let world = World::new(&paying(server.port, ""));
    let request =
        |key: &str, amount: u32| [("/pay".to_owned(), format!("{key}/pay/0/0"), format!("{{\"amount\":{amount}}}"))];
    let run = |id: &str| does(&world, &["run", &world.file, "--run-id", id]);

    // It is known that it succeeded.
    assert_eq!(run("known").1, Some(0));
    assert_eq!(server.seen(), request("known", 1));
    assert_eq!(does(&world, &["retry", "known", "--from", "pay", "--run-id", "same"]).1, Some(0));
    assert_eq!(server.seen(), request("known", 1), "the same is asked");
    assert_eq!(does(&world, &["retry", "known", "--input", "amount=2", "--run-id", "other"]).1, Some(0));
    let other = server.seen();
    assert!(other[0].1.starts_with("known~") && other[0].1.ends_with("/pay/0/0"), "{other:?}");
    assert_eq!(other[0].2, "{\"amount\":2}", "another thing is asked");
    assert_eq!(does(&world, &["retry", "other", "--from", "pay", "--run-id", "again"]).1, Some(0));
    assert_eq!(server.seen(), other, "and the same as before again");
    assert_eq!(does(&world, &["retry", "known", "--input", "amount=2", "--run-id", "twice"]).1, Some(0));
    assert_eq!(server.seen(), other, "so it is where the first run is repeated once more");
    let talk = world.does(&[&["retry", "known", "--input", "amount=3", "--run-id", "told"][..], &ALLOW].concat());
    let told = String::from_utf8_lossy(&talk.stderr).into_owned();
    let wanted = "/pay/0/0: the arguments differ from those under known/pay/0/0";
    assert!(
        told.contains("new key known~") && told.contains(wanted) && told.contains("0 steps taken over, 2 to run again"),
        "{told}"
    );
    server.seen();
    assert_eq!(does(&world, &["retry", "known", "--from", "pay", "--new-keys", "--run-id", "fresh"]).1, Some(0));
    assert_eq!(server.seen(), request("fresh", 1), "nothing is used again");

    // Nobody knows.
    server.next("/pay", Does::Drops);
    assert_eq!(run("unknown").1, Some(1));
    assert_eq!(server.seen(), request("unknown", 1));
    let dry = world.says(&["retry", "unknown", "--dry-run", "--input", "amount=5"]);
    assert!(dry.contains("pay: unknown/pay/0/0\n  reused whatever the arguments"), "{dry}");
    assert!(server.seen().is_empty(), "nothing was begun");
    server.next("/pay", Does::Drops);
    assert_eq!(does(&world, &["retry", "unknown", "--run-id", "u2"]).1, Some(1));
    assert_eq!(server.seen(), request("unknown", 1));
    assert_eq!(does(&world, &["retry", "u2", "--input", "amount=5", "--run-id", "u3"]).1, Some(0));
    assert_eq!(server.seen(), request("unknown", 5), "whatever is asked");

    // It is known that it did not happen.
    server.next("/pay", Does::Answers(400));
    assert_eq!(run("refused").1, Some(1));
    server.seen();
    let dry = world.says(&["retry", "refused", "--dry-run"]);
    assert!(dry.contains("pay: refused…/pay/0/1\n  new: the former call is known not to have happened"), "{dry}");
    assert_eq!(does(&world, &["retry", "refused", "--run-id", "r2"]).1, Some(0));
    let key = server.seen()[0].1.clone();
    assert!(key.starts_with("refused~") && key.ends_with("/pay/0/1"), "{key}");
}

/// What the host repeats by itself has the key that it had, whatever came between.
#[test]
fn what_the_host_repeats_by_itself_has_one_key() {
    let server = Server::start();
    let text = paying(server.port, ", repeatable: true")
        .replace("    allow:", "    retry: { max: 2, backoff: 1ms }\n    allow:");
    let world = World::new(&text);
    for id in ["first", "second"] {
        server.next("/pay", Does::Drops);
        server.next("/pay", Does::Answers(500));
        let words = if id == "first" {
            vec!["run", &world.file, "--run-id", id]
        } else {
            vec!["retry", "first", "--input", "amount=2", "--run-id", id]
        };
        assert_eq!(does(&world, &words).1, Some(0));
        let keys: Vec<String> = server.seen().into_iter().map(|(_, key, _)| key).collect();
        assert_eq!(keys, vec![keys[0].clone(); 3]);
        assert_eq!(keys[0] == "first/pay/0/0", id == "first", "{keys:?}");
    }
}

/// A file that was corrected: what it does not concern is taken over.
#[test]
fn a_run_goes_on_with_a_corrected_file() {
    let server = Server::start();
    let good = paying(server.port, "");
    let bad = good.replace("/pay\"", "/pya\"");
    let world = World::new(&bad);
    server.next("/pya", Does::Answers(404));
    assert_eq!(does(&world, &["run", &world.file, "--run-id", "f1"]).1, Some(1));
    std::fs::write(&world.file, &good).unwrap();
    server.seen();
    server.next("/pya", Does::Answers(404));
    let output = world.does(&[&["retry", "f1"][..], &ALLOW].concat());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = format!("to use the new one: wfhost retry f1 --workflow {}", world.file);
    assert!(told.contains("has changed; this retry") && told.contains(&wanted), "{told}");
    server.seen();

    let dry = world.says(&["retry", "f1", "--workflow", &world.file, "--dry-run"]);
    let lines: Vec<&str> = dry.lines().collect();
    assert!(lines[1].starts_with("before") && lines[1].ends_with("taken over"), "{dry}");
    assert!(lines[2].starts_with("pay") && lines[2].ends_with("runs again  changed: with"), "{dry}");
    let (told, code) = does(&world, &["retry", "f1", "--workflow", &world.file, "--run-id", "f2"]);
    assert_eq!((&told["outputs"]["pay"], code), (&json!({ "ok": true }), Some(0)), "{told}");
    assert_eq!(server.seen().len(), 1);
    // The outputs alone were wrong: no step runs again.
    std::fs::write(&world.file, good.replace("outputs: {", "outputs: { more: 1,")).unwrap();
    let (told, code) = does(&world, &["retry", "f2", "--workflow", &world.file, "--run-id", "f3"]);
    assert_eq!((&told["outputs"]["more"], code), (&json!(1), Some(0)), "{told}");
    assert!(server.seen().is_empty());
    // A step that is new, one that is gone, an input that is not declared any more.
    let third = good
        .replace("inputs: { amount: { type: integer, default: 1 } }\n", "")
        .replace("id: before, set: \"${ .inputs.amount }\"", "id: new, set: 9");
    std::fs::write(&world.file, third.replace(".steps.before.", ".steps.new.")).unwrap();
    let words = ["retry", "f2", "--input", "amount=3", "--run-id", "f4", "--json"];
    assert!(does(&world, &words[..6]).0["outputs"].is_object());
    let dry = world.says(&["retry", "f4", "--workflow", &world.file, "--dry-run"]);
    assert!(dry.contains("no longer declares are dropped: amount"), "{dry}");
    assert!(dry.contains("no longer has: before (succeeded)") && dry.contains("a new step"), "{dry}");
    let refused = world.refuses(&["retry", "f2", "--input", "amount=x"]);
    assert!(refused.contains("amount"), "{refused}");
    let refused = world.refuses(&["retry", "f2"]);
    assert!(refused.contains("nothing to run again") && refused.contains("--workflow FILE"), "{refused}");
}

/// A fork takes another file where everything up to the cut would have been the same.
#[test]
fn a_fork_goes_on_with_another_file_where_its_records_allow_it() {
    let text = "inputs: { n: { type: integer, default: 1 } }
steps:
  - { id: one, set: 1 }
  - { id: asks, needs: one, wait: { signal: go } }
  - { id: two, needs: asks, set: \"${ .inputs.n }\" }
outputs: { two: \"${ .steps.two.output }\" }
";
    let world = World::new(text);
    let run = world.begin("it", "asks", &[]);
    let at = world.says(&["history", "--json", "it"]).lines().count().to_string();
    world.says(&["signal", "it", "go"]);
    assert_eq!(run.told().1, Some(0));
    let other = world.file.replace(".yaml", "-other.yaml");
    let fork = |text: String, more: &[&str]| {
        std::fs::write(&other, text).unwrap();
        let words = [&["fork", "it", "--at", &at, "--workflow", &other, "--json"], more].concat();
        world.spawn(&words)
    };
    let going = fork(text.replace(".inputs.n", ".inputs.n + 10"), &["--run-id", "f1", "--input", "n=5"]);
    super::support::eventually(|| world.does(&["signal", "f1", "go"]).status.success().then_some(()));
    let (told, code) = going.told();
    assert_eq!((&told["outputs"]["two"], code), (&json!(15), Some(0)), "{told}");
    let (told, code) = fork(text.replace("signal: go", "signal: gone"), &["--run-id", "f2"]).told();
    assert_eq!(code, Some(2), "{told}");
    assert!(told["problem"]["hint"].as_str().unwrap().contains("up to the cut"), "{told}");
}

/// What no run has asked for before: two retries of one run that ask for different things have
/// different keys.
#[test]
fn of_two_retries_of_one_run_each_has_the_keys_of_what_it_asks_for() {
    let server = Server::start();
    let text = paying(server.port, "").replace(
        "id: before, set: \"${ .inputs.amount }\"",
        "id: before, set: \"${ if .inputs.amount < 0 then error(\\\"no\\\") else .inputs.amount end }\"",
    );
    let world = World::new(&text);
    assert_eq!(does(&world, &["run", &world.file, "--run-id", "x", "--input", "amount=-1"]).1, Some(1));
    for (id, amount) in [("xa", "200"), ("xb", "20"), ("xc", "200")] {
        let words = ["retry", "x", "--input", &format!("amount={amount}"), "--run-id", id];
        assert_eq!(does(&world, &words).1, Some(0));
    }
    let keys: Vec<String> = server.seen().into_iter().map(|(_, key, _)| key).collect();
    assert!(keys[0] != keys[1] && keys[0] == keys[2], "{keys:?}");
    let status = world.tells(&["status", "xa", "--json"]);
    assert_eq!(status["made-from"], json!({ "run": "x", "by": "retry" }), "{status}");
    assert!(world.says(&["status", "xa"]).contains("made from  x, by retry"));
    // A run that has taken something over is not forked with changed inputs: nobody could compare.
    let refused = world.refuses(&["fork", "xa", "--at", "1", "--input", "amount=3", ALLOW[0], ALLOW[1]]);
    assert!(refused.contains("with its own workflow and inputs only"), "{refused}");
}

/// What a retry cannot take over it does again, or says.
#[test]
fn a_store_that_begins_empty_and_signals_that_nobody_took_are_no_secret() {
    let text = "inputs: { n: { type: integer, default: 1 } }
steps:
  - { id: put, call: kv, with: { op: set, key: k, value: 7 }, allow: { kv: [ \"*\" ] } }
  - { id: fails, needs: put, set: \"${ if .inputs.n == 1 then error else 1 end }\" }
  - { id: get, needs: fails, call: kv, with: { op: get, key: k }, allow: { kv: [ \"*\" ] } }
  - { id: asks, needs: fails, wait: { signal: go, timeout: 1s } }
outputs: { got: \"${ .steps.get.output }\" }
";
    let world = World::new(text);
    let run = world.spawn(&["run", &world.file, "--run-id", "it", "--json"]);
    assert_eq!(run.told().1, Some(1));
    let dry = world.says(&["retry", "it", "--input", "n=2", "--dry-run"]);
    assert!(dry.contains("it may have written to kv, which starts empty"), "{dry}");
    // A default that was corrected is the new one.
    std::fs::write(&world.file, text.replace("default: 1", "default: 2").replace(", timeout: 1s", ", timeout: 1ms"))
        .unwrap();
    let told = world.tells(&["retry", "it", "--workflow", &world.file, "--dry-run", "--json"]);
    assert_eq!(told["steps"][1]["why"], json!({ "kind": "inputs", "inputs": ["n"] }), "{told}");
    let again = world.spawn(&["retry", "it", "--workflow", &world.file, "--run-id", "again", "--json"]);
    again.told();
    let history = world.says(&["history", "again"]);
    assert!(history.contains('7'), "what was put is there: {history}");
}
