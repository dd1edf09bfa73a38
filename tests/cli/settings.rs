//! What an operator sets once: in the environment and in a configuration file.

use super::{command, transcript};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A folder and the configuration file in it, which nobody else can write.
fn config(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    (folder, path)
}

fn doctor(variables: &[(&str, &str)], arguments: &[&str]) -> Value {
    let mut command = command(&[&["doctor", "--json"], arguments].concat());
    command.envs(variables.iter().copied());
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

#[test]
fn a_flag_comes_before_the_environment_and_that_before_the_file() {
    let (folder, path) = config("slots: 3\nworkers: 2\nallow-address: [localhost, 10.0.0.0/8]\ndata: runs\n");
    let told = doctor(
        &[("WFHOST_CONFIG", path.to_str().unwrap()), ("WFHOST_SLOTS", "4"), ("WFHOST_DATA", "")],
        &["--workers", "1"],
    );
    let settings = &told["settings"];
    assert_eq!(settings["file"], path.to_str().unwrap());
    assert_eq!(settings["workers"], json!({ "value": 1, "from": "flag" }));
    assert_eq!(settings["slots"], json!({ "value": 4, "from": "WFHOST_SLOTS" }));
    assert_eq!(
        settings["allow-address"],
        json!({ "value": ["localhost", "10.0.0.0/8"], "from": "configuration file" })
    );
    assert_eq!(settings["profile"], json!({ "value": "fast", "from": "default" }));
    let runs = folder.path().join("runs");
    assert_eq!(settings["data"], json!({ "value": runs, "from": "configuration file" }));
    assert_eq!((&told["pool"]["slots-asked"], &told["data"]["folder"]), (&json!(4), &json!(runs)));
    // A setting is taken whole from where it is found first.
    let told = doctor(
        &[("WFHOST_ALLOW_ADDRESS", "::1 db.internal"), ("WFHOST_CONFIG", path.to_str().unwrap())],
        &["--config", ""],
    );
    assert_eq!(
        told["settings"]["allow-address"],
        json!({ "value": ["::1", "db.internal"], "from": "WFHOST_ALLOW_ADDRESS" })
    );
    assert_eq!(told["settings"]["file"], "none");
}

#[test]
fn the_file_of_a_user_is_found_where_the_platform_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("wfhost");
    std::fs::create_dir(&place).unwrap();
    let path = place.join("config.yaml");
    let look = || {
        let mut command = command(&["doctor", "--json"]);
        command.env_remove("WFHOST_CONFIG").env("XDG_CONFIG_HOME", folder.path());
        let told: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        told["settings"].clone()
    };
    assert!(look()["file"].as_str().unwrap().starts_with("none ("));
    std::fs::write(&path, "slots: 5").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let settings = look();
    assert_eq!((&settings["file"], &settings["slots"]["value"]), (&json!(path), &json!(5)));
}

fn says(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", transcript(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_problem_of_a_configuration_file_has_its_place() {
    let (_folder, path) =
        config("allow-adress: [x]\nslots: 8x\nprofile: desne\ndata: [a]\nallow-address: [nonsense]\n");
    let path = path.to_str().unwrap();
    let told = says(&command(&["ls", "--config", path]).output().unwrap(), 2);
    for expected in [
        "config.yaml:1:1",
        "did you mean `allow-address`?",
        "config.yaml:2:8",
        "this is not a whole number",
        "config.yaml:3:10",
        "did you mean `dense`?",
        "config.yaml:4:7",
        "config.yaml:5:17",
        "has 5 problems",
    ] {
        assert!(told.contains(expected), "{expected} is not in\n{told}");
    }
    let output = command(&["run", "--json", "workflows/hello.yaml", "--config", path]).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["status"], &told["problems"][0]["at"]["line"]), (&json!("refused"), &json!(1)), "{told}");
    // Where something is wrong, `doctor` is asked: it tells of the file beside all else.
    let output = command(&["doctor", "--json", "--config", path]).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["problems"][0]["message"].as_str().unwrap().contains("config.yaml:2:8"), "{told}");
    let told = says(&command(&["ls", "--config", "/no/such/file"]).output().unwrap(), 2);
    assert!(told.contains("/no/such/file"), "{told}");
    let told = says(&command(&["ls"]).env("WFHOST_SLOTS", "many").output().unwrap(), 2);
    assert!(told.contains("WFHOST_SLOTS=many: this is not a whole number"), "{told}");
}

/// It permits addresses: whoever may write it may let a workflow reach the inside of a network.
#[test]
fn a_configuration_file_that_others_can_write_is_not_used() {
    let (folder, path) = config("slots: 3");
    let run = || command(&["ls", "--config", path.to_str().unwrap()]).output().unwrap();
    let change = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    assert!(run().status.success());
    for mode in [0o602, 0o620] {
        change(&path, mode);
        let told = says(&run(), 2);
        assert!(told.contains("can be written by others") && told.contains("chmod go-w"), "{told}");
    }
    change(&path, 0o644);
    change(folder.path(), 0o777);
    assert!(says(&run(), 2).contains("can be written by others, who could replace what is in it"));
}
