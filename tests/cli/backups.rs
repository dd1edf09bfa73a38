//! Copies of a data folder that is in use, and folders restored from them.

use super::support::{World, eventually, files};
use super::transcript;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A run that has done something and waits.
const WAITS: &str = "
components: { hello: ./guests/hello.wasm }
inputs: { name: string }
steps:
  - { id: greet, uses: hello, with: { name: \"${ .inputs.name }\" } }
  - { id: asks, wait: { signal: answer }, needs: greet }
outputs: { greeting: \"${ .steps.greet.output.greeting }\" }
";

/// A run that writes records for as long as a test takes.
const BUSY: &str = "
steps:
  - id: all
    for-each: ${ [range(3000)] }
    max-parallel: 1
    wait: 3ms
";

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder that does not exist yet.
fn fresh(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

#[test]
fn a_copy_made_under_load_has_whole_runs_that_all_resume() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(WAITS);
    let busy = World::new(BUSY);
    for id in ["a", "b", "c"] {
        world.begin(id, "asks", &["--input", &format!("name={id}")]).kill();
    }
    let data = text(&world.data);
    // Three processes write while the copies are made, and one of their runs waits.
    let writing = ["w1", "w2"].map(|id| busy.spawn(&["run", "--json", "--run-id", id, "--data", data, &busy.file]));
    let waiting = world.begin("live", "asks", &["--input", "name=live"]);
    let records = |id: &str| {
        let told: Value = serde_json::from_slice(&world.does(&["status", "--json", id]).stdout).unwrap_or_default();
        told["counts"]["records"].as_u64().unwrap_or_default()
    };
    let wrote = |than: u64| eventually(|| Some(records("w1")).filter(|count| *count > than));
    eventually(|| (records("w2") > 0).then_some(()));
    let mut before = wrote(10);
    for number in 0..4 {
        let copy = fresh(&folder, &format!("copy{number}"));
        let told = world.tells(&["backup", text(&copy), "--json"]);
        assert_eq!(told["unfinished"], json!(6), "{told}");
        assert_eq!(told, serde_json::from_slice::<Value>(&std::fs::read(copy.join("backup.json")).unwrap()).unwrap());
        assert!(records("w2") > 0);
        before = wrote(before);
    }
    let copy = fresh(&folder, "copy3");
    assert_eq!(mode(&copy), 0o700);
    for file in ["journal.db", "backup.json"] {
        assert_eq!(mode(&copy.join(file)), 0o600, "{file}");
    }
    assert_eq!(files(&copy.join("components"), "wasm").iter().map(|path| mode(path)).collect::<Vec<_>>(), [0o600]);
    // The original went on meanwhile, and is as it was.
    for process in writing {
        process.kill();
    }
    waiting.kill();
    std::fs::rename(&world.data, world.data.with_extension("away")).unwrap();

    let told = world.tells(&["restore", text(&copy), "--json"]);
    assert_eq!(told["runs"], json!(6));
    assert_eq!(mode(&world.data.join("journal.db")), 0o600);
    for id in ["a", "b", "c", "live"] {
        assert_eq!(world.tells(&["status", "--json", id])["status"], "suspended");
        world.says(&["verify", id]);
        world.says(&["signal", id, "answer"]);
        let ended = world.tells(&["resume", id, "--json"]);
        assert_eq!(ended["outputs"], json!({ "greeting": format!("Hello, {id}!") }));
    }
    for id in ["w1", "w2"] {
        world.says(&["replay", id]);
        let had = records(id);
        let resumed = world.spawn(&["resume", id, "--json"]);
        eventually(|| (records(id) > had).then_some(()));
        resumed.kill();
    }
    assert!(world.does(&["doctor"]).status.code().is_some());
}

#[test]
fn a_backup_that_is_killed_is_none_and_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(WAITS);
    world.begin("r", "asks", &["--input", "name=Ann"]).kill();
    // Enough for a copy to take a while.
    let store = rusqlite::Connection::open(world.data.join("journal.db")).unwrap();
    store.execute("INSERT INTO blob (hash, data) VALUES (x'00', zeroblob(150000000))", []).unwrap();
    drop(store);
    let copy = fresh(&folder, "copy");
    let going = world.spawn(&["backup", text(&copy)]);
    eventually(|| std::fs::metadata(copy.join("journal.db")).is_ok_and(|file| file.len() > 0).then_some(()));
    going.kill();
    let target = fresh(&folder, "target");
    let talk = world.refuses(&["restore", text(&copy), "--data", text(&target)]);
    assert!(talk.contains("was interrupted, and is not complete"), "{talk}");
    let talk = world.refuses(&["backup", text(&copy)]);
    assert!(talk.contains("is not empty"), "{talk}");
    assert_eq!(mode(&copy), 0o700);
    // Nothing is left of it in the data folder.
    world.says(&["signal", "r", "answer"]);
    let other = fresh(&folder, "other");
    world.says(&["backup", text(&other)]);
    assert_eq!(world.tells(&["resume", "r", "--json"])["outputs"], json!({ "greeting": "Hello, Ann!" }));
    // The copy has the run as it was, with its mail.
    world.says(&["restore", text(&other), "--data", text(&target), "--beside-original"]);
    let ended = world.tells(&["resume", "r", "--json", "--data", text(&target)]);
    assert_eq!(ended["outputs"], json!({ "greeting": "Hello, Ann!" }));
}

#[test]
fn a_restored_folder_is_never_in_place_of_another_nor_beside_the_original_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(WAITS);
    let talk = world.refuses(&["backup", text(&fresh(&folder, "none"))]);
    assert!(talk.contains("there is nothing to copy"), "{talk}");
    world.begin("r", "asks", &["--input", "name=Ann"]).kill();
    let (copy, target) = (fresh(&folder, "copy"), fresh(&folder, "target"));
    world.says(&["backup", text(&copy), "--snapshots"]);
    let talk = world.refuses(&["restore", text(&copy)]);
    assert!(talk.contains("would overwrite its runs"), "{talk}");
    let talk = world.refuses(&["restore", text(&copy), "--data", text(&target)]);
    assert!(talk.contains("which still has its journal") && talk.contains("--beside-original"), "{talk}");
    assert!(!target.exists());
    // A log that is left over would be read as that of the restored file.
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("journal.db-wal"), "left").unwrap();
    let talk = world.refuses(&["restore", text(&copy), "--data", text(&target), "--beside-original"]);
    assert!(talk.contains("journal.db-wal exists"), "{talk}");
    std::fs::remove_file(target.join("journal.db-wal")).unwrap();
    let output = world.does(&["restore", text(&copy), "--data", text(&target), "--beside-original"]);
    assert!(output.status.success(), "{}", transcript(&output));
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.contains("1 run has not ended") && talk.contains("under the same keys"), "{talk}");
    assert!(target.join("restored.json").exists());
    let talk = world.refuses(&["restore", text(&target), "--data", text(&fresh(&folder, "third"))]);
    assert!(talk.contains("is not a backup"), "{talk}");
}

#[test]
fn a_copy_that_is_damaged_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(WAITS);
    world.begin("r", "asks", &["--input", "name=Ann"]).kill();
    let copy = fresh(&folder, "copy");
    world.says(&["backup", text(&copy)]);
    std::fs::rename(&world.data, world.data.with_extension("away")).unwrap();
    let component = files(&copy.join("components"), "wasm").remove(0);
    for path in [copy.join("journal.db"), component] {
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        for damaged in [&bytes[..], &whole[..whole.len() - 1], b""] {
            std::fs::write(&path, damaged).unwrap();
            let talk = world.refuses(&["restore", text(&copy)]);
            assert!(talk.contains("is damaged") && talk.contains(text(&path)), "{talk}");
            assert!(!world.data.join("journal.db").exists());
        }
        std::fs::write(&path, whole).unwrap();
    }
    let manifest = copy.join("backup.json");
    let whole = std::fs::read_to_string(&manifest).unwrap();
    for (from, to, why) in [
        ("\"wfhost-backup\": 1", "\"wfhost-backup\": 2", "this release reads 1"),
        ("\"components\": {", "\"components\": { \"../../x\": 1,", "is not the digest of a component"),
        ("{", "[", "backup.json"),
    ] {
        std::fs::write(&manifest, whole.replacen(from, to, 1)).unwrap();
        let talk = world.refuses(&["restore", text(&copy)]);
        assert!(talk.contains(why), "{talk}");
    }
    std::fs::write(&manifest, whole).unwrap();
    world.says(&["restore", text(&copy)]);
    assert_eq!(world.tells(&["ls", "--json"])[0]["status"], "suspended");
}

#[test]
fn a_component_that_the_folder_lacks_is_reported_and_the_rest_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(WAITS);
    world.begin("r", "asks", &["--input", "name=Ann"]).kill();
    let kept = files(&world.data.join("components"), "wasm").remove(0);
    let bytes = std::fs::read(&kept).unwrap();
    std::fs::write(&kept, "rubbish").unwrap();
    let copy = fresh(&folder, "copy");
    let output = world.does(&["backup", text(&copy)]);
    assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
    assert!(String::from_utf8(output.stderr).unwrap().contains("is not in the copy"));
    std::fs::rename(&world.data, world.data.with_extension("away")).unwrap();
    world.says(&["restore", text(&copy)]);
    std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
    std::fs::write(&kept, bytes).unwrap();
    world.says(&["signal", "r", "answer"]);
    assert_eq!(world.tells(&["resume", "r", "--json"])["outputs"], json!({ "greeting": "Hello, Ann!" }));
}
