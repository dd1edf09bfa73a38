//! What is kept for runs, damaged.

use super::support::{World, files};
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
