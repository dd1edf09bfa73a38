//! Examples out of the program: written and run as it says.

use super::{command, transcript};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;

fn does(folder: &Path, arguments: &[&str]) -> Output {
    command(arguments).current_dir(folder).output().unwrap()
}

#[track_caller]
fn tells(folder: &Path, arguments: &[&str]) -> Value {
    let output = does(folder, arguments);
    assert!(output.status.success(), "{}", transcript(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_example_is_written_and_valid_and_runs_by_the_command_that_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let all = tells(here, &["example", "--json"]);
    let all: Vec<&str> = all.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(all.contains(&"hello") && all.len() >= 6, "{all:?}");
    for name in all {
        let told = tells(here, &["example", name, "--json"]);
        for file in told["files"].as_array().unwrap() {
            assert!(here.join(file.as_str().unwrap()).is_file(), "{file}");
        }
        let workflow = told["files"][0].as_str().unwrap();
        let output = does(here, &["validate", workflow]);
        assert!(output.status.success(), "{}", transcript(&output));
        let text = std::fs::read_to_string(here.join(workflow)).unwrap();
        assert!(!text.contains("workflows/") && !text.contains("guests/"), "{text}");
        // The command as a shell reads it; what needs another server or another terminal is not run
        // here.
        let run = told["commands"].as_array().unwrap().last().unwrap().as_str().unwrap();
        if ["approval", "fan-out", "orders"].contains(&name) {
            continue;
        }
        let words: Vec<&str> = run.strip_prefix("wfhost ").unwrap().split(' ').collect();
        let told = tells(here, &[&words[..], &["--json"]].concat());
        assert_eq!(told["status"], "succeeded", "{told}");
    }
    let told = tells(here, &["run", "--json", "hello/hello.yaml", "--input", "name=Ann"]);
    assert_eq!(told["outputs"], json!({ "greeting": "Hello, Ann!" }));
}

#[test]
fn an_example_is_written_where_it_is_wanted_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = does(folder.path(), &["example", "hello", "my flows/one/"]);
    assert!(output.status.success(), "{}", transcript(&output));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "wfhost run 'my flows/one'/hello.yaml --input name=Ann\n");
    let path = folder.path().join("my flows/one/hello.yaml");
    std::fs::write(&path, "mine").unwrap();
    std::fs::remove_file(folder.path().join("my flows/one/hello.wasm")).unwrap();
    let output = does(folder.path(), &["example", "hello", "my flows/one"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing is overwritten"), "{}", transcript(&output));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert!(!folder.path().join("my flows/one/hello.wasm").exists());
    let output = does(folder.path(), &["example", "helo"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean hello?"), "{}", transcript(&output));
    // In the folder itself the command has no path.
    let told = tells(folder.path(), &["example", "fan-out", ".", "--json"]);
    assert_eq!(told["commands"][1], "wfhost run fan-out.yaml --allow-address localhost");
}
