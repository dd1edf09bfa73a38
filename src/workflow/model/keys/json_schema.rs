//! JSON Schema (draft 2020-12) of workflow files, for editors.
//!
//! It uses `$defs` and otherwise only keywords that older drafts have, too, since editors know
//! these best. A key that may be absent may not be null in it, though the model takes null as
//! absent: an editor is right to ask for the value.

use super::{Keys, Shape, WORKFLOW, Word};
use serde_json::{Map, Value, json};

/// An expression somewhere in a text.
const EXPRESSION: &str = r"\$\{";
/// A name of a step, an input or a component.
const NAME: &str = "^[A-Za-z_][A-Za-z0-9_-]{0,63}$";
/// A duration: numbers with units, or ISO 8601.
const DURATION: &str = r"([0-9.]+\s*(us|ms|s|m|min|h|d)\s*)+|[Pp][0-9A-Za-z.,]+";
/// A size, with one of the units that `limits` has.
const SIZE: &str = r"^\s*[0-9._]+\s*([kmgKMG]?[iI]?[bB])?\s*$";
/// An amount.
const AMOUNT: &str = r"^\s*[0-9._]+\s*[kmgtKMGT]?\s*$";

/// The schema of a workflow file.
pub(crate) fn json_schema() -> Value {
    schema_of(
        &WORKFLOW,
        "A workflow of wfhost",
        "wfhost validate FILE checks what a schema cannot see, too: references, expressions, components.",
    )
}

/// The schema of a kind of file.
pub(crate) fn schema_of(file: &'static Keys, title: &str, description: &str) -> Value {
    let found = super::all_of_file(file);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
    });
    let defs: Map<String, Value> = found[1..].iter().map(|keys| (keys.name.to_owned(), mapping(keys))).collect();
    let root = mapping(file);
    for (key, value) in root.as_object().into_iter().flatten() {
        schema[key] = value.clone();
    }
    schema["$defs"] = Value::Object(defs);
    schema
}

/// Adds the mappings within a shape that were not found before.
pub(super) fn collect(shape: &'static Shape, found: &mut Vec<&'static Keys>) {
    match shape {
        Shape::Keys(keys) if !found.iter().any(|one| one.name == keys().name) => found.push(keys()),
        Shape::List(shape)
        | Shape::Some(shape)
        | Shape::OneOrMore(shape)
        | Shape::Map(shape)
        | Shape::Names(shape)
        | Shape::StepPaths(shape) => collect(shape, found),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| collect(shape, found)),
        _ => {}
    }
}

fn mapping(keys: &Keys) -> Value {
    let mut properties = Map::new();
    for key in keys.known() {
        properties.insert((*key).to_owned(), keys.word(key).map_or_else(|| json!({}), property));
    }
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !keys.required.is_empty() {
        schema["required"] = json!(keys.required);
    }
    if !keys.exactly_one.is_empty() {
        schema["oneOf"] = keys.exactly_one.iter().map(|key| json!({ "required": [key] })).collect();
    }
    if let Some((one, other)) = keys.not_both {
        schema["not"] = json!({ "required": [one, other] });
    }
    let only_with = keys.only_with.iter().copied().flatten().map(|(key, others)| {
        let others: Vec<Value> = others.iter().map(|other| json!({ "required": [other] })).collect();
        json!({ "if": { "required": [key] }, "then": { "anyOf": others } })
    });
    let only_with: Vec<Value> = only_with.collect();
    if !only_with.is_empty() {
        schema["allOf"] = json!(only_with);
    }
    schema
}

fn property(word: &Word) -> Value {
    let mut schema = json!({ "description": word.text.replace('`', ""), "markdownDescription": word.text });
    for (key, value) in value(&word.shape).as_object().into_iter().flatten() {
        schema[key] = value.clone();
    }
    schema
}

fn value(shape: &Shape) -> Value {
    match shape {
        Shape::Any | Shape::Outputs | Shape::Arguments => json!({}),
        Shape::Object | Shape::Inputs => json!({ "type": "object" }),
        Shape::Text => json!({ "type": "string" }),
        Shape::Fixed => json!({ "type": "string", "not": { "pattern": EXPRESSION } }),
        Shape::Component => json!({ "type": "string", "minLength": 1, "not": { "pattern": EXPRESSION } }),
        Shape::Handler | Shape::StepPath | Shape::Signal => json!({ "type": "string", "minLength": 1 }),
        Shape::Name => json!({ "type": "string", "pattern": NAME }),
        Shape::StepIds => one_or_more(json!({ "type": "string" })),
        // The pattern is for texts alone.
        Shape::Condition => json!({ "pattern": EXPRESSION }),
        Shape::ListOf => json!({ "type": ["string", "array"], "pattern": EXPRESSION }),
        Shape::Duration => json!({ "type": "string", "pattern": format!(r"^\s*({DURATION})\s*$") }),
        Shape::DurationOrExpression => {
            json!({ "type": "string", "pattern": format!(r"^\s*({DURATION})\s*$|{EXPRESSION}") })
        }
        Shape::Backoff => {
            json!({ "type": "string", "pattern": format!(r"^\s*({DURATION})\s*(\.\.\s*({DURATION})\s*)?$") })
        }
        Shape::Size => json!({ "type": ["string", "number"], "pattern": SIZE, "minimum": 0 }),
        Shape::Amount => json!({ "type": ["string", "number"], "pattern": AMOUNT, "minimum": 0 }),
        Shape::Whole(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Number => json!({ "type": "number" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Null => json!({ "type": "null" }),
        Shape::Words(words) => json!({ "enum": words() }),
        Shape::List(item) => json!({ "type": "array", "items": value(item) }),
        Shape::Some(item) => json!({ "type": "array", "minItems": 1, "items": value(item) }),
        Shape::OneOrMore(item) => one_or_more(value(item)),
        Shape::Map(item) | Shape::StepPaths(item) => json!({ "type": "object", "additionalProperties": value(item) }),
        Shape::Names(item) => json!({
            "type": "object", "propertyNames": { "pattern": NAME }, "additionalProperties": value(item),
        }),
        Shape::Either(shapes) => json!({ "anyOf": shapes.iter().map(value).collect::<Vec<_>>() }),
        Shape::Keys(keys) => json!({ "$ref": format!("#/$defs/{}", keys().name) }),
    }
}

fn one_or_more(item: Value) -> Value {
    json!({ "anyOf": [item.clone(), { "type": "array", "items": item }] })
}
