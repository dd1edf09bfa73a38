//! The formatter, as a command.

use crate::{command, transcript};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

const CARELESS: &str = "steps:\n- set: ${ .steps.b.output }   # why\n  id: a\n\n\n- id:  b\n  set: 1\n";
const FORMATTED: &str = "steps:\n  - id: a\n    set: ${ .steps.b.output }   # why\n\n  - id: b\n    set: 1\n";

fn fmt(folder: &Path, arguments: &[&str]) -> Output {
    command(&[&["fmt"], arguments].concat()).current_dir(folder).output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_formatted_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flow.yaml");
    std::fs::write(&path, CARELESS).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("flow.yaml", folder.path().join("link.yaml")).unwrap();
    let output = fmt(folder.path(), &["--check", "flow.yaml"]);
    assert_eq!(transcript(&output), "exit 1\n--- stdout\n--- stderr\nflow.yaml: not formatted\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), CARELESS);
    let output = fmt(folder.path(), &["link.yaml"]);
    assert_eq!(transcript(&output), "exit 0\n--- stdout\n--- stderr\nlink.yaml: formatted\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), FORMATTED);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::symlink_metadata(folder.path().join("link.yaml")).unwrap().is_symlink());
    assert_eq!(names(folder.path()), ["flow.yaml", "link.yaml"]);
    let output = fmt(folder.path(), &["--check", "flow.yaml"]);
    assert_eq!(transcript(&output), "exit 0\n--- stdout\n--- stderr\n");
}

#[test]
fn a_difference_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flow.yaml"), CARELESS).unwrap();
    let output = fmt(folder.path(), &["--diff", "flow.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("--- a/flow.yaml\n+++ b/flow.yaml\n@@ -1,7 +1,6 @@\n steps:\n-- set: $"), "{text}");
    assert_eq!(std::fs::read_to_string(folder.path().join("flow.yaml")).unwrap(), CARELESS);
}

#[test]
fn standard_input_goes_to_standard_output() {
    let mut child = command(&["fmt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(CARELESS.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap().as_str()), (Some(0), FORMATTED));
}

/// Other files are formatted all the same.
#[test]
fn what_does_not_parse_is_reported_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("bad.yaml", "steps: [ {");
    write("flow.yaml", CARELESS);
    write("twin.yaml", CARELESS);
    std::fs::hard_link(folder.path().join("twin.yaml"), folder.path().join("other.yaml")).unwrap();
    let output = fmt(folder.path(), &["bad.yaml", "flow.yaml", "twin.yaml", "absent.yaml"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let errors = String::from_utf8(output.stderr).unwrap();
    for expected in
        ["error[yaml]", "bad.yaml:1:", "flow.yaml: formatted", "twin.yaml: it has several names", "absent.yaml"]
    {
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(
        (read("bad.yaml"), read("flow.yaml"), read("twin.yaml")),
        ("steps: [ {".into(), FORMATTED.into(), CARELESS.into())
    );
    assert_eq!(names(folder.path()), ["bad.yaml", "flow.yaml", "other.yaml", "twin.yaml"]);
}

/// A workflow with problems that YAML does not see can be formatted while it is written.
#[test]
fn a_workflow_that_is_not_valid_yet_is_formatted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flow.yaml"), "steps:\n- wiat: 1s\n  id: a\n").unwrap();
    assert_eq!(fmt(folder.path(), &["flow.yaml"]).status.code(), Some(0));
    let text = std::fs::read_to_string(folder.path().join("flow.yaml")).unwrap();
    assert_eq!(text, "steps:\n  - id: a\n    wiat: 1s\n");
}
