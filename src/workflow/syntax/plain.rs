//! Plain values: input files and arguments of the command line, in YAML or JSON. Their problems
//! need no positions, so a reader that stops at the first error is enough; a workflow file is read
//! by [`super::parse`].

use serde_json::Value;

/// Reads one value.
///
/// # Errors
/// Says what is wrong with the text, and where.
pub fn read_value(text: &str) -> Result<Value, String> {
    if text.len() > super::VALUE_BYTES_MAX {
        return Err(format!("the input has {} bytes, more than the {} allowed", text.len(), super::VALUE_BYTES_MAX));
    }
    // JSON first: it is a subset, keeps the digits of numbers, and large input files are usually
    // JSON.
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let value: serde_yaml::Value = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    to_json(value)
}

fn to_json(value: serde_yaml::Value) -> Result<Value, String> {
    use serde_yaml::Value as Yaml;
    Ok(match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(value),
        Yaml::Number(number) => {
            let text = number.to_string();
            serde_json::from_str(&text).map_err(|_| format!("JSON has no number {text}"))?
        }
        Yaml::String(text) => Value::String(text),
        Yaml::Sequence(items) => Value::Array(items.into_iter().map(to_json).collect::<Result<_, _>>()?),
        Yaml::Mapping(entries) => {
            let mut object = serde_json::Map::new();
            for (key, value) in entries {
                let Yaml::String(key) = key else { return Err("a key is not a string".to_owned()) };
                object.insert(key, to_json(value)?);
            }
            Value::Object(object)
        }
        Yaml::Tagged(tagged) => return Err(format!("the tag {} is not supported", tagged.tag)),
    })
}
