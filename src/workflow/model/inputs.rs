//! The declared inputs of a workflow: reads the declarations and accepts the values for a run.

use super::NAMES_MAX;
use super::durations::NO_EXPRESSION;
use super::fields::{Fields, KnownKeys, shorten, text, texts};
use super::foreign_keys;
use super::schema::{Format, Schema, Type, Violation};
use super::values::{Unit, boolean, quantity, whole};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest};
use crate::workflow::syntax::{Entry, Node, read_value};
use serde_json::{Map, Value};

/// One declared input.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Input {
    /// The key under `inputs:`.
    pub name: String,
    /// What its value must satisfy.
    pub schema: Schema,
    /// Whether a run cannot start without it. Always false if there is a default.
    pub required: bool,
}

/// Whether a file that is given as an input becomes a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakesBlob {
    /// It is read as text.
    Never,
    /// It does if it is large, or is no text.
    IfLarge,
    /// It does.
    Always,
}

/// All declared inputs, in file order.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Inputs(pub Vec<Input>);

impl Inputs {
    /// Completes the given values with the defaults and checks all of them. An input that is absent
    /// and not required is null.
    ///
    /// # Errors
    /// Returns every violation. The first part of its pointer is the input's name.
    pub fn accept(&self, mut given: Map<String, Value>) -> Result<Map<String, Value>, Vec<Violation>> {
        let mut found = Vec::new();
        let mut complete = Map::new();
        for Input { name, schema, required } in &self.0 {
            let mut pointer = format!("/{name}");
            match given.shift_remove(name) {
                // Accepting completed values again changes nothing.
                Some(Value::Null) if !*required && schema.default.is_none() => {
                    complete.insert(name.clone(), Value::Null);
                }
                Some(value) => {
                    let before = found.len();
                    schema.check_at(&value, &mut pointer, &mut found);
                    if let (Some(first), Some(list)) = (found.get_mut(before), as_list(schema, &value)) {
                        first.message.push_str(&format!("; for a list of this one item, write {list}"));
                    }
                    complete.insert(name.clone(), value);
                }
                None if *required => {
                    let what =
                        if schema.types.is_empty() { String::new() } else { format!(" ({})", schema.types_in_words()) };
                    found.push(Violation { pointer, message: format!("is required{what}") });
                }
                None => {
                    complete.insert(name.clone(), schema.default.clone().unwrap_or(Value::Null));
                }
            }
        }
        for name in given.keys() {
            let message = match closest(name, self.names()) {
                Some(meant) => format!("is not an input; did you mean `{meant}`?"),
                None if self.0.is_empty() => "is not an input: the workflow has none".to_owned(),
                None => format!("is not an input; the inputs are {}", all_of(self.names())),
            };
            found.push(Violation { pointer: format!("/{}", shorten(name)), message });
        }
        if found.is_empty() { Ok(complete) } else { Err(found) }
    }

    /// Returns whether a file that is given as an input becomes a blob: always, or if it is large
    /// or no text.
    #[must_use]
    pub fn takes_blob(&self, name: &str) -> TakesBlob {
        match self.0.iter().find(|input| input.name == name).map(|input| input.schema.types.as_slice()) {
            Some([Type::Blob] | [Type::Blob, Type::Null] | [Type::Null, Type::Blob]) => TakesBlob::Always,
            Some(types) if types.is_empty() || types.contains(&Type::Blob) => TakesBlob::IfLarge,
            _ => TakesBlob::Never,
        }
    }

    /// Reads the text of an argument `name=text` according to the input's type: a string literally,
    /// anything else as YAML or JSON.
    ///
    /// # Errors
    /// Says why the text is not a value.
    pub fn parse_argument(&self, name: &str, text: &str) -> Result<Value, String> {
        let types = self.0.iter().find(|input| input.name == name).map_or(&[][..], |input| &input.schema.types);
        if types == [Type::String] {
            return Ok(Value::String(text.to_owned()));
        }
        let value = read_value(text).map_err(|why| self.describe_unreadable(name, text, why))?;
        // `--input version=1.10` for an input that may be a string is meant as text.
        if types.contains(&Type::String) && !types.iter().any(|kind| Schema::of(*kind).check(&value).is_empty()) {
            return Ok(Value::String(text.to_owned()));
        }
        Ok(value)
    }

    /// Says why a text is not a value. The parser's line and column help in the text of a file, not
    /// in an argument of the command line.
    fn describe_unreadable(&self, name: &str, text: &str, why: String) -> String {
        if text.contains('\n') || text.chars().count() > ARGUMENT_SHOWN_MAX {
            return why;
        }
        let schema = self.0.iter().find(|input| input.name == name).map(|input| &input.schema);
        let wanted = schema.filter(|schema| !schema.types.is_empty()).map(Schema::types_in_words);
        format!("must be {}, written as JSON; `{text}` is not", wanted.as_deref().unwrap_or("a value"))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|input| input.name.as_str())
    }
}

/// Characters of an argument that a message quotes whole. Arbitrary: one line of a terminal.
const ARGUMENT_SHOWN_MAX: usize = 120;

/// The list with a single item, if the schema wants a list and the value fits its items.
fn as_list(schema: &Schema, value: &Value) -> Option<String> {
    let is_item =
        schema.types == [Type::Array] && schema.items.as_ref().is_some_and(|item| item.check(value).is_empty());
    let text = Value::Array(vec![value.clone()]).to_string();
    (is_item && !value.is_array() && text.len() <= ARGUMENT_SHOWN_MAX).then_some(text)
}

impl Schema {
    /// Makes a schema that checks the type only.
    #[must_use]
    pub fn of(kind: Type) -> Self {
        Self { types: vec![kind], ..Self::default() }
    }
}

const KEYS: &[&str] = &[
    "type",
    "title",
    "description",
    "default",
    "enum",
    "const",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "required",
    "additionalProperties",
    "maxBytes",
];
/// The hint for a keyword outside the subset.
const UNTIL_THEN: &str =
    "until then, check the input in a first step that fails: set: ${ if … then . else error(\"…\") end }";

const LATER: &[(&str, &str)] = &[
    ("pattern", UNTIL_THEN),
    ("oneOf", UNTIL_THEN),
    ("anyOf", UNTIL_THEN),
    ("allOf", UNTIL_THEN),
    ("not", UNTIL_THEN),
    ("$ref", UNTIL_THEN),
    ("$defs", UNTIL_THEN),
    ("multipleOf", UNTIL_THEN),
    ("prefixItems", UNTIL_THEN),
    ("contains", UNTIL_THEN),
    ("patternProperties", UNTIL_THEN),
    ("propertyNames", UNTIL_THEN),
    ("dependentRequired", UNTIL_THEN),
    ("if", UNTIL_THEN),
    ("then", UNTIL_THEN),
    ("else", UNTIL_THEN),
];

pub(super) const SCHEMA_KEYS: KnownKeys =
    KnownKeys { what: "an input's schema", known: KEYS, later: LATER, foreign: foreign_keys::SCHEMA };

/// Reads `inputs:`.
pub(super) fn read_inputs(node: &Node, problems: &mut Diagnostics) -> Inputs {
    let Some(entries) = node.as_mapping() else {
        let message = format!("`inputs` must be a mapping with a key for each input, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint("inputs: { name: { type: string } }"));
        return Inputs::default();
    };
    super::names::check_count(node, entries.len(), "inputs", problems);
    Inputs(entries.iter().take(NAMES_MAX).filter_map(|entry| read_input(entry, problems)).collect())
}

fn read_input(entry: &Entry, problems: &mut Diagnostics) -> Option<Input> {
    super::names::check_name(&entry.key, entry.key_span, "an input", problems);
    // `inputs: { name: string }` gives the type only.
    let is_flag =
        |value: &Node| value.as_scalar().is_some_and(|scalar| scalar.text == "true" || scalar.text == "false");
    let flag = entry.value.get("required").filter(|value| is_flag(value));
    let schema = read_schema(&entry.value, flag.is_some(), problems)?;
    let required =
        flag.and_then(|flag| boolean(flag, "required", problems)).unwrap_or(true) && schema.default.is_none();
    if let Some(default) = &schema.default {
        let span = entry.value.get("default").map_or(entry.value.span, |node| node.span);
        for violation in schema.check(default) {
            let at = if violation.pointer.is_empty() { String::new() } else { format!(" at `{}`", violation.pointer) };
            let message = format!("the default does not fit the input{at}: it {}", violation.message);
            let is_expression = default.as_str().is_some_and(|text| text.contains("${"));
            problems.push(
                Diagnostic::new("default", message, span).hint_maybe(is_expression.then(|| NO_EXPRESSION.to_owned())),
            );
        }
    }
    Some(Input { name: entry.key.clone(), schema, required })
}

fn read_schema(node: &Node, required_is_flag: bool, problems: &mut Diagnostics) -> Option<Schema> {
    if node.as_text().is_some() {
        return Some(Schema { types: read_type(node, problems).into_iter().collect(), ..Schema::default() });
    }
    let fields = Fields::read(node, &SCHEMA_KEYS, problems)?;
    let mut schema = Schema::default();
    if let Some(node) = fields.entry("type").map(|entry| &entry.value) {
        schema.types = match node.as_sequence() {
            Some(items) => items.iter().filter_map(|item| read_type(item, problems)).collect(),
            None => read_type(node, problems).into_iter().collect(),
        };
    }
    for (key, target) in [("title", &mut schema.title), ("description", &mut schema.description)] {
        *target = fields.get(key).and_then(|node| text(node, key, problems)).map(str::to_owned);
    }
    schema.default = fields.entry("default").and_then(|entry| plain(&entry.value, problems));
    schema.one_of = fields.get("enum").and_then(|node| read_enum(node, problems));
    if let Some(value) = fields.entry("const").and_then(|entry| plain(&entry.value, problems)) {
        schema.one_of = Some(vec![value]);
    }
    schema.format = fields.get("format").and_then(|node| read_format(node, problems));
    for (key, target) in [
        ("minimum", &mut schema.minimum),
        ("maximum", &mut schema.maximum),
        ("exclusiveMinimum", &mut schema.exclusive_minimum),
        ("exclusiveMaximum", &mut schema.exclusive_maximum),
    ] {
        *target = fields.get(key).and_then(|node| read_number(node, key, problems));
    }
    for (key, target) in [
        ("minLength", &mut schema.min_length),
        ("maxLength", &mut schema.max_length),
        ("minItems", &mut schema.min_items),
        ("maxItems", &mut schema.max_items),
    ] {
        *target = fields.get(key).and_then(|node| whole(node, key, 0, 1 << 32, problems));
    }
    schema.unique_items =
        fields.get("uniqueItems").and_then(|node| boolean(node, "uniqueItems", problems)).unwrap_or(false);
    schema.additional_properties =
        fields.get("additionalProperties").and_then(|node| boolean(node, "additionalProperties", problems));
    schema.items = fields.get("items").and_then(|node| read_schema(node, false, problems)).map(Box::new);
    if let Some(entries) = fields.get("properties").and_then(Node::as_mapping) {
        let read = |entry: &Entry| Some((entry.key.clone(), read_schema(&entry.value, false, problems)?));
        schema.properties = entries.iter().filter_map(read).collect();
    }
    if let Some(node) = fields.get("maxBytes") {
        schema.max_bytes = quantity(node, Unit::Bytes, "maxBytes", problems);
        if !schema.types.contains(&Type::Blob) {
            let message = "`maxBytes` is for a blob, and this is none";
            problems.push(Diagnostic::new("schema", message, node.span).hint("type: blob"));
        }
    }
    if let (Some(node), false) = (fields.get("required"), required_is_flag) {
        schema.required = texts(node, "required", problems).into_iter().map(|(key, _)| key.to_owned()).collect();
    }
    Some(schema)
}

fn plain(node: &Node, problems: &mut Diagnostics) -> Option<Value> {
    node.to_json().map_err(|(span, why)| problems.push(Diagnostic::new("value", why, span))).ok()
}

fn read_type(node: &Node, problems: &mut Diagnostics) -> Option<Type> {
    // An unquoted `null` names the type.
    let name = if node.is_null() { "null" } else { text(node, "type", problems)? };
    let found = Type::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
    if found.is_none() {
        let names = || Type::NAMES.iter().map(|(name, _)| *name);
        let meant = match name.to_ascii_lowercase().as_str() {
            "int" => Some("integer"),
            "float" | "double" => Some("number"),
            "bool" => Some("boolean"),
            "list" => Some("array"),
            "map" | "dict" => Some("object"),
            "str" | "text" => Some("string"),
            "file" | "binary" | "bytes" => Some("blob"),
            other => closest(other, names()),
        };
        let hint = meant
            .map_or_else(|| format!("the types are {}", all_of(names())), |meant| format!("did you mean `{meant}`?"));
        let message = format!("there is no type `{}`", shorten(name));
        problems.push(Diagnostic::new("unknown-type", message, node.span).hint(hint));
    }
    found
}

fn read_format(node: &Node, problems: &mut Diagnostics) -> Option<Format> {
    let name = text(node, "format", problems)?;
    let found = Format::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format);
    if found.is_none() {
        let names = || Format::NAMES.iter().map(|(name, _)| *name);
        let hint = closest(name, names())
            .map_or_else(|| format!("the formats are {}", all_of(names())), |meant| format!("did you mean `{meant}`?"));
        let message = format!("there is no format `{}`", shorten(name));
        problems.push(Diagnostic::new("unknown-format", message, node.span).hint(hint));
    }
    found
}

fn read_enum(node: &Node, problems: &mut Diagnostics) -> Option<Vec<Value>> {
    let Some(items) = node.as_sequence().filter(|items| !items.is_empty()) else {
        let kind = if node.as_sequence().is_some() { "an empty one" } else { node.kind() };
        let message = format!("`enum` must be a list of values, not {kind}");
        problems.push(Diagnostic::new("type", message, node.span));
        return None;
    };
    Some(items.iter().filter_map(|item| plain(item, problems)).collect())
}

fn read_number(node: &Node, key: &str, problems: &mut Diagnostics) -> Option<f64> {
    let number = node.as_scalar().and_then(|scalar| scalar.to_json().ok()).and_then(|value| match value {
        Value::Number(number) => number.as_f64(),
        _ => None,
    });
    if number.is_none() {
        let message = format!("`{key}` must be a number, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span));
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn inputs(value: Value) -> Inputs {
        let Value::Object(members) = value else { panic!("an object") };
        let read = |(name, schema): (String, Value)| Input {
            name,
            required: schema.get("default").is_none(),
            schema: serde_json::from_value(schema).unwrap(),
        };
        Inputs(members.into_iter().map(read).collect())
    }

    fn violations(inputs: &Inputs, arguments: &[(&str, &str)]) -> Vec<String> {
        let mut given = Map::new();
        for (name, text) in arguments {
            match inputs.parse_argument(name, text) {
                Ok(value) => given.insert((*name).to_owned(), value),
                Err(why) => return vec![format!("{name}: {why}")],
            };
        }
        let found = inputs.accept(given).err().unwrap_or_default();
        found.into_iter().map(|one| format!("{} {}", one.pointer, one.message)).collect()
    }

    #[test]
    fn an_absent_optional_input_is_null_and_stays_so() {
        let mut inputs = inputs(json!({ "opt": { "type": ["string"] }, "n": { "type": ["integer"], "default": 3 } }));
        for input in &mut inputs.0 {
            input.required = false;
        }
        let once = inputs.accept(Map::new()).unwrap();
        assert_eq!(Value::from(once.clone()), json!({ "opt": null, "n": 3 }));
        assert_eq!(inputs.accept(once.clone()).unwrap(), once);
        let wrong = Map::from_iter([("n".to_owned(), Value::Null)]);
        assert!(inputs.accept(wrong).is_err());
    }

    /// Each violation names the input, the rule and the value.
    #[test]
    fn a_violation_is_described_in_terms_of_what_was_typed() {
        let inputs = inputs(json!({
            "n": { "type": ["integer"], "minimum": 1.0, "default": 1 },
            "urls": { "type": ["array"], "items": { "type": ["string"], "format": "uri" }, "default": [] },
            "when": { "type": ["string"], "enum": ["now", "later"] },
        }));
        let ok = ("when", "now");
        assert_eq!(violations(&inputs, &[ok]), [""; 0]);
        assert_eq!(violations(&inputs, &[]), ["/when is required (a string)"]);
        assert_eq!(violations(&inputs, &[ok, ("n", "abc")]), ["/n must be a whole number; it is \"abc\""]);
        assert_eq!(violations(&inputs, &[ok, ("n", "0")]), ["/n must be at least 1; it is 0"]);
        assert_eq!(
            violations(&inputs, &[ok, ("n", "[1,")]),
            ["n: must be a whole number, written as JSON; `[1,` is not"]
        );
        assert_eq!(
            violations(&inputs, &[ok, ("urls", "https://a.b/")]),
            ["/urls must be a list; it is \"https://a.b/\"; for a list of this one item, write [\"https://a.b/\"]"]
        );
        assert_eq!(
            violations(&inputs, &[ok, ("urls", "[\"https://a.b/\", \"x\"]")]),
            ["/urls/1 must be a URI (https://example.com); it is \"x\""]
        );
        assert_eq!(
            violations(&inputs, &[("when", "soon")]),
            ["/when must be one of \"now\", \"later\"; it is \"soon\""]
        );
        assert_eq!(violations(&inputs, &[ok, ("ulrs", "[]")]), ["/ulrs is not an input; did you mean `urls`?"]);
        assert_eq!(
            violations(&inputs, &[ok, ("x", "1")]),
            ["/x is not an input; the inputs are `n`, `urls` and `when`"]
        );
        // In the text of a file the line helps.
        assert!(violations(&inputs, &[ok, ("n", "a: 1\nb: [\n")])[0].contains("line"));
    }
}
