//! What an operator sets once: in the environment and in a configuration file; and the addresses
//! that a run was started with.

use super::support::World;
use super::{command, transcript};
use serde_json::{Value, json};
use std::net::TcpListener;
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

#[test]
fn addresses_are_permitted_by_the_environment_and_named_in_hints() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = World::new(&calls(port, ""));
    let run = |permitted: &str| {
        let mut command = super::command_in(&world.data, &["run", "--timeout", "3s", &world.file]);
        command.env("WFHOST_ALLOW_ADDRESS", permitted).output().unwrap()
    };
    let told = says(&run("10.0.0.0/8"), 1);
    assert!(told.contains("--allow-address 10.0.0.0/8,127.0.0.1"), "{told}");
    // Nobody answers there.
    assert_eq!(run("10.0.0.0/8, 127.0.0.0/8").status.code(), Some(3));
}

/// A workflow whose step `call` asks a port of this machine.
fn calls(port: u16, needs: &str) -> String {
    format!(
        "
steps:
  - {{ id: asks, wait: {{ signal: answer, timeout: 1m }}, if: {waits} }}
  - id: call
    {needs}
    call: http
    with: {{ url: \"http://127.0.0.1:{port}/\" }}
    allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}
",
        waits = !needs.is_empty()
    )
}

/// Without the permission the run would fail for good, and what it did so far would have to be
/// repeated.
#[test]
fn a_run_that_had_an_address_permitted_is_not_resumed_without_it_by_accident() {
    let world = World::new(&calls(9, "needs: asks"));
    world.begin("it", "asks", &["--allow-address", "127.0.0.0/8"]).kill();
    let permit = "wfhost resume it --allow-address 127.0.0.0/8";
    let told = world.does(&["status", "it"]);
    assert!(String::from_utf8_lossy(&told.stderr).contains(permit), "{}", transcript(&told));
    let told = world.refuses(&["resume", "it"]);
    assert!(told.contains("started with --allow-address 127.0.0.0/8") && told.contains(permit), "{told}");
    assert!(told.contains("--allow-address none"), "{told}");
    let told = world.does(&["resume", "--all"]);
    assert!(says(&told, 1).contains(permit), "{}", transcript(&told));
    let told = world.refuses(&["run", "--run-id", "it", &world.file]);
    assert!(told.contains(&format!("wfhost run --run-id it {} --allow-address 127.0.0.0/8", world.file)), "{told}");
    assert_eq!(world.tells(&["status", "--json", "it"])["status"], "suspended");

    world.says(&["signal", "it", "answer", "1"]);
    let resume = |flags: &[&str]| says(&world.does(&[&["resume", "it"], flags].concat()), 1);
    assert!(resume(&["--allow-address", "none"]).contains("address-refused"));
    let told = world.refuses(&["retry", "it"]);
    assert!(told.contains("wfhost retry it --allow-address 127.0.0.0/8"), "{told}");
    assert!(world.does(&["retry", "it", "--dry-run"]).status.success(), "it runs nothing");
    let told = world.refuses(&["fork", "it", "--at", "1"]);
    assert!(told.contains("wfhost fork it --at 1 --allow-address 127.0.0.0/8"), "{told}");
    // A wider permission holds for it too.
    let told = world.does(&["retry", "it", "--allow-address", "::1,127.0.0.0/7"]);
    assert!(!says(&told, 1).contains("address-refused"), "{}", transcript(&told));
}
