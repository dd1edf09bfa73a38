//! What a shell offers, and a workflow that comes through a pipe.

use super::support::World;
use super::{command, command_in, transcript};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const FLOW: &str = "
steps:
  - { id: first, set: 1 }
  - { id: second, set: \"${ .steps.first.output + 1 }\" }
outputs: { second: \"${ .steps.second.output }\" }
";

#[test]
fn ids_of_runs_and_their_steps_are_offered() {
    let world = World::new(FLOW);
    for id in ["order-1", "order-2", "other"] {
        world.says(&["run", "--run-id", id, &world.file]);
    }
    let offered = |words: &[&str]| {
        let told = world.says(&[&["complete", "--"], words].concat());
        let mut lines: Vec<String> = told.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(offered(&["status", "or"]), ["order-1", "order-2"]);
    assert_eq!(offered(&["blob", "get", "or"]), ["order-1", "order-2"]);
    assert_eq!(offered(&["rm", "other", ""]), ["order-1", "order-2", "other"]);
    assert_eq!(offered(&["retry", "order-1", "--from", "s"]), ["second"]);
    // What is no run's, and what cannot be found out, is left to the script.
    for words in [
        &["run", "or"][..],
        &["status", "order-1", "o"],
        &["retry", "nope", "--from", ""],
        &["signal"],
        &["blob", "get", "order-1", ""],
    ] {
        assert!(offered(words).is_empty(), "{words:?}");
    }
    // A flag names another folder.
    let mut elsewhere = command(&["complete", "--", "logs", "--data", world.data.to_str().unwrap(), "oth"]);
    assert!(elsewhere.output().unwrap().stdout.is_empty(), "a word after a flag is not the first");
}

/// Each command has a page, which lists each of its options.
#[test]
fn the_manual_has_all_that_the_help_has() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(&["man", folder.path().to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", transcript(&output));
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap().replace("\\-", "-");
    let first = page("wfhost.1");
    assert!(first.contains(".TH wfhost 1") && first.contains("Exit codes"), "{first}");
    let mut count = 1;
    let help = |words: &[&str]| String::from_utf8(command(words).output().unwrap().stdout).unwrap();
    let all = help(&["--help"]);
    let commands = all.split("Commands:\n").nth(1).unwrap().lines().take_while(|line| !line.is_empty());
    for line in commands.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = line.split_whitespace().next().unwrap();
        if name == "help" {
            continue;
        }
        count += 1;
        let (page, help) = (page(&format!("wfhost-{name}.1")), help(&[name, "--help"]));
        assert!(page.contains(&format!("wfhost {name}")), "{page}");
        for option in help.split([' ', ',', '\n', '=']).filter(|word| word.starts_with("--") && word.len() > 2) {
            assert!(page.contains(option), "{option} of {name} is not in its page");
        }
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().count() >= count && count > 20);
    let printed = command(&["man"]).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap().replace("\\-", "-"), first);
}

#[test]
fn the_script_of_bash_asks_for_them() {
    let world = World::new(FLOW);
    world.says(&["run", "--run-id", "order-1", &world.file]);
    let folder = Path::new(env!("CARGO_BIN_EXE_wfhost")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let script = "source <(wfhost completions bash)
for words in 'status or' 'sta' 'status --j'; do
  COMP_WORDS=(wfhost $words); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
  _wfhost_and_runs wfhost \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"
  echo \"${COMPREPLY[*]}\"
done";
    let mut bash = Command::new("bash");
    bash.env("PATH", path).args(["--norc", "-c", script]).env("WFHOST_DATA", &world.data).env("WFHOST_CONFIG", "");
    let output = bash.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(told.lines().collect::<Vec<_>>(), ["order-1", "status", "--json"], "{}", transcript(&output));
}

fn piped(world: &World, arguments: &[&str], text: &str) -> Output {
    let mut command = command_in(&world.data, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_workflow_comes_from_standard_input() {
    let world = World::new(FLOW);
    let output = piped(&world, &["run", "-"], FLOW);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\n  \"second\": 2\n}\n", "{}", transcript(&output));
    // Paths are taken from the current folder.
    let text = "steps: [{ id: a, uses: ./guests/built/hello.wasm, with: { name: Ann } }]";
    for command in ["run", "validate", "plan", "graph"] {
        let output = piped(&world, &[command, "-"], text);
        assert!(output.status.success(), "{}", transcript(&output));
    }
    let output = piped(&world, &["run", "-"], "steps: [{ id: a, set: \"${ .run | error }\" }]");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("to continue once FILE is corrected") && said.contains("--workflow FILE"), "{said}");
    let output = piped(&world, &["validate", "-"], "steps: []");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("stdin:1:8"), "{said}");
}
