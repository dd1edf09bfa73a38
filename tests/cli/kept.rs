//! What is kept for runs, damaged.

use super::support::{World, files};
use super::transcript;
use serde_json::json;
use std::path::{Path, PathBuf};

const WORK: &str = "
components: { hello: ./own.wasm }
steps:
  - { id: greet, uses: hello, with: { name: world } }
  - { id: asks, wait: { signal: answer }, needs: greet }
outputs: { greeting: \"${ .steps.greet.output.greeting }\" }
";

/// A run that waits, and that nobody runs. Gives its component's file, and the one that was kept.
fn world() -> (World, PathBuf, PathBuf) {
    let world = World::new(WORK);
    let own = Path::new(&world.file).with_file_name("own.wasm");
    std::fs::copy(super::root().join("guests/built/hello.wasm"), &own).unwrap();
    world.begin("r", "asks", &[]).kill();
    let kept = files(&world.data.join("components"), "wasm").remove(0);
    (world, own, kept)
}

/// Another component by one letter of what it says.
fn damage(kept: &Path) {
    let mut bytes = std::fs::read(kept).unwrap();
    let at = bytes.windows(5).position(|bytes| bytes == b"Hello").unwrap();
    bytes[at] = b'J';
    std::fs::write(kept, bytes).unwrap();
}

#[test]
fn a_damaged_component_is_named_and_never_run() {
    let (world, own, kept) = world();
    damage(&kept);
    let away = own.with_extension("away");
    std::fs::rename(&own, &away).unwrap();
    let path = kept.to_str().unwrap();
    for arguments in [&["resume", "r"][..], &["fork", "r", "--at", "1"], &["replay", "r"], &["verify", "r"]] {
        let talk = world.refuses(arguments);
        assert!(talk.contains("./own.wasm") && talk.contains(path) && talk.contains("damaged"), "{talk}");
    }
    let told = world.does(&["resume", "r", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["problem"]["kind"], "journal");
    assert!(told["problem"]["title"].as_str().unwrap().contains(path), "{told}");
    assert_eq!(world.tells(&["ls", "--json"])[0]["status"], "damaged");
    let doctor = String::from_utf8(world.does(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains(path), "{doctor}");
    // One that is gone is told by the path where it should be.
    std::fs::remove_file(&kept).unwrap();
    let talk = world.refuses(&["resume", "r"]);
    assert!(talk.contains(&format!("{path}: No such file")), "{talk}");

    // A run with the component as it was keeps it anew, for all runs that name it.
    std::fs::rename(&away, &own).unwrap();
    std::fs::write(&kept, "rubbish").unwrap();
    world.begin("other", "asks", &[]).kill();
    assert_eq!(std::fs::read(&kept).unwrap(), std::fs::read(&own).unwrap());
    world.says(&["signal", "r", "answer"]);
    assert_eq!(world.tells(&["resume", "r", "--json"])["outputs"], json!({ "greeting": "Hello, world!" }));
}

#[test]
fn a_damaged_component_is_healed_from_the_file_that_it_was_kept_of() {
    let (world, own, kept) = world();
    damage(&kept);
    world.says(&["signal", "r", "answer"]);
    assert_eq!(world.tells(&["resume", "r", "--json"])["outputs"], json!({ "greeting": "Hello, world!" }));
    assert_eq!(std::fs::read(&kept).unwrap(), std::fs::read(&own).unwrap());
}

/// SQLite's log of pages is a part of the journal only while a process uses it.
#[test]
fn who_ends_leaves_all_in_one_file() {
    let world = World::new("steps: [{ id: a, set: 1 }]");
    for id in ["one", "two"] {
        world.tells(&["run", "--json", "--run-id", id, &world.file]);
        let log = std::fs::metadata(world.data.join("journal.db-wal")).map_or(0, |file| file.len());
        assert_eq!(log, 0);
    }
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(world.data.join("journal.db"), copy.path().join("journal.db")).unwrap();
    let data = copy.path().to_str().unwrap();
    assert_eq!(world.tells(&["ls", "--json", "--data", data]).as_array().unwrap().len(), 2);
}

#[test]
fn a_journal_whose_log_is_damaged_says_what_is_lost() {
    let world = World::new("steps: [{ id: asks, wait: { signal: answer } }]");
    for id in ["one", "two", "three"] {
        world.begin(id, "asks", &[]).kill();
    }
    let log = world.data.join("journal.db-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let talk = String::from_utf8(world.does(&["ls"]).stderr).unwrap();
    assert!(talk.contains("the journal is damaged") && talk.contains("journal.db-wal.damaged-"), "{talk}");
    let kept = std::fs::read_dir(&world.data).unwrap().map(|file| file.unwrap().path());
    let kept = kept.into_iter().find(|path| path.to_string_lossy().contains(".damaged-")).unwrap();
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    let doctor = world.does(&["doctor"]);
    let told = String::from_utf8(doctor.stdout).unwrap();
    assert!(!doctor.status.success() && told.contains(kept.to_str().unwrap()), "{told}");
    std::fs::remove_file(&kept).unwrap();
    assert!(!String::from_utf8(world.does(&["doctor"]).stdout).unwrap().contains("journal was damaged"));
}

#[test]
fn a_run_that_is_over_and_damaged_is_shown_so() {
    let world = World::new("steps: [{ id: a, set: 1 }]");
    world.tells(&["run", "--json", "--run-id", "over", &world.file]);
    let store = rusqlite::Connection::open(world.data.join("journal.db")).unwrap();
    for table in ["log", "done"] {
        store.execute(&format!("UPDATE {table} SET data = zeroblob(length(data))"), []).unwrap();
    }
    drop(store);
    let status = world.tells(&["status", "--json", "over"]);
    assert_eq!(status["status"], "succeeded");
    assert!(status["damage"].is_string() && status.get("outputs").is_none(), "{status}");
    assert!(world.says(&["ls"]).contains("succeeded (damaged)"));
    assert_eq!(world.tells(&["ls", "--json", "--status", "damaged"])[0]["run"], "over");
}

const ASKS: &str = "steps: [{ id: asks, wait: { signal: answer } }]";

#[test]
fn a_journal_that_is_gone_while_its_log_is_there_is_not_begun_anew() {
    let world = World::new(ASKS);
    for id in ["one", "two"] {
        world.begin(id, "asks", &[]).kill();
    }
    let (journal, log) = (world.data.join("journal.db"), world.data.join("journal.db-wal"));
    let aside = world.data.join("aside");
    std::fs::rename(&journal, &aside).unwrap();
    let before = std::fs::read(&log).unwrap();
    for command in [&["ls"][..], &["status", "one"], &["resume", "--all"], &["run", &world.file]] {
        let talk = world.refuses(command);
        assert!(talk.contains("journal.db is gone") && talk.contains("restore the journal.db"), "{talk}");
    }
    let doctor = world.does(&["doctor"]);
    let told = String::from_utf8(doctor.stdout).unwrap();
    assert!(!doctor.status.success() && told.contains("journal.db is gone"), "{told}");
    assert_eq!(std::fs::read(&log).unwrap(), before);
    std::fs::rename(&aside, &journal).unwrap();
    assert_eq!(world.tells(&["ls", "--json"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_journal_that_is_gone_from_a_folder_that_was_used_is_missed() {
    let world = World::new("steps: [{ id: a, set: 1 }]");
    world.tells(&["run", "--json", "--durability", "journal", &world.file]);
    for name in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        let _ = std::fs::remove_file(world.data.join(name));
    }
    let said = |arguments: &[&str]| String::from_utf8(world.does(arguments).stderr).unwrap();
    assert!(said(&["ls"]).contains("journal.db is gone: the folder was in use"));
    let doctor = world.does(&["doctor"]);
    let told = String::from_utf8(doctor.stdout).unwrap();
    assert!(!doctor.status.success() && told.contains("problem: ") && told.contains("journal.db is gone"), "{told}");
    let talk = said(&["run", "--durability", "journal", &world.file]);
    assert!(talk.contains("a new journal was created"), "{talk}");
    assert!(!said(&["run", "--durability", "journal", &world.file]).contains("a new journal was created"));
}

#[test]
fn a_log_that_lost_its_end_is_missed() {
    let world = World::new(ASKS);
    for id in ["one", "two"] {
        world.begin(id, "asks", &[]).kill();
    }
    let log = std::fs::File::options().write(true).open(world.data.join("journal.db-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 1).unwrap();
    let talk = String::from_utf8(world.does(&["ls"]).stderr).unwrap();
    assert!(talk.contains("the journal is damaged") && talk.contains("journal.db-wal.damaged-"), "{talk}");
    let doctor = world.does(&["doctor"]);
    let told = String::from_utf8(doctor.stdout).unwrap();
    assert!(!doctor.status.success() && told.contains("the last writes before that are lost"), "{told}");
    assert!(told.contains("both from the same time"), "{told}");
}

#[test]
fn a_damaged_workflow_that_was_kept_for_a_run_is_found() {
    let world = World::new(ASKS);
    for id in ["good", "text", "bytes"] {
        world.begin(id, "asks", &[]).kill();
    }
    let store = rusqlite::Connection::open(world.data.join("journal.db")).unwrap();
    let is_of = |id: &str| format!("WHERE run = (SELECT run FROM run WHERE id = '{id}')");
    // One bit: another name for the signal. And a byte that no text has.
    for (id, new) in [("text", "replace(about, 'answer', 'answes')"), ("bytes", "CAST(x'ff' || about AS TEXT)")] {
        store.execute(&format!("UPDATE about SET about = {new} {}", is_of(id)), []).unwrap();
    }
    drop(store);
    let doctor = world.does(&["doctor"]);
    let told = String::from_utf8(doctor.stdout).unwrap();
    assert!(!doctor.status.success() && told.contains("2 runs are damaged: "), "{told}");
    for id in ["text", "bytes"] {
        let status = world.tells(&["status", "--json", id]);
        assert_eq!((&status["status"], &status["steps"][0]["node"]), (&"damaged".into(), &"asks".into()), "{status}");
        assert!(status["damage"].as_str().unwrap().contains("what"), "{status}");
        let talk = world.refuses(&["resume", id]);
        assert!(talk.contains("was started with") && talk.contains(&format!("wfhost rm {id} --unfinished")), "{talk}");
    }
    let damaged = world.tells(&["ls", "--json", "--status", "damaged"]);
    assert_eq!(damaged.as_array().unwrap().len(), 2, "{damaged}");
    let good = world.tells(&["status", "--json", "good"]);
    assert_eq!(good["status"], "suspended");
    // How many records a run has is told of one that was killed, too.
    assert!(good["records"].as_u64().unwrap() > 0 && good["records"] == good["counts"]["records"], "{good}");
}

/// What is small is looked at, and what is not known is not told.
#[test]
fn lists_find_a_damaged_workflow_and_tell_no_number_of_records_that_is_not_so() {
    let world = World::new(ASKS);
    for id in ["killed", "text", "bytes"] {
        world.begin(id, "asks", &[]).kill();
    }
    let going = world.begin("going", "asks", &[]);
    let store = rusqlite::Connection::open(world.data.join("journal.db")).unwrap();
    let is_of = |id: &str| format!("WHERE run = (SELECT run FROM run WHERE id = '{id}')");
    let damage = |id: &str, new: &str| {
        store.execute(&format!("UPDATE about SET about = {new} {}", is_of(id)), []).unwrap();
    };
    damage("text", "replace(about, 'answer', 'answes')");
    let damaged = world.tells(&["ls", "--json", "--status", "damaged"]);
    assert_eq!((damaged.as_array().unwrap().len(), &damaged[0]["run"]), (1, &"text".into()), "{damaged}");
    damage("bytes", "CAST(x'ff' || about AS TEXT)");
    let listed = world.does(&["ls"]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout).matches(" damaged ").count(), 2, "{}", transcript(&listed));
    for run in world.tells(&["ls", "--json"]).as_array().unwrap() {
        let is_damaged = run["status"] == "damaged";
        assert_eq!(is_damaged, ["text", "bytes"].contains(&run["run"].as_str().unwrap()), "{run}");
        assert!(run["records"].is_null(), "{run}");
    }
    world.says(&["signal", "going", "answer", "1"]);
    assert_eq!(going.told().1, Some(0));
    let over = world.tells(&["ls", "--json", "--status", "succeeded"]);
    assert_eq!(over[0]["records"], world.says(&["history", "--json", "going"]).lines().count(), "{over}");
}

#[test]
fn whoever_leaves_a_run_whose_journal_was_removed_does_not_say_that_it_is_kept() {
    let world = World::new(ASKS);
    let run = world.begin("it", "asks", &[]);
    for name in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        std::fs::remove_file(world.data.join(name)).unwrap();
    }
    run.send("-TERM");
    let (told, code) = run.told();
    assert_eq!((&told["status"], &told["problem"]["kind"]), (&"failed".into(), &"journal-failed".into()), "{told}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_process_that_may_open_no_more_files_says_so() {
    let world = World::new(ASKS);
    world.begin("it", "asks", &[]).kill();
    for files in 4..20 {
        let limited = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        let wfhost = env!("CARGO_BIN_EXE_wfhost");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &limited, wfhost, "ls", "--data"]).arg(&world.data);
        let talk = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(!talk.contains("panicked") && !talk.contains("is the disk full"), "{files}: {talk}");
    }
}
