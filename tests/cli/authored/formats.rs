//! Problems and warnings as GitHub and SARIF have them.

use crate::{assert_text_in, command, transcript};
use boon::{Compiler, Schemas};
use serde_json::{Value, json};

const BAD: &str = "name: größe
steps:
  - { id: \"größer\", set: 1 }
  - id: a
    wiat: 1s
  - id: a
    set:
      x: ${ .steps.b.output }
    when: falied
  - { id: twice, set: 1 }
  - { id: twice, set: 2 }
";

const DOUBTFUL: &str = "inputs: { n: { type: integer, default: 1 } }
steps:
  - { id: first, set: 1 }
  - { id: odd, needs: first, if: \"${ .inputs.n = 1 }\", set: 1 }
";

/// Two files with problems, one with a warning, one that does not exist.
fn run(arguments: &[&str]) -> (tempfile::TempDir, std::process::Output) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad,50%.yaml"), BAD).unwrap();
    std::fs::write(folder.path().join("cut.yaml"), "steps: [ {").unwrap();
    std::fs::write(folder.path().join("doubtful.yaml"), DOUBTFUL).unwrap();
    let output = command(arguments).current_dir(folder.path()).output().unwrap();
    (folder, output)
}

const FILES: [&str; 4] = ["bad,50%.yaml", "cut.yaml", "doubtful.yaml", "absent.yaml"];

#[test]
fn github_marks_the_lines() {
    let (folder, output) = run(&[&["validate", "--format", "github"], &FILES[..]].concat());
    assert_text_in(folder.path(), "problems_as_workflow_commands", &transcript(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.lines().all(|line| line.starts_with("::error file=") || line.starts_with("::warning file=")),
        "{text}"
    );
}

#[test]
fn sarif_has_rules_results_and_places() {
    let (folder, output) = run(&[&["validate", "--format", "sarif"], &FILES[..]].concat());
    assert_eq!((output.status.code(), output.stderr.len()), (Some(2), 0));
    assert_text_in(folder.path(), "problems_as_sarif", &transcript(&output));
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&log);
    let results = log["runs"][0]["results"].as_array().unwrap();
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    for result in results {
        assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], result["ruleId"]);
    }
    // Columns count characters, as `columnKind` says: `ö` and `ß` are one each.
    let region = &results[0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!(region, &json!({ "startLine": 3, "startColumn": 11, "endLine": 3, "endColumn": 19 }));
    // What the fix deletes is the misspelled word.
    let fixed: Vec<&Value> = results.iter().filter_map(|result| result["fixes"][0]["artifactChanges"].get(0)).collect();
    let replaced = |change: &&Value| {
        let one = &change["replacements"][0];
        let region = |key: &str| one["deletedRegion"][key].as_u64().unwrap() as usize;
        let line: Vec<char> = BAD.lines().nth(region("startLine") - 1).unwrap().chars().collect();
        let word: String = line[region("startColumn") - 1..region("endColumn") - 1].iter().collect();
        format!("{word} -> {}", one["insertedContent"]["text"].as_str().unwrap())
    };
    assert_eq!(fixed.iter().map(replaced).collect::<Vec<_>>(), ["wiat -> wait", "falied -> failed"]);
}

#[test]
fn what_is_only_counted_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("steps:\n");
    (0..120).for_each(|n| text.push_str(&format!("  - {{ id: s{n}, set: 1, x{n}: 1 }}\n")));
    std::fs::write(folder.path().join("many.yaml"), text).unwrap();
    let told = |format: &str| {
        let output = command(&["validate", "--format", format, "many.yaml"]).current_dir(folder.path()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(told("github").ends_with("::error file=many.yaml::many.yaml has 20 more problems\n"));
    let log: Value = serde_json::from_str(&told("sarif")).unwrap();
    check(&log);
    let more = &log["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"];
    assert_eq!(more, "many.yaml has 20 more problems");
}

#[test]
fn json_has_warnings_as_objects() {
    let (_folder, output) = run(&["validate", "--format", "json", "doubtful.yaml"]);
    let files: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        files[0]["warnings"],
        json!([{
            "code": "assigns",
            "message": "`=` assigns and gives its whole input, so this condition is always true",
            "hint": "did you mean `.inputs.n == 1`?",
            "at": { "file": "doubtful.yaml", "line": 4, "column": 11, "end-line": 4, "end-column": 14 },
        }])
    );
}

#[test]
fn plan_reports_in_the_same_forms() {
    let (_folder, output) = run(&["plan", "--format", "github", "cut.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("::error file=cut.yaml,line=1,col="), "{text}");
    let (_folder, output) = run(&["plan", "--format", "sarif", "doubtful.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&log);
    assert_eq!(log["runs"][0]["results"][0]["level"], "warning");
    let (_folder, json) = run(&["plan", "--format", "json", "doubtful.yaml"]);
    let (_folder, same) = run(&["plan", "--json", "doubtful.yaml"]);
    assert_eq!(json.stdout, same.stdout);
}

/// Checks a log against what the schema of SARIF 2.1.0 demands of the parts that are written.
fn check(log: &Value) {
    let text = include_str!("sarif-2.1.0.json");
    let schema: Value = serde_json::from_str(text).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("sarif.json", schema).unwrap();
    let index = compiler.compile("sarif.json", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(log, index) {
        panic!("{error:#}\n{log:#}");
    }
}
