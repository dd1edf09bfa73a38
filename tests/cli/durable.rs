//! Runs outlive the process that began them.

use super::support::{World, eventually, files};
use super::{command_in, data, scratch};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

/// Guests before and after a signal.
const ASKS: &str = "
name: asks
inputs: { n: { type: integer, default: 10 } }
components: { fib: ./guests/fib.wasm, hello: ./guests/hello.wasm }
steps:
  - { id: fib, uses: fib, with: { n: \"${ .inputs.n }\" } }
  - { id: asks, wait: { signal: answer }, needs: fib }
  - { id: hello, uses: hello, with: { name: \"${ .steps.asks.output }\" }, needs: asks }
outputs: { fib: \"${ .steps.fib.output }\", hello: \"${ .steps.hello.output.greeting }\" }
";

#[test]
fn a_run_that_was_killed_goes_on_with_the_same_outputs() {
    let world = World::new(ASKS);
    let whole = world.begin("whole", "asks", &[]);
    world.says(&["signal", "whole", "answer", "\"Ann\""]);
    let (whole, code) = whole.told();
    assert_eq!((whole["status"].as_str(), code), (Some("succeeded"), Some(0)));
    world.begin("killed", "asks", &[]).kill();
    let list = world.tells(&["ls", "--json", "--status", "suspended"]);
    assert_eq!(list[0]["run"], "killed");
    // The files may be gone by then.
    std::fs::remove_file(&world.file).unwrap();
    let resumed = world.spawn(&["resume", "--json", "kill"]);
    eventually(|| {
        world.tells(&["ps", "--json"]).as_array().unwrap().iter().find(|run| run["run"] == "killed").cloned()
    });
    world.says(&["signal", "killed", "answer", "\"Ann\""]);
    let (resumed, code) = resumed.told();
    assert_eq!((&resumed["outputs"], code), (&whole["outputs"], Some(0)));
    assert_eq!(whole["outputs"], json!({ "fib": 55, "hello": "Hello, Ann!" }));
    // It is over, and is told of as what it was.
    let status = world.tells(&["status", "--json", "killed"]);
    assert_eq!((&status["status"], &status["outputs"]), (&json!("succeeded"), &whole["outputs"]));
    assert!(world.refuses(&["resume", "killed"]).contains("has ended: succeeded"));
}

#[test]
fn all_that_nobody_runs_is_taken_up_at_once_and_nothing_else() {
    let world =
        World::new("steps: [{ id: asks, wait: { signal: go } }]\noutputs: { got: \"${ .steps.asks.output }\" }\n");
    let living = world.begin("living", "asks", &[]);
    for id in ["one", "two"] {
        world.begin(id, "asks", &[]).kill();
    }
    // A new run takes up none of them, and says that they are there.
    let (_folder, path) = scratch("steps: [{ id: a, set: 1 }]\n");
    let other = world.does(&["run", &path]);
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(said.contains("2 runs are suspended: wfhost ls --status suspended"), "{said}");
    assert_eq!(world.tells(&["ls", "--json", "--status", "suspended"]).as_array().unwrap().len(), 2);

    let all = world.spawn(&["resume", "--all", "--json"]);
    eventually(|| (world.tells(&["ps", "--json"]).as_array().unwrap().len() == 3).then_some(()));
    for (id, body) in [("one", "1"), ("two", "2"), ("living", "3")] {
        world.says(&["signal", id, "go", body]);
    }
    let (told, code) = all.told();
    let outputs: Vec<Value> =
        told.as_array().unwrap().iter().map(|run| json!([run["run"], run["outputs"]["got"]])).collect();
    assert_eq!((json!(outputs), code), (json!([["one", 1], ["two", 2]]), Some(0)));
    assert_eq!(living.told().0["outputs"]["got"], 3);
    assert_eq!(world.tells(&["resume", "--all", "--json"]), json!([]));
}

/// What somebody has paused is left so, whether a host had it then or nobody.
#[test]
fn all_that_nobody_runs_is_taken_up_but_what_is_paused() {
    let world =
        World::new("steps: [{ id: asks, wait: { signal: go } }]\noutputs: { got: \"${ .steps.asks.output }\" }\n");
    let run = world.begin("one", "asks", &[]);
    world.says(&["pause", "one"]);
    run.kill();
    for id in ["two", "free"] {
        world.begin(id, "asks", &[]).kill();
    }
    world.says(&["pause", "two"]);
    world.says(&["signal", "free", "go", "1"]);
    let all = world.does(&["resume", "--all"]);
    let said = String::from_utf8_lossy(&all.stderr).into_owned();
    assert_eq!(all.status.code(), Some(0), "{said}");
    assert!(String::from_utf8_lossy(&all.stdout).starts_with("free "), "{said}");
    for id in ["one", "two"] {
        assert!(
            said.contains(&format!(
                "the run {id} is paused, and stays paused\nhint: to resume it: wfhost resume {id}\n"
            )),
            "{said}"
        );
    }
    let all = world.tells(&["resume", "--all", "--json"]);
    let left: Vec<Value> = all.as_array().unwrap().iter().map(|run| json!([run["run"], run["status"]])).collect();
    assert_eq!(json!(left), json!([["one", "suspended"], ["two", "suspended"]]));
    for id in ["one", "two"] {
        world.says(&["signal", id, "go", "2"]);
        assert_eq!(world.tells(&["resume", "--json", id])["outputs"], json!({ "got": 2 }));
    }
}

#[test]
fn a_start_that_is_given_again_is_about_the_same_run() {
    let world = World::new(ASKS);
    let first = world.begin("it", "asks", &[]);
    // While it goes on it is followed; what is not the same is told.
    let followed = world.spawn(&["run", "--json", "--run-id", "it", &world.file, "-i", "n=10"]);
    let other = world.refuses(&["run", "--run-id", "it", &world.file, "-i", "n=11"]);
    assert!(other.contains("a run it already exists, with other inputs"), "{other}");
    let (_folder, path) = scratch("steps: [{ id: a, set: 1 }]\n");
    let other = world.refuses(&["run", "--run-id", "it", &path]);
    assert!(other.contains("with another version of the workflow") && other.contains("another --run-id"), "{other}");

    // Ctrl-C ends one that follows and shows what it sees, and not the run.
    let mut leaves = command_in(&world.data, &["run", "--run-id", "it", &world.file, "-i", "n=10"]);
    let mut leaves = leaves.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(leaves.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("the run it is running in process")), "it follows");
    assert!(std::process::Command::new("kill").args(["-INT", &leaves.id().to_string()]).status().unwrap().success());
    assert_eq!(eventually(|| leaves.try_wait().unwrap()).code(), Some(3));
    assert!(lines.any(|line| line.contains("to end it: wfhost cancel it")));
    first.kill();
    // The one that followed it says so, and leaves it.
    let (told, code) = followed.told();
    assert_eq!((told["status"].as_str(), code), (Some("suspended"), Some(3)));
    // Given again it is taken up.
    let second = world.spawn(&["run", "--json", "--run-id", "it", &world.file]);
    eventually(|| world.tells(&["ps", "--json"])[0]["run"].as_str().map(str::to_owned));
    let third = world.spawn(&["run", "--json", "--run-id", "it", &world.file]);
    world.says(&["signal", "it", "answer", "\"Bob\""]);
    let (second, third) = (second.told(), third.told());
    assert_eq!(second.0["outputs"]["hello"], "Hello, Bob!");
    assert_eq!((&second.0["outputs"], second.1), (&third.0["outputs"], third.1));
    // And when it is over its end is told again.
    let again = world.tells(&["run", "--json", "--run-id", "it", &world.file]);
    assert_eq!(again["outputs"], second.0["outputs"]);
    assert_eq!(world.tells(&["ls", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_termination_leaves_the_run_for_others() {
    let world = World::new(ASKS);
    let run = world.begin("it", "asks", &[]);
    run.send("-TERM");
    let (told, code) = run.told();
    assert_eq!(
        (told["status"].as_str(), told["problem"]["kind"].as_str(), code),
        (Some("suspended"), Some("suspended"), Some(3))
    );
    assert_eq!(told["problem"]["hint"], "to resume it: wfhost resume it");
    assert!(files(&world.data.join("sockets"), "sock").is_empty());

    // For people it is a sentence.
    let resumed = world.spawn(&["resume", "it"]);
    eventually(|| world.tells(&["ps", "--json"])[0]["run"].as_str().map(str::to_owned));
    // `timeout` and others send it to a process, and then to its group.
    resumed.send("-TERM");
    resumed.send("-TERM");
    let output = resumed.output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("suspended: the run it can be resumed\nhint: to resume it: wfhost resume it\n"), "{said}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0));
}

#[test]
fn what_is_not_to_be_durable_leaves_nothing() {
    let world = World::new("durability: none\nsteps: [{ id: a, set: 1 }]\n");
    for arguments in [&["run", &world.file][..], &["run", "--durability", "none", "workflows/hello.yaml"]] {
        assert!(world.does(arguments).status.success());
        assert!(!world.data.exists());
    }
    assert!(world.does(&["run", "--durability", "journal", &world.file]).status.success());
    assert_eq!(world.tells(&["ls", "--json"]).as_array().unwrap().len(), 1);
    let refused = world.refuses(&["run", "--run-id", "x", &world.file]);
    assert!(refused.contains("not durable") && refused.contains("--durability journal"), "{refused}");
}

/// A folder that cannot be written to is told, with the way out, and nothing runs.
#[test]
fn a_folder_that_cannot_be_used_is_told_before_anything_runs() {
    let (folder, path) = scratch("steps: [{ id: a, set: 1 }]\n");
    let file = folder.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let output = command_in(&file, &["run", &path]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("a-file") && said.contains("--data DIR") && said.contains("--durability none"), "{said}");
}

/// What is no journal is not taken for a full disk.
#[test]
fn a_file_that_is_no_journal_is_told_as_that() {
    let world = World::new("steps: [{ id: a, set: 1 }]\n");
    std::fs::create_dir_all(&world.data).unwrap();
    std::fs::write(world.data.join("journal.db"), vec![7; 5_000]).unwrap();
    for arguments in [&["ls"][..], &["run", &world.file], &["resume", "--all"]] {
        let refused = world.refuses(arguments);
        assert!(
            refused.contains("journal.db") && refused.contains("the file is damaged, or is not a journal"),
            "{refused}"
        );
        assert!(!refused.contains("full"), "{refused}");
    }
}

/// A store of a release that is not known is left alone.
#[test]
fn a_store_of_a_newer_release_is_refused() {
    let data = data();
    let run = |arguments: &[&str]| command_in(&data, arguments).output().unwrap();
    assert!(run(&["run", "workflows/hello.yaml"]).status.success());
    let store = data.join("journal.db");
    let db = rusqlite::Connection::open(&store).unwrap();
    db.pragma_update(None, "user_version", 4_711).unwrap();
    drop(db);
    for arguments in [&["run", "workflows/hello.yaml"][..], &["ls"], &["status", "x"], &["resume", "--all"]] {
        let output = run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("format 4711") && said.contains("hint: "), "{said}");
    }
}
