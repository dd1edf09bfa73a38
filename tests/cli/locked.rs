//! `wfhost.lock`: written, checked, and what differs from it refused.

use super::support::World;
use super::{command, transcript};
use serde_json::json;
use std::path::{Path, PathBuf};

const FLOW: &str = "\
name: flow
components: { greet: ./hello.wasm }
steps:
  - { id: greeted, uses: greet, with: { name: Ann } }
  - { id: stars, uses: ./stars.js, with: \"${ .steps.greeted.output.greeting }\" }
  - { id: more, workflow: ./stock/label.yaml, with: { text: \"${ .steps.stars.output }\" } }
outputs: { label: \"${ .steps.more.output.label }\" }
";

const LABEL: &str = "\
inputs: { text: string }
steps:
  - id: line
    with: \"${ .inputs.text }\"
    script: return `${input}+`
outputs: { label: \"${ .steps.line.output }\" }
";

fn world() -> (World, PathBuf) {
    let world = World::new(FLOW);
    let folder = Path::new(&world.file).parent().unwrap().to_owned();
    std::fs::create_dir_all(folder.join("stock")).unwrap();
    std::fs::copy(super::root().join("guests/built/hello.wasm"), folder.join("hello.wasm")).unwrap();
    std::fs::write(
        folder.join("stars.js"),
        "import { star } from './star.js';\nexport const run = (c, t) => star(t);\n",
    )
    .unwrap();
    std::fs::write(folder.join("star.js"), "export const star = (text) => `*${text}*`;\n").unwrap();
    std::fs::write(folder.join("stock/label.yaml"), LABEL).unwrap();
    (world, folder)
}

#[test]
fn a_lock_has_every_part_and_what_differs_is_refused_at_its_place() {
    let (world, folder) = world();
    let lock = folder.join("wfhost.lock");
    assert!(world.refuses(&["validate", "--locked", &world.file]).contains("wfhost lock"));
    world.says(&["lock", &world.file]);
    let text = std::fs::read_to_string(&lock).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("      ")?.split(": ").next()).collect();
    assert_eq!(names, ["./hello.wasm", "star.js", "stars.js", "stock/label.yaml"], "{text}");
    for verb in [&["validate", "--locked"][..], &["run", "--locked", "--quiet"], &["lock", "--check"]] {
        world.says(&[verb, &[&world.file]].concat());
    }
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), text, "it is as it was");
    // A module that a script imports, a component, and a workflow that a step runs.
    let plain = std::fs::read_to_string(folder.join("star.js")).unwrap();
    std::fs::write(folder.join("star.js"), plain.replace('*', "+")).unwrap();
    std::fs::copy(super::root().join("guests/built/counter.wasm"), folder.join("hello.wasm")).unwrap();
    let label = std::fs::read_to_string(folder.join("stock/label.yaml")).unwrap();
    std::fs::write(folder.join("stock/label.yaml"), label.replace("}+", "}-")).unwrap();
    for verb in ["validate", "run", "plan"] {
        let refused = world.refuses(&[verb, &world.file]);
        for part in ["`star.js`", "`./hello.wasm`", "`stock/label.yaml`"] {
            assert!(refused.contains(&format!("{part} is not what wfhost.lock has: it is blake3:")), "{refused}");
        }
        assert!(refused.contains("flow.yaml:2:22") && refused.contains("flow.yaml:5:24"), "{refused}");
        assert!(refused.contains(&format!("accept it: wfhost lock {}", world.file)), "{refused}");
    }
    let checked = world.does(&["lock", "--check", &world.file]);
    assert_eq!(checked.status.code(), Some(2), "{}", transcript(&checked));
    std::fs::write(folder.join("star.js"), plain).unwrap();
    std::fs::copy(super::root().join("guests/built/hello.wasm"), folder.join("hello.wasm")).unwrap();
    let told = world.tells(&["lock", "--json", &world.file]);
    let kinds: Vec<_> = told[0]["differences"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!((json!(kinds), &told[0]["written"]), (json!(["workflows"]), &json!(true)), "{told}");
    world.says(&["run", "--locked", "--quiet", &world.file]);
}

#[test]
fn what_is_new_is_refused_only_if_the_lock_has_to_be_complete() {
    let (world, folder) = world();
    world.says(&["lock", &world.file]);
    std::fs::write(folder.join("two.js"), "export const run = () => 2;\n").unwrap();
    std::fs::write(&world.file, FLOW.replace("outputs:", "  - { id: two, uses: ./two.js }\noutputs:")).unwrap();
    world.says(&["validate", &world.file]);
    let refused = world.refuses(&["run", "--locked", &world.file]);
    assert!(refused.contains("`two.js` is not in wfhost.lock, which has to be complete"), "{refused}");
    let checked = transcript(&world.does(&["lock", "--check", &world.file]));
    assert!(checked.contains("scripts two.js: is new, blake3:"), "{checked}");
    // What is no longer used is a difference too, and harmless.
    world.says(&["lock", &world.file]);
    std::fs::write(&world.file, FLOW).unwrap();
    world.says(&["validate", "--locked", &world.file]);
    let checked = transcript(&world.does(&["lock", "--check", &world.file]));
    assert!(checked.contains("scripts two.js: is no longer used"), "{checked}");
}

#[test]
fn a_folder_has_one_lock_for_all_of_its_workflows() {
    let (world, folder) = world();
    let other = folder.join("other.yaml").display().to_string();
    std::fs::write(&other, "steps: [{ id: a, uses: ./star.js }]\n").unwrap();
    std::fs::write(folder.join("star.js"), "export const star = (t) => t;\nexport const run = () => 1;\n").unwrap();
    world.says(&["lock", &world.file, &other]);
    std::fs::write(folder.join("star.js"), "export const star = (t) => t;\nexport const run = () => 2;\n").unwrap();
    world.says(&["lock", &other]);
    world.says(&["validate", &other]);
    // That of the other workflow is as it was.
    assert!(world.refuses(&["validate", &world.file]).contains("`star.js` is not what wfhost.lock has"));
    // Without a name it is all of them.
    let output = command(&["lock"]).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{}", transcript(&output));
    world.says(&["validate", &world.file, &other]);
}

#[test]
fn a_damaged_lock_is_refused_with_its_place() {
    let (world, folder) = world();
    let lock = folder.join("wfhost.lock");
    world.says(&["lock", &world.file]);
    let text = std::fs::read_to_string(&lock).unwrap();
    let cut = text.lines().next().unwrap().len();
    for (damaged, why) in [
        (text.replace("version: 1", "version: 7"), "wfhost.lock:3:10"),
        (text.replace("blake3:", "blake3"), "this is no digest"),
        (text.replace("    scripts:", "    script:"), "has no key `script`"),
        (text[cut..].replace("workflows:", "<<<<<<< HEAD\nworkflows:"), "wfhost.lock:"),
        (String::new(), "a lock must be a mapping"),
    ] {
        std::fs::write(&lock, damaged).unwrap();
        for verb in [&["validate"][..], &["run"], &["lock"], &["lock", "--check"]] {
            let refused = world.refuses(&[verb, &[&world.file]].concat());
            assert!(refused.contains(why) && refused.contains("wfhost.lock"), "{why}: {refused}");
        }
    }
    // A lock that is no file.
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    assert!(world.refuses(&["validate", &world.file]).contains("wfhost.lock"));
    let nothing = tempfile::tempdir().unwrap();
    let output = command(&["lock"]).current_dir(nothing.path()).output().unwrap();
    let said = transcript(&output);
    assert!(output.status.code() == Some(2) && said.contains("wfhost lock flow.yaml"), "{said}");
}

#[test]
fn locks_that_are_written_at_once_have_the_parts_of_all() {
    let (world, folder) = world();
    let names: Vec<String> = (0..5).map(|number| format!("m{number}.yaml")).collect();
    for name in &names {
        std::fs::write(folder.join(name), "steps: [{ id: a, uses: ./star.js }]\n").unwrap();
    }
    std::fs::write(folder.join("star.js"), "export const run = () => 1;\n").unwrap();
    // What a process left that was killed while it wrote.
    std::fs::write(folder.join(".wfhost.lock.4194304"), "").unwrap();
    let all: Vec<_> = names.iter().map(|name| command(&["lock", name]).current_dir(&folder).spawn().unwrap()).collect();
    for mut one in all {
        assert!(one.wait().unwrap().success());
    }
    let paths: Vec<String> = names.iter().map(|name| folder.join(name).display().to_string()).collect();
    let checked: Vec<&str> = ["lock", "--check"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    world.says(&checked);
    assert!(!folder.join(".wfhost.lock.4194304").exists());
}

#[test]
fn a_lock_that_cannot_be_written_is_told_before_anything_else() {
    let (_world, folder) = world();
    let flow = "steps: [{ id: a, wait: 1s }]\n";
    std::fs::write(folder.join("plain.yaml"), flow).unwrap();
    // A link to nowhere is not the same as no lock.
    std::os::unix::fs::symlink("gone/wfhost.lock", folder.join("wfhost.lock")).unwrap();
    for verb in ["lock", "validate"] {
        let output = command(&[verb, "plain.yaml"]).current_dir(&folder).output().unwrap();
        let said = transcript(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("it is a symbolic link to a file that is not there"), "{said}");
        assert!(!said.contains("as locked"), "{said}");
    }
    std::fs::remove_file(folder.join("wfhost.lock")).unwrap();
    // No process may write a byte to a file, whoever it is.
    let mut shell = std::process::Command::new("sh");
    let program = command(&["lock", "plain.yaml"]);
    shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(program.get_program());
    shell.args(program.get_args()).envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.current_dir(&folder).output().unwrap();
    let said = transcript(&output);
    assert!(output.status.code() == Some(2) && said.contains("wfhost.lock cannot be written"), "{said}");
    assert!(!said.contains("locked\n"), "{said}");
    assert!(!folder.join("wfhost.lock").exists());
}
