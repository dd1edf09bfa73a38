//! Runs that nobody runs: what is told of them, and of what is left for them.

use super::support::{World, eventually};
use super::transcript;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Output, Stdio};

const ASKS: &str = "
steps:
  - { id: asks, wait: { signal: answer } }
  - { id: later, wait: { signal: other }, needs: asks }
outputs: { got: \"${ .steps.asks.output }\" }
";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_left_for_a_run_is_shown() {
    let world = World::new(ASKS);
    world.begin("it", "asks", &[]).kill();
    let status = world.tells(&["status", "--json", "it"]);
    assert_eq!((&status["left"], &status["uncertain"]), (&json!([]), &json!([])));
    assert_eq!(status["signals"], json!([{ "name": "answer", "waiting": 1, "kept": 0 }]));
    world.says(&["signal", "it", "answer", "{\"by\": \"Ann\"}", "--id", "s-1"]);
    world.says(&["pause", "it", "--id", "p-1"]);
    let status = world.tells(&["status", "--json", "it"]);
    assert_eq!(
        status["left"],
        json!([{ "act": "signal", "id": "s-1", "name": "answer", "bytes": 12 }, { "act": "pause", "id": "p-1" }])
    );
    let text = world.says(&["status", "it"]);
    assert!(text.contains(" 1 process, "), "{text}");
    let table = "
WAITS TO BE DELIVERED  WITH
signal                 answer {\"by\":\"Ann\"}
pause
";
    assert!(text.contains(table), "{text}");
    // When it is taken up it is done, and left no more.
    world.says(&["cancel", "it", "--now", "--reason", "no more", "--id", "c-1"]);
    let status = world.tells(&["status", "--json", "it"]);
    assert_eq!((&status["status"], &status["left"]), (&json!("cancelled"), &json!(null)));
    let history = world.says(&["history", "it"]);
    assert!(history.contains("signal answer: {\"by\":\"Ann\"}"), "{history}");
}

/// Neither its guests, which are gone here, nor what the operator permitted is needed for it.
#[test]
fn a_run_that_nobody_runs_is_cancelled_at_once() {
    let world = World::new(
        "
steps:
  - { id: price, uses: ./guests/fib.wasm, with: { n: 10 } }
  - { id: asks, needs: price, wait: { signal: answer } }
  - { id: later, needs: asks, set: 1 }
",
    );
    for (id, flags) in [("it", &[][..]), ("now", &["--now"])] {
        world.begin(id, "asks", &[]).kill();
        for kept in super::support::files(&world.data.join("components"), "wasm") {
            std::fs::remove_file(kept).unwrap();
        }
        let output = world.does(&[&["cancel", id, "--reason", "no more"], flags].concat());
        assert_eq!(said(&output), format!("{id} is cancelled: it was not running, and no step of it was executed\n"));
        assert_eq!(output.status.code(), Some(0));
        let status = world.tells(&["status", "--json", id]);
        assert_eq!((&status["status"], &status["problem"]["detail"]), (&json!("cancelled"), &json!("no more")));
        let steps: Vec<_> = status["steps"].as_array().unwrap().iter().map(|step| &step["status"]).collect();
        assert_eq!(steps, ["succeeded", "cancelled", "cancelled"]);
        assert!(world.says(&["ls", "--status", "cancelled"]).contains(id));
        assert!(world.refuses(&["cancel", id]).contains("has ended: cancelled"));
    }
    // It can be run again as any other that was cancelled.
    assert_eq!(world.tells(&["ls", "--json", "--status", "suspended"]), json!([]));
}

/// A run that was killed while its one call was in flight, with what keeps that call open.
fn killed_in_a_call() -> (World, (TcpListener, TcpStream)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = World::new(&format!(
        "steps:
  - id: pay
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/pay\" }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
outputs: {{ pay: \"${{ .steps.pay.output }}\" }}
"
    ));
    let run = world.begin("it", "pay", &ALLOW);
    let (connection, _) = listener.accept().unwrap();
    run.kill();
    (world, (listener, connection))
}

const ALLOW: [&str; 2] = ["--allow-address", "127.0.0.1"];

#[test]
fn a_call_whose_outcome_is_unknown_is_told_when_its_run_is_cancelled_by_nobody_who_ran_it() {
    let (world, _call) = killed_in_a_call();
    let output = world.does(&["cancel", "it"]);
    let warning = "warning: 1 call may have happened: the run ended before its outcome was known";
    assert!(said(&output).contains(warning), "{}", transcript(&output));
    assert_eq!(world.tells(&["status", "--json", "it"])["uncertain"][0]["handler"], "http");
}

/// A call that was in flight when its host died is known to be uncertain before anybody takes the
/// run up, and can be resolved then.
#[test]
fn a_call_that_may_have_happened_is_shown_and_resolved_before_its_run_goes_on() {
    let (world, _call) = killed_in_a_call();
    let uncertain = world.tells(&["status", "--json", "it"])["uncertain"].clone();
    assert_eq!((uncertain.as_array().unwrap().len(), &uncertain[0]["handler"]), (1, &json!("http")), "{uncertain}");
    let call = format!("{}/{}", uncertain[0]["pid"], uncertain[0]["tag"]);
    let shown = world.does(&["status", "it"]);
    assert!(said(&shown).contains(&format!("wfhost resolve it {call} ")), "{}", transcript(&shown));
    // It is what whoever takes the run up finds.
    let resumed = world.spawn(&[&["resume", "--json", "it"], &ALLOW[..]].concat());
    let living = eventually(|| {
        let status: Value = serde_json::from_slice(&world.does(&["status", "--json", "it"]).stdout).ok()?;
        (status["status"] == "running").then(|| status["uncertain"].clone())
    });
    assert_eq!(living, uncertain);
    resumed.kill();

    world.says(&["resolve", "it", &call, "--completed", "5", "--id", "r-1"]);
    let left = world.tells(&["status", "--json", "it"])["left"].clone();
    assert_eq!(left[0]["outcome"], "completed", "{left}");
    let shown = world.does(&["status", "it"]);
    assert!(!said(&shown).contains("wfhost resolve"), "{}", transcript(&shown));
    let resumed = world.tells(&[&["resume", "--json", "it"], &ALLOW[..]].concat());
    assert_eq!(resumed["outputs"], json!({ "pay": 5 }));
}

#[test]
fn a_log_that_is_followed_tells_whether_the_run_is_over() {
    let world = World::new(ASKS);
    let follow = |id: &str| {
        let mut command = super::command_in(&world.data, &["logs", "-f", id]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("asks"), "it follows from here on");
        (child, lines)
    };
    let ends = |(child, lines): (std::process::Child, std::io::Lines<BufReader<std::process::ChildStdout>>)| {
        // Who writes into a closed pipe says nothing more.
        lines.for_each(drop);
        let output = child.wait_with_output().unwrap();
        (said(&output), output.status.code())
    };
    let unfinished = |why: &str, id: &str| (format!("{why}; the run is unfinished: wfhost resume {id}\n"), Some(3));

    let run = world.begin("died", "asks", &[]);
    let followed = follow("died");
    run.kill();
    assert_eq!(ends(followed), unfinished("the host died", "died"));
    let run = world.begin("left", "asks", &[]);
    let followed = follow("left");
    run.send("-TERM");
    assert_eq!(ends(followed), unfinished("the host released it", "left"));
    let nobody = world.does(&["logs", "-f", "left"]);
    assert_eq!((said(&nobody), nobody.status.code()), unfinished("it is not running", "left"));

    let run = world.begin("over", "asks", &[]);
    let followed = follow("over");
    world.says(&["cancel", "over"]);
    assert_eq!(ends(followed), ("the run cancelled\n".to_owned(), Some(0)));
    assert_eq!(run.told().1, Some(3));
    let over = world.does(&["logs", "-f", "over"]);
    assert_eq!((said(&over), over.status.code()), ("the run cancelled\n".to_owned(), Some(0)));
    assert_eq!(said(&world.does(&["logs", "over"])), "");
}

#[test]
fn a_signal_that_nothing_waits_for_is_kept_and_told() {
    let world = World::new(ASKS);
    let run = world.begin("it", "asks", &[]);
    let warning = "warning: nothing waits for anser now; the run waits for: answer\n";
    let sent = |name: &str| {
        let output = world.does(&["signal", "it", name, "1"]);
        assert!(output.status.success(), "{}", transcript(&output));
        said(&output)
    };
    assert!(sent("anser").contains(warning));
    // A step that comes later takes it.
    assert!(!sent("other").contains("warning"));
    run.kill();
    assert!(sent("anser").contains(warning));
    assert!(!sent("answer").contains("warning"));
    let outputs = world.tells(&["resume", "--json", "it"])["outputs"].clone();
    assert_eq!(outputs, json!({ "got": 1 }));

    // Which names these are only the run knows.
    let computed = World::new("steps: [{ id: asks, for-each: [a], wait: { signal: \"for-${ .item }\" } }]\n");
    let run = computed.begin("it", "asks", &[]);
    let output = computed.does(&["signal", "it", "for-b"]);
    assert!(!said(&output).contains("warning"), "{}", transcript(&output));
    run.kill();
}

/// It is left alone, is told as what it is, and others go on.
#[test]
fn a_run_whose_records_are_damaged_is_passed_by() {
    let world = World::new(ASKS);
    for id in ["bad", "good"] {
        world.begin(id, "asks", &[]).kill();
        world.says(&["signal", id, "answer", "1"]);
    }
    let db = rusqlite::Connection::open(world.data.join("journal.db")).unwrap();
    let last = "SELECT max(id) FROM log WHERE run = (SELECT run FROM run WHERE id = 'bad')";
    let (row, mut bytes): (i64, Vec<u8>) = db
        .query_row(&format!("SELECT id, data FROM log WHERE id = ({last})"), [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    db.execute("UPDATE log SET data = ?2 WHERE id = ?1", (row, bytes)).unwrap();
    drop(db);
    let all = world.spawn(&["resume", "--all"]);
    world.says(&["signal", "good", "other"]);
    let all = all.output();
    assert_eq!(all.status.code(), Some(1), "{}", transcript(&all));
    assert!(String::from_utf8_lossy(&all.stdout).starts_with("good "), "{}", transcript(&all));
    assert!(said(&all).contains("bad is not resumed") && said(&all).contains("checksum"), "{}", transcript(&all));
    let statuses: Vec<Value> = world
        .tells(&["ls", "--json"])
        .as_array()
        .unwrap()
        .iter()
        .map(|run| json!([run["run"], run["status"]]))
        .collect();
    assert_eq!(json!(statuses), json!([["good", "succeeded"], ["bad", "damaged"]]));
    let listed = |status: &str| world.tells(&["ls", "--json", "--status", status]);
    assert_eq!(listed("suspended"), json!([]));
    assert!(listed("damaged")[0]["damage"].as_str().unwrap().contains("checksum"));
    let status = world.tells(&["status", "--json", "bad"]);
    assert_eq!((&status["status"], &status["left"][0]["act"]), (&json!("damaged"), &json!("signal")));
    let shown = world.does(&["status", "bad"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("\nstatus     damaged\n"), "{}", transcript(&shown));
    assert!(said(&shown).contains("hint: it cannot be resumed; "), "{}", transcript(&shown));
    assert!(world.refuses(&["resume", "bad"]).contains("wfhost rm bad --unfinished"));
    assert!(said(&shown).contains("wfhost rm bad --unfinished"), "{}", transcript(&shown));
    let refused = world.refuses(&["rm", "bad"]);
    assert!(refused.contains("it cannot be resumed") && refused.contains("--unfinished"), "{refused}");
    assert_eq!(world.tells(&["rm", "--json", "--unfinished", "bad"]), json!({ "removed": 1 }));
    assert_eq!(world.tells(&["ls", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_signal_that_is_too_large_is_told_as_that() {
    let world = World::new(ASKS);
    world.begin("it", "asks", &[]).kill();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("\"{}\"", "x".repeat(17 << 20))).unwrap();
    let refused = world.refuses(&["signal", "it", "answer", &format!("@{}", file.path().display())]);
    assert!(refused.contains("too large: 178") && refused.contains("16 MiB"), "{refused}");
}

#[test]
fn what_is_paused_while_nobody_runs_it_is_not_told_to_be_resumed() {
    let world = World::new(ASKS);
    world.begin("it", "asks", &[]).kill();
    let paused = world.does(&["pause", "it"]);
    assert!(said(&paused).contains("`wfhost resume --all` skips it; `wfhost resume it` resumes it"));
}

/// `doctor` reads what others would only stumble upon.
#[test]
fn a_damaged_journal_is_found_by_doctor() {
    let world = World::new("steps: [{ id: a, set: 1 }]\n");
    for id in ["good", "bad"] {
        world.says(&["run", "--run-id", id, &world.file]);
    }
    let problems = || -> Vec<String> {
        let told: Value = serde_json::from_slice(&world.does(&["doctor", "--json"]).stdout).unwrap();
        let all = told["problems"].as_array().unwrap().iter().map(ToString::to_string);
        all.filter(|problem| problem.contains("damaged")).collect()
    };
    assert_eq!(problems(), [""; 0]);
    let journal = world.data.join("journal.db");
    let db = rusqlite::Connection::open(&journal).unwrap();
    let changed = db
        .execute("UPDATE log SET data = x'00' WHERE run = (SELECT run FROM run WHERE id = 'bad')", [])
        .and_then(|rows| {
            let done = "UPDATE done SET data = x'00' WHERE part >> 20 = (SELECT run FROM run WHERE id = 'bad')";
            Ok(rows + db.execute(done, [])?)
        });
    assert!(changed.unwrap() > 0);
    let found = problems();
    assert!(found.len() == 1 && found[0].contains("1 run is damaged: bad"), "{found:?}");
    assert!(found[0].contains("wfhost rm bad --unfinished"), "{found:?}");

    // A page of a table that none of this reads.
    let (page, size): (u64, u64) = (
        db.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'inbox'", [], |row| row.get::<_, i64>(0)).unwrap()
            as u64,
        db.query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0)).unwrap() as u64,
    );
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(db);
    let file = std::fs::File::options().write(true).open(&journal).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xff; size as usize], (page - 1) * size).unwrap();
    let output = world.does(&["doctor"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("journal.db is damaged: ") && told.contains("restore copies"), "{told}");
    assert_eq!(output.status.code(), Some(1));
}

/// Whoever looks at a run finds the damage, and lists know of it from then on.
#[test]
fn damage_that_is_seen_is_noted() {
    let world = World::new(ASKS);
    world.begin("bad", "asks", &[]).kill();
    let db = rusqlite::Connection::open(world.data.join("journal.db")).unwrap();
    db.execute("UPDATE log SET data = x'00'", []).unwrap();
    assert_eq!(world.tells(&["ls", "--json"])[0]["status"], "suspended");
    assert_eq!(world.tells(&["status", "--json", "bad"])["status"], "damaged");
    assert_eq!(world.tells(&["ls", "--json"])[0]["status"], "damaged");
}

/// What an operator has permitted is asked for again, before anything of the run goes on.
#[test]
fn a_run_that_sends_secrets_without_tls_is_resumed_by_whoever_permits_it() {
    let world = World::new(
        "
secrets: { KEY: { from: env, hosts: [ \"127.0.0.1:9\" ] } }
steps:
  - { id: asks, wait: { signal: answer } }
  - id: pay
    needs: asks
    call: http
    with: { url: \"http://127.0.0.1:9/\", headers: { x-key: \"${ .secrets.KEY }\" } }
    allow: { http: GET http://127.0.0.1:9 }
    secrets: [ KEY ]
",
    );
    let permits = ["--allow-address", "127.0.0.1", "--plain-secrets", "--secret", "KEY=env:PATH"];
    world.begin("it", "asks", &permits).kill();
    let status = said(&world.does(&["status", "it"]));
    assert!(status.contains("wfhost resume it --allow-address 127.0.0.1 --plain-secrets"), "{status}");
    let refused = world.refuses(&["resume", "it", "--allow-address", "127.0.0.1", "--secret", "KEY=env:PATH"]);
    assert!(refused.contains("was started with --plain-secrets, and would fail without it"), "{refused}");
    assert!(refused.contains("to permit it again: wfhost resume it --allow-address 127.0.0.1"), "{refused}");
    assert_eq!(world.tells(&["status", "--json", "it"])["status"], "suspended");
}
