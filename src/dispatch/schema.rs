//! JSON Schemas, compiled once.
//!
//! *Rejected*: `jsonschema`, which without its default features still brings 38 packages (big
//! numbers, a backtracking regular expression engine, a second parking_lot) and changes features
//! below cranelift. `boon` passes the same test suite with 11, and its patterns run in linear time,
//! which matters because the text may come from a guest.

use super::{mismatch, problems};
use crate::process::{Payload, Problem};
use serde_json::{Value, json};
use std::error::Error;
use std::fmt;

/// The URL of the schema within its compiler; nothing is ever loaded from it.
const LOCATION: &str = "wfhost:arguments";

/// Mismatches that a problem lists at most. Arbitrary.
const MISMATCHES_MAX: usize = 8;

/// A compiled JSON Schema.
pub struct Schema {
    compiled: boon::Schemas,
    root: boon::SchemaIndex,
}

/// The reason why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(String);

/// Loads nothing: a schema must be self-contained.
struct NoLoader;

impl boon::UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("`{url}` is outside the schema, and nothing is loaded from elsewhere").into())
    }
}

impl Schema {
    /// Compiles a schema: draft 2020-12 unless its `$schema` names another.
    ///
    /// # Errors
    /// The schema is not valid, or refers to something outside itself.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let mut compiled = boon::Schemas::new();
        let mut compiler = boon::Compiler::new();
        compiler.use_loader(Box::new(NoLoader));
        compiler.add_resource(LOCATION, schema.clone()).map_err(|error| SchemaError(format!("{error:#}")))?;
        let root = compiler.compile(LOCATION, &mut compiled).map_err(|error| SchemaError(format!("{error:#}")))?;
        Ok(Self { compiled, root })
    }

    /// Lists the mismatches of a value: a JSON Pointer and what was expected there. At most eight;
    /// empty if the value fits.
    pub fn mismatches(&self, value: &Value) -> Vec<(String, String)> {
        let mut found = Vec::new();
        if let Some(at) = number_out_of_range(value) {
            found.push((at, "a number within the range of a 64-bit float".to_owned()));
        } else if let Err(error) = self.compiled.validate(value, self.root) {
            collect(&error, &mut found);
        }
        found
    }

    /// Checks the arguments of a call.
    ///
    /// # Errors
    /// The problem `bad-arguments`, with the mismatches in `data.mismatches`.
    pub fn check(&self, args: &Payload) -> Result<(), Problem> {
        let Payload::Json(json) = args else {
            return Err(problems::bad_arguments("the arguments must be JSON"));
        };
        let mismatches = self.mismatches(&json.to_value());
        let Some((at, expected)) = mismatches.first() else { return Ok(()) };
        let place = if at.is_empty() { String::new() } else { format!("at {at}: ") };
        let list: Vec<Value> = mismatches.iter().map(|(at, what)| json!({ "at": at, "expected": what })).collect();
        Err(problems::bad_arguments(&format!("{place}expected {expected}")).with_data(&json!({ "mismatches": list })))
    }
}

/// Collects the leaves of the tree of errors.
fn collect(error: &boon::ValidationError<'_, '_>, found: &mut Vec<(String, String)>) {
    if found.len() == MISMATCHES_MAX {
        return;
    }
    if error.causes.is_empty() {
        let at = problems::bounded(&error.instance_location.to_string());
        found.push((at, problems::bounded(&mismatch::expected(&error.kind))));
    }
    for cause in &error.causes {
        collect(cause, found);
    }
}

/// Returns where a number lies outside the range of 64-bit floats. Bounds are compared as such
/// floats, so the number would pass them all.
fn number_out_of_range(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => number.as_f64().is_none_or(|n| !n.is_finite()).then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| number_out_of_range(item).map(|rest| format!("/{index}{rest}"))),
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            number_out_of_range(member).map(|rest| problems::bounded(&format!("/{name}{rest}")))
        }),
        _ => None,
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Json, problem::kind};

    fn schema() -> Schema {
        Schema::compile(&json!({
            "type": "object",
            "properties": {
                "count": { "type": "integer", "minimum": 0, "maximum": 10 },
                "name": { "type": "string", "pattern": "^[a-z]+$", "maxLength": 5 },
            },
            "required": ["count"],
            "additionalProperties": false,
        }))
        .unwrap()
    }

    fn check(text: &str) -> Result<(), Problem> {
        schema().check(&Payload::Json(Json::parse(text.to_owned()).unwrap()))
    }

    #[test]
    fn what_fits_passes() {
        check(r#"{"count": 3, "name": "ann"}"#).unwrap();
        check(r#"{"count": 3.0}"#).unwrap();
    }

    #[test]
    fn each_mismatch_is_reported_with_its_place() {
        let problem = check(r#"{"count": 11, "name": "Ann", "more": 1}"#).unwrap_err();
        assert_eq!(problem.kind, kind::BAD_ARGUMENTS);
        let data = problem.data.unwrap().to_value();
        let places: Vec<&str> =
            data["mismatches"].as_array().unwrap().iter().map(|m| m["at"].as_str().unwrap()).collect();
        assert!(places.contains(&"/count") && places.contains(&"/name") && places.contains(&""), "{places:?}");
        let expected: Vec<&str> =
            data["mismatches"].as_array().unwrap().iter().map(|m| m["expected"].as_str().unwrap()).collect();
        for text in ["at most 10, not 11", "text that matches ^[a-z]+$, not \"Ann\"", "no key `more`"] {
            assert!(expected.contains(&text), "{expected:?}");
        }
        assert_eq!(check("{}").unwrap_err().detail.unwrap(), "expected the key `count`");
        assert_eq!(
            check(r#"{"count": []}"#).unwrap_err().detail.unwrap(),
            "at /count: expected a whole number, not a list"
        );
    }

    #[test]
    fn a_number_beyond_every_float_does_not_slip_through_a_bound() {
        let problem = check(r#"{"count": 1e400}"#).unwrap_err();
        assert!(problem.detail.unwrap().contains("/count"));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let problem = schema().check(&Payload::Bytes("{}".into())).unwrap_err();
        assert_eq!(problem.kind, kind::BAD_ARGUMENTS);
    }

    #[test]
    fn a_problem_stays_small_whatever_the_arguments() {
        let text = format!(r#"{{"count": 1, {} "name": 1}}"#, format!(r#""{}": 1,"#, "x".repeat(100_000)).repeat(3));
        let problem = check(&text).unwrap_err();
        assert!(problem.to_string().len() < 1000);
        assert!(problem.data.unwrap().as_str().len() < 10_000);
    }

    #[test]
    fn a_schema_that_is_wrong_or_refers_elsewhere_is_refused() {
        assert!(Schema::compile(&json!({ "type": "strin" })).is_err());
        assert!(Schema::compile(&json!({ "$ref": "https://example.com/schema.json" })).is_err());
        assert!(Schema::compile(&json!({ "$ref": "file:///etc/passwd" })).is_err());
    }
}
