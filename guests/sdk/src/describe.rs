//! A component's own description: the optional export `describe`.

use serde_json::{Map, Value, json};

use crate::{Ctx, FromPayload};

/// The description of one entry.
#[derive(Clone, Debug)]
pub struct Described {
    /// The entry's name.
    pub name: &'static str,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
    /// The JSON Schema of its input.
    pub input: Option<Value>,
}

/// Returns the JSON Schema of an entry's input, which follows from its type; `None` if nothing can be
/// said of the type.
pub fn input_schema<I: FromPayload, F>(_: impl FnOnce(Ctx, I) -> F) -> Option<Value> {
    I::schema()
}

/// Returns a description as JSON: `description`, and `entries`, each with its `description` and the
/// JSON Schema of its `input` if they are given.
pub fn description(docs: &[&str], entries: &[Described]) -> String {
    let entries: Map<String, Value> = entries
        .iter()
        .map(|entry| {
            let mut value = described(entry.docs);
            if let Some(input) = &entry.input {
                value.insert("input".into(), input.clone());
            }
            (entry.name.into(), Value::Object(value))
        })
        .collect();
    let mut all = described(docs);
    all.insert("entries".into(), json!(entries));
    Value::Object(all).to_string()
}

fn described(docs: &[&str]) -> Map<String, Value> {
    let lines: Vec<&str> = docs.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let text = lines.join("\n");
    let mut value = Map::new();
    if !text.is_empty() {
        value.insert("description".into(), Value::String(text));
    }
    value
}

/// Exports the documentation given to [`export!`](crate::export) for a component and its entries.
#[doc(hidden)]
#[macro_export]
macro_rules! export_description {
    ($docs:expr, $entries:expr) => {
        const _: () = {
            struct Description;

            impl $crate::describing::exports::wfhost::process::describe::Guest for Description {
                fn describe() -> ::std::string::String {
                    $crate::description($docs, $entries)
                }
            }

            #[cfg(target_arch = "wasm32")]
            $crate::describing::export_description! { Description with_types_in $crate::describing }
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = $crate::describe_nowhere(&Description);
        };
    };
}

/// Uses a description that is not exported.
#[doc(hidden)]
pub const fn describe_nowhere<G: crate::describing::exports::wfhost::process::describe::Guest>(_: &G) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_told_is_said() {
        let entries = [
            Described { name: "run", docs: &[" Does it.", "", " All."], input: Some(json!({ "type": "string" })) },
            Described { name: "silent", docs: &[], input: None },
        ];
        let text = description(&[" A guest."], &entries);
        let value: Value = serde_json::from_str(&text).unwrap();
        let run = json!({ "description": "Does it.\n\nAll.", "input": { "type": "string" } });
        assert_eq!(value, json!({ "description": "A guest.", "entries": { "run": run, "silent": {} } }));
    }

    #[test]
    fn the_schema_follows_from_the_type_of_the_input() {
        async fn double(_: Ctx, n: u8) -> Result<u8, crate::Problem> {
            Ok(2 * n)
        }
        async fn any(_: Ctx, _: crate::Payload) -> Result<(), crate::Problem> {
            Ok(())
        }
        assert_eq!(input_schema(double), Some(json!({ "type": "integer", "minimum": 0, "maximum": 255 })));
        assert_eq!(input_schema(any), None);
    }
}
