//! The schema of an input for readers: JSON Schema for programs, a short summary for people.

use super::schema::{Schema, Type};
use serde_json::{Map, Value, json};

/// Values of an `enum` that a summary lists. Arbitrary.
const CHOICES_SHOWN_MAX: usize = 6;

impl Schema {
    /// Writes it as JSON Schema (draft 2020-12).
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                object.insert(key.to_owned(), value);
            }
        };
        put(
            "type",
            match self.types.as_slice() {
                [] => None,
                [only] => Some(json!(in_json(*only))),
                several => Some(several.iter().map(|kind| in_json(*kind)).collect()),
            },
        );
        // To JSON Schema, a handle is an object.
        put("format", self.types.contains(&Type::Blob).then(|| json!("blob")));
        put("title", self.title.as_ref().map(|text| json!(text)));
        put("description", self.description.as_ref().map(|text| json!(text)));
        put("default", self.default.clone());
        put("enum", self.one_of.as_ref().map(|all| json!(all)));
        put("format", self.format.map(|format| json!(format.name())));
        put("minimum", self.minimum.map(number));
        put("maximum", self.maximum.map(number));
        put("exclusiveMinimum", self.exclusive_minimum.map(number));
        put("exclusiveMaximum", self.exclusive_maximum.map(number));
        put("minLength", self.min_length.map(|count| json!(count)));
        put("maxLength", self.max_length.map(|count| json!(count)));
        put("items", self.items.as_ref().map(|items| items.to_json()));
        put("minItems", self.min_items.map(|count| json!(count)));
        put("maxItems", self.max_items.map(|count| json!(count)));
        put("uniqueItems", self.unique_items.then(|| json!(true)));
        let properties = self.properties.iter().map(|(name, schema)| (name.clone(), schema.to_json()));
        put("properties", (!self.properties.is_empty()).then(|| Value::Object(properties.collect())));
        put("required", (!self.required.is_empty()).then(|| json!(self.required)));
        put("maxBytes", self.max_bytes.map(|bytes| json!(bytes)));
        put("additionalProperties", self.additional_properties.map(|may| json!(may)));
        Value::Object(object)
    }

    /// Summarizes it: `string`, `integer from 1 to 20`, `list of string (uri), at most 1000`.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = match self.types.as_slice() {
            [] if self.one_of.is_some() => String::new(),
            [] => "anything".to_owned(),
            kinds => kinds.iter().map(|kind| self.type_in_brief(*kind)).collect::<Vec<_>>().join(" or "),
        };
        if let Some(format) = self.format {
            text.push_str(&format!(" ({})", format.name()));
        }
        if let Some(choices) = &self.one_of {
            let more = if choices.len() > CHOICES_SHOWN_MAX { ", …" } else { "" };
            let shown: Vec<String> = choices.iter().take(CHOICES_SHOWN_MAX).map(Value::to_string).collect();
            let blank = if text.is_empty() { "" } else { ": " };
            text.push_str(&format!("{blank}{}{more}", shown.join(" | ")));
        }
        let bounds = [
            range(self.minimum, self.maximum, ""),
            self.exclusive_minimum.map(|bound| format!("more than {bound}")),
            self.exclusive_maximum.map(|bound| format!("less than {bound}")),
            range(self.min_length, self.max_length, " characters"),
            range(self.min_items, self.max_items, " items"),
            range(None, self.max_bytes, " bytes"),
        ];
        for bound in bounds.into_iter().flatten() {
            text.push_str(&format!(", {bound}"));
        }
        text
    }

    fn type_in_brief(&self, kind: Type) -> String {
        match (kind, &self.items) {
            (Type::Array, Some(items)) => format!("list of {}", items.summary()),
            (Type::Array, None) => "list".to_owned(),
            (Type::Object, _) if !self.properties.is_empty() => {
                let names: Vec<&str> = self.properties.iter().map(|(name, _)| name.as_str()).collect();
                format!("object {{ {} }}", names.join(", "))
            }
            _ => kind.name().to_owned(),
        }
    }
}

/// The name of a type in JSON Schema.
fn in_json(kind: Type) -> &'static str {
    if kind == Type::Blob { Type::Object.name() } else { kind.name() }
}

/// An integer if the number is whole.
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 { json!(number as i64) } else { json!(number) }
}

fn range<T: std::fmt::Display>(least: Option<T>, most: Option<T>, of: &str) -> Option<String> {
    match (least, most) {
        (None, None) => None,
        (Some(least), None) => Some(format!("at least {least}{of}")),
        (None, Some(most)) => Some(format!("at most {most}{of}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}{of}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_for_programs_and_for_people() {
        let schema: Schema = serde_json::from_value(json!({
            "type": ["array"], "maxItems": 9, "items": { "type": ["object"], "required": ["n"],
                "properties": [["n", { "type": ["integer", "null"], "minimum": 1.0, "maximum": 2.5, "default": null }]] },
        }))
        .unwrap();
        assert_eq!(
            schema.to_json(),
            json!({
                "type": "array", "maxItems": 9, "items": { "type": "object", "required": ["n"],
                    "properties": { "n": { "type": ["integer", "null"], "minimum": 1, "maximum": 2.5, "default": null } } },
            })
        );
        assert_eq!(schema.summary(), "list of object { n }, at most 9 items");
        let summary = |value| serde_json::from_value::<Schema>(value).unwrap().summary();
        assert_eq!(summary(json!({ "type": ["integer"], "minimum": 1.0, "maximum": 20.0 })), "integer, 1 to 20");
        assert_eq!(
            summary(json!({ "type": ["string"], "format": "uri", "minLength": 3 })),
            "string (uri), at least 3 characters"
        );
        assert_eq!(summary(json!({ "enum": ["now", 1] })), "\"now\" | 1");
        assert_eq!(summary(json!({})), "anything");
    }
}
