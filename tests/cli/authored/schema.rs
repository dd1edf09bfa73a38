//! The schema that editors read.

use crate::{command, scratch, wfhost};
use serde_json::{Value, json};

#[test]
fn the_schema_is_printed() {
    let output = wfhost(&["schema"]);
    assert!(output.status.success());
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], json!(["steps"]));
    let step = &schema["$defs"]["step"];
    assert_eq!(step["properties"]["if"]["markdownDescription"], "An expression; false or null skips the step.");
    assert_eq!(step["additionalProperties"], json!(false));
}

/// It is made of the program alone: settings that cannot be used are no reason to fail.
#[test]
fn the_schema_needs_no_settings() {
    let mut command = command(&["schema"]);
    assert!(command.env("WFHOST_CONFIG", "/does/not/exist").output().unwrap().status.success());
}

#[test]
fn a_file_may_name_its_schema() {
    let text = "# yaml-language-server: $schema=./workflow.schema.json\nsteps: [{ id: a, set: 1 }]\n";
    let (_folder, path) = scratch(text);
    assert!(wfhost(&["validate", &path]).status.success());
}
