//! The cases of the engine of JavaScript: scripts, most of them hostile, and what is to come of
//! each. `guests/script-js/run.py` runs the same table without wfhost.

use crate::support::{builder, guests};
use serde::Deserialize;
use serde_json::{Map, Value};
use wfhost::host::{Host, LoadError, RunOptions};

/// A row of `cases.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    file: String,
    #[serde(default = "run")]
    entry: String,
    #[serde(default)]
    input: Value,
    /// The body of an inline script, and its first line. `tests/guests/scripts/mod.rs` has those.
    script: Option<String>,
    #[serde(rename = "line")]
    _line: Option<u32>,
    /// Units of fuel for a step.
    fuel: Option<u64>,
    output: Option<Value>,
    /// The second element of the output.
    error: Option<String>,
    /// How the problem's kind and title begin; an output is then no success.
    kind: Option<String>,
    title: Option<String>,
    /// Path, line and column.
    at: Option<String>,
}

fn run() -> String {
    "run".to_owned()
}

impl Case {
    /// The text of a workflow whose output is what came of the script.
    fn workflow(&self) -> String {
        let fuel = self.fuel.unwrap_or(1_000_000_000);
        format!(
            "components: {{ script: {{ source: ./{}, limits: {{ fuel-per-step: {fuel} }} }} }}
steps: [ {{ id: x, uses: script, entry: {}, with: {}, continue-on-error: true }} ]
outputs: {{ output: '${{ .steps.x.output }}', error: '${{ .steps.x.error }}' }}",
            self.file, self.entry, self.input
        )
    }

    /// What is different; nothing if it is as expected.
    fn difference(&self, host: &Host) -> Option<String> {
        let said = match host.parse("flow.yaml", &self.workflow(), guests("script-js/cases")) {
            Ok(workflow) => host.start(&workflow, Map::new(), RunOptions::default()).unwrap().wait(),
            Err(LoadError::Definition(problems)) => return self.refused(&problems.render(false)),
            Err(error) => return Some(error.to_string()),
        };
        let Some(found) = said.outputs() else { return Some(said.to_json().to_string()) };
        let (output, error) = (&found["output"], &found["error"]);
        let same = match (&self.kind, &self.output, &self.error) {
            (Some(kind), ..) => begins(&error["kind"], kind) && self.is_at(&error["data"]["at"]),
            (_, Some(expected), _) => error.is_null() && output == expected,
            (.., Some(name)) => output[1] == **name,
            // It must end, and harm nobody.
            (None, None, None) => error["kind"] != "trap",
        };
        (!same).then(|| format!("{output} {error}"))
    }

    /// The line: the column of an endless loop is where the fuel ends.
    fn is_at(&self, at: &Value) -> bool {
        self.at.as_ref().is_none_or(|expected| {
            let line = expected.rsplit_once(':').unwrap().0;
            format!("{}:{}", at["path"].as_str().unwrap_or_default(), at["line"]) == line
        })
    }

    fn refused(&self, said: &str) -> Option<String> {
        let same = self.kind.as_deref() == Some("bad-script")
            && self.title.as_ref().is_none_or(|title| said.contains(&**title))
            && self.at.as_ref().is_none_or(|at| said.contains(&**at));
        (!same).then(|| said.to_owned())
    }
}

fn begins(value: &Value, with: &str) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(with))
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(guests("script-js/cases/cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn all_of(wanted: impl Fn(&str) -> bool) {
    let host = builder(2, 4).build().unwrap();
    let cases: Vec<_> = cases().into_iter().filter(|case| wanted(&case.file) && case.script.is_none()).collect();
    assert!(cases.len() > 4);
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|case| Some(format!("{} {}: {}", case.file, case.entry, case.difference(&host)?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_does_not_end_is_ended_at_its_line() {
    all_of(|file| file == "endless.js");
}

#[test]
fn what_wants_more_memory_than_there_is_gets_an_error() {
    all_of(|file| file == "memory.js");
}

#[test]
fn every_recursion_ends_as_an_error_of_the_language() {
    all_of(|file| file == "deep.js");
}

#[test]
fn a_script_that_changes_the_language_harms_itself_alone() {
    all_of(|file| file == "tricks.js");
}

#[test]
fn what_cannot_be_loaded_is_refused_at_its_line() {
    all_of(|file| file.starts_with("load/"));
}

#[test]
fn types_are_removed_and_lines_are_kept() {
    all_of(|file| file.starts_with("typescript/"));
}
