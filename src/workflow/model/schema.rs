//! The subset of JSON Schema in which inputs are declared, and the check of a value against it.
//!
//! Each keyword means what it means in JSON Schema 2020-12. A keyword outside the subset is
//! reported when the file is read, never silently ignored.
//!
//! *Rejected*: the crate `jsonschema`. Without its default features it still brings about 40
//! crates, among them big integers and two regex engines, and its messages name schema paths where
//! people look for their input.

use crate::process::Blob;
use crate::workflow::diagnostics::closest;
use serde_json::{Map, Value};

/// A type of JSON values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// Text.
    String,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A list.
    Array,
    /// A mapping.
    Object,
    /// Nothing.
    Null,
    /// The handle of a blob: an object with its digest, size and media type.
    Blob,
}

impl Type {
    pub(crate) const NAMES: [(&'static str, Self); 8] = [
        ("string", Self::String),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
        ("array", Self::Array),
        ("object", Self::Object),
        ("null", Self::Null),
        ("blob", Self::Blob),
    ];

    /// Its name in JSON Schema.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).expect("invariant: every type has a name").0
    }

    /// Its name in a sentence, with its article.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Array => "a list",
            Self::Object => "an object",
            Self::Null => "null",
            Self::Blob => "a blob",
        }
    }

    fn holds(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Integer => value.as_i64().is_some() || value.as_u64().is_some() || is_whole(value),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
            Self::Null => value.is_null(),
            Self::Blob => Blob::of_value(value).is_some(),
        }
    }
}

fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// A check of a string beyond its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// An absolute URI.
    Uri,
    /// A full date: 2026-01-31.
    Date,
    /// Date, time and offset of RFC 3339.
    DateTime,
    /// Something with an `@` between two parts.
    Email,
    /// 8-4-4-4-12 hexadecimal digits.
    Uuid,
    /// A duration as in `wait`: 30s.
    Duration,
}

impl Format {
    pub(crate) const NAMES: [(&'static str, Self); 6] = [
        ("uri", Self::Uri),
        ("date", Self::Date),
        ("date-time", Self::DateTime),
        ("email", Self::Email),
        ("uuid", Self::Uuid),
        ("duration", Self::Duration),
    ];

    /// Its name in JSON Schema.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, format)| *format == self).expect("invariant: every format has a name").0
    }

    /// Its name in a sentence, with an example.
    fn words(self) -> &'static str {
        match self {
            Self::Uri => "a URI (https://example.com)",
            Self::Date => "a date (2026-01-31)",
            Self::DateTime => "a date and time (2026-01-31T12:00:00Z)",
            Self::Email => "an e-mail address (ann@example.com)",
            Self::Uuid => "a UUID (123e4567-e89b-12d3-a456-426614174000)",
            Self::Duration => "a duration (30s)",
        }
    }

    fn holds(self, text: &str) -> bool {
        match self {
            Self::Uri => url::Url::parse(text).is_ok(),
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::DateTime => text.parse::<jiff::Timestamp>().is_ok(),
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace) && !host.contains('@')
            }),
            Self::Uuid => {
                text.len() == 36
                    && text.bytes().enumerate().all(|(at, byte)| match at {
                        8 | 13 | 18 | 23 => byte == b'-',
                        _ => byte.is_ascii_hexdigit(),
                    })
            }
            Self::Duration => super::durations::parse_duration(text).is_ok(),
        }
    }
}

/// The constraints on a value.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Schema {
    /// The allowed types; empty for any type.
    #[serde(rename = "type", skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<Type>,
    /// A short name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// An explanation for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The value of an absent input.
    #[serde(skip_serializing_if = "Option::is_none", with = "present")]
    pub default: Option<Value>,
    /// The allowed values.
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Value>>,
    /// The form of a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Inclusive lower bound of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// Inclusive upper bound of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// Exclusive lower bound of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_minimum: Option<f64>,
    /// Exclusive upper bound of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_maximum: Option<f64>,
    /// Fewest characters of a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// Most characters of a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// The schema of each item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Schema>>,
    /// Fewest items of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u64>,
    /// Most items of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    /// Whether no two items may be equal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unique_items: bool,
    /// The schemas of keys, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<(String, Schema)>,
    /// Keys that an object must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// Most bytes of a blob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// If false, an object may have no keys beyond `properties`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<bool>,
}

/// Keeps a default of null apart from no default.
mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    // The signature that serde's attribute `with` wants.
    #[allow(clippy::ref_option)]
    pub(super) fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        Value::deserialize(deserializer).map(Some)
    }
}

/// What is wrong with a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// JSON Pointer to the part of the value.
    pub pointer: String,
    /// The rule and the actual value: `must be a list; it is 5`.
    pub message: String,
}

/// Most violations reported for one value. Arbitrary.
const VIOLATIONS_MAX: usize = 20;
/// Values of an `enum` that a message lists. Arbitrary.
const CHOICES_SHOWN_MAX: usize = 10;

impl Schema {
    /// Returns the violations of a value, at most a fixed number of them.
    #[must_use]
    pub fn check(&self, value: &Value) -> Vec<Violation> {
        let mut found = Vec::new();
        self.check_at(value, &mut String::new(), &mut found);
        found
    }

    /// The allowed types, in a sentence.
    pub(super) fn types_in_words(&self) -> String {
        let words: Vec<&str> = self.types.iter().map(|kind| kind.words()).collect();
        words.join(" or ")
    }

    pub(super) fn check_at(&self, value: &Value, pointer: &mut String, found: &mut Vec<Violation>) {
        if found.len() >= VIOLATIONS_MAX {
            return;
        }
        let mut report = |message: String| found.push(Violation { pointer: pointer.clone(), message });
        if !self.types.is_empty() && !self.types.iter().any(|kind| kind.holds(value)) {
            return report(format!("must be {}; it is {}", self.types_in_words(), describe(value)));
        }
        if let Some(allowed) = &self.one_of
            && !allowed.iter().any(|one| same(one, value))
        {
            let more = if allowed.len() > CHOICES_SHOWN_MAX { ", …" } else { "" };
            let choices: Vec<_> = allowed.iter().take(CHOICES_SHOWN_MAX).map(Value::to_string).collect();
            report(match choices.as_slice() {
                [only] => format!("must be {only}; it is {}", describe(value)),
                _ => format!("must be one of {}{more}; it is {}", choices.join(", "), describe(value)),
            });
        }
        match value {
            Value::Number(_) => self.check_number(value, &mut report),
            Value::String(text) => self.check_text(text, &mut report),
            Value::Array(items) => self.check_items(items, pointer, found),
            Value::Object(_) if Type::Blob.holds(value) && !self.types.contains(&Type::Object) => {
                let size = Blob::of_value(value).map_or(0, |blob| blob.size);
                if let Some(most) = self.max_bytes.filter(|most| size > *most) {
                    report(format!("must have at most {most} bytes; it has {size}"));
                }
            }
            Value::Object(object) => self.check_object(object, pointer, found),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_number(&self, value: &Value, report: &mut impl FnMut(String)) {
        let Some(number) = value.as_f64() else { return };
        let bounds = [
            (self.minimum, "at least", number < self.minimum.unwrap_or(number)),
            (self.maximum, "at most", number > self.maximum.unwrap_or(number)),
            (self.exclusive_minimum, "more than", self.exclusive_minimum.is_some_and(|bound| number <= bound)),
            (self.exclusive_maximum, "less than", self.exclusive_maximum.is_some_and(|bound| number >= bound)),
        ];
        for (bound, relation, broken) in bounds {
            if let (Some(bound), true) = (bound, broken) {
                report(format!("must be {relation} {bound}; it is {value}"));
            }
        }
    }

    fn check_text(&self, text: &str, report: &mut impl FnMut(String)) {
        let length = text.chars().count() as u64;
        if let Some(least) = self.min_length.filter(|least| length < *least) {
            report(format!("must have at least {least} characters; it has {length}"));
        }
        if let Some(most) = self.max_length.filter(|most| length > *most) {
            report(format!("must have at most {most} characters; it has {length}"));
        }
        if let Some(format) = self.format.filter(|format| !format.holds(text)) {
            report(format!("must be {}; it is {}", format.words(), describe(&Value::String(text.to_owned()))));
        }
    }

    fn check_items(&self, items: &[Value], pointer: &mut String, found: &mut Vec<Violation>) {
        let mut report = |message: String| found.push(Violation { pointer: pointer.clone(), message });
        let count = items.len() as u64;
        if let Some(least) = self.min_items.filter(|least| count < *least) {
            report(format!("must have at least {least} items; it has {count}"));
        }
        if let Some(most) = self.max_items.filter(|most| count > *most) {
            report(format!("must have at most {most} items; it has {count}"));
        }
        if self.unique_items {
            let mut seen = std::collections::BTreeSet::new();
            if let Some(twice) = items.iter().position(|item| !seen.insert(item.to_string())) {
                report(format!("must not repeat an item; {} is repeated", describe(&items[twice])));
            }
        }
        let Some(schema) = &self.items else { return };
        for (index, item) in items.iter().enumerate() {
            below(pointer, &index.to_string(), |pointer| schema.check_at(item, pointer, found));
        }
    }

    fn check_object(&self, object: &Map<String, Value>, pointer: &mut String, found: &mut Vec<Violation>) {
        for key in self.required.iter().filter(|key| !object.contains_key(*key)) {
            found.push(Violation { pointer: pointer.clone(), message: format!("`{key}` is missing") });
        }
        for (key, value) in object {
            match self.properties.iter().find(|(name, _)| name == key) {
                Some((_, schema)) => below(pointer, key, |pointer| schema.check_at(value, pointer, found)),
                None if self.additional_properties == Some(false) => {
                    let names = self.properties.iter().map(|(name, _)| name.as_str());
                    let hint = closest(key, names).map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
                    let message = format!("there is no key `{}`{hint}", super::fields::shorten(key));
                    found.push(Violation { pointer: pointer.clone(), message });
                }
                None => {}
            }
        }
    }
}

/// Calls `then` with the pointer extended by a key.
fn below(pointer: &mut String, key: &str, then: impl FnOnce(&mut String)) {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
    then(pointer);
    pointer.truncate(length);
}

/// Equality of JSON values: 1 and 1.0 are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// A value for a message, shortened if it is long.
fn describe(value: &Value) -> String {
    match value {
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        _ => super::fields::shorten(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: Value) -> Schema {
        serde_json::from_value(value).unwrap()
    }

    fn violations(schema: &Schema, value: &Value) -> Vec<String> {
        schema.check(value).into_iter().map(|v| format!("{} {}", v.pointer, v.message)).collect()
    }

    #[test]
    fn every_violation_is_reported_with_its_pointer() {
        let schema = schema(json!({
            "type": ["array"], "minItems": 2, "uniqueItems": true,
            "items": {"type": ["object"], "required": ["url"], "additionalProperties": false,
                "properties": [["url", {"type": ["string"], "format": "uri"}], ["n", {"type": ["integer"], "minimum": 1.0, "exclusiveMaximum": 9.0}]]},
        }));
        assert!(violations(&schema, &json!([{"url": "https://a.b/"}, {"url": "x:y", "n": 8}])).is_empty());
        assert_eq!(
            violations(&schema, &json!([{"url": "nope", "n": 9, "z/~": 1}])),
            [
                " must have at least 2 items; it has 1",
                "/0/url must be a URI (https://example.com); it is \"nope\"",
                "/0/n must be less than 9; it is 9",
                "/0 there is no key `z/~`",
            ]
        );
        assert_eq!(
            violations(&schema, &json!([{"n": 0}, {"n": 0}])),
            [
                " must not repeat an item; an object is repeated",
                "/0 `url` is missing",
                "/0/n must be at least 1; it is 0",
                "/1 `url` is missing",
                "/1/n must be at least 1; it is 0",
            ]
        );
        assert_eq!(violations(&schema, &json!("x")), [" must be a list; it is \"x\""]);
    }

    #[test]
    fn one_and_one_point_zero_are_one_integer() {
        let schema = schema(json!({"type": ["integer"], "enum": [1, 2]}));
        let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert!(violations(&schema, &number("1.0")).is_empty());
        assert!(violations(&schema, &number("2")).is_empty());
        assert_eq!(violations(&schema, &number("1.5")), [" must be a whole number; it is 1.5"]);
        assert_eq!(violations(&schema, &number("3")), [" must be one of 1, 2; it is 3"]);
    }

    #[test]
    fn formats() {
        let cases = [
            ("uri", "https://example.com/", "/relative"),
            ("date", "2026-02-28", "2026-02-30"),
            ("date-time", "2026-02-28T10:00:00Z", "2026-02-28 10:00"),
            ("email", "a@b.c", "a b@c"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
            ("duration", "5m", "soon"),
        ];
        for (name, good, bad) in cases {
            let schema = schema(json!({"format": name}));
            assert!(violations(&schema, &json!(good)).is_empty(), "{name} {good}");
            assert_eq!(violations(&schema, &json!(bad)).len(), 1, "{name} {bad}");
        }
    }
}
