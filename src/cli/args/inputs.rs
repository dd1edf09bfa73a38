//! `--input`: from words of the command line to a workflow's inputs.

use crate::cli::report::error::{UserError, kind};
use crate::cli::terminal::quoted;
use serde_json::{Map, Value};
use std::io::Read as _;
use std::path::Path;

/// How to give inputs.
pub(in crate::cli) const INPUT_HINT: &str = "--input key=value, --input key=@file, or --input @file.json";

/// Larger than any payload may be; what fits is decided when the run starts.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The hint for data that is too large.
const ELSEWHERE: &str =
    "the inputs of a run have at most 16 MiB; an input that is declared as `type: blob` takes a file of any size";

/// Why something cannot be read, and a hint if rewriting it does not help.
#[derive(Debug)]
pub(in crate::cli) struct Unread {
    pub(in crate::cli) message: String,
    pub(in crate::cli) hint: Option<String>,
}

impl From<Unread> for UserError {
    fn from(why: Unread) -> Self {
        Self::new(kind::BAD_INPUT, why.message).hint(why.hint.unwrap_or_else(|| INPUT_HINT.to_owned()))
    }
}

impl From<String> for Unread {
    fn from(message: String) -> Self {
        Self { message, hint: None }
    }
}

/// Stores the file of an input with this name as a blob, and gives its handle; `None` if it is read
/// as text.
pub(in crate::cli) type Store<'a> = dyn FnMut(&str, &str) -> Result<Option<Value>, Unread> + 'a;

/// Reads the specifications in order; later ones win. `parse` makes a value of an input's name and
/// text, according to its declaration, and `store` a blob of its name and file.
///
/// # Errors
/// A sentence for the user.
pub(in crate::cli) fn read(
    specifications: &[String],
    parse: impl Fn(&str, &str) -> Result<Value, String>,
    store: &mut Store<'_>,
) -> Result<Map<String, Value>, Unread> {
    let mut inputs = Map::new();
    for specification in specifications {
        if let Some(path) = specification.strip_prefix('@') {
            let text = read_file(path)?;
            match serde_json::from_str(&text) {
                Ok(Value::Object(object)) => inputs.extend(object),
                Ok(_) => return Err(format!("{path}: expected a JSON object of inputs").into()),
                Err(error) => return Err(format!("{path}:{}:{}: {error}", error.line(), error.column()).into()),
            }
            continue;
        }
        let Some((key, value)) = specification.split_once('=') else {
            let given = quoted(specification);
            return Err(format!("--input {given}: expected key=value, key=@file or @file.json").into());
        };
        let path = value.strip_prefix('@');
        if let Some(path) = path
            && let Some(blob) = store(key, path)?
        {
            inputs.insert(key.to_owned(), blob);
            continue;
        }
        let value = match path {
            Some(path) => read_file(path)?,
            None => value.to_owned(),
        };
        let value = parse(key, &value).map_err(|error| format!("--input {key}: {error}"))?;
        inputs.insert(key.to_owned(), value);
    }
    Ok(inputs)
}

/// The text of a file, or of standard input for `-`.
pub(in crate::cli) fn read_file(path: &str) -> Result<String, Unread> {
    let reader: Box<dyn std::io::Read> = if path == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(Path::new(path)).map_err(|error| format!("{path}: {error}"))?)
    };
    let mut text = String::new();
    reader.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| format!("{path}: {error}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("{path}: larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(Unread { message, hint: Some(ELSEWHERE.to_owned()) });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::read as read_storing;
    use serde_json::{Value, json};

    fn read(
        words: &[String],
        parse: impl Fn(&str, &str) -> Result<Value, String>,
    ) -> Result<serde_json::Map<String, Value>, super::Unread> {
        read_storing(words, parse, &mut |_, _| Ok(None))
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// Every input is text but `n`.
    fn parse(key: &str, text: &str) -> Result<Value, String> {
        if key == "n" { serde_json::from_str(text).map_err(|error| error.to_string()) } else { Ok(text.into()) }
    }

    #[test]
    fn later_ones_win() {
        let inputs = read(&words(&["n=5", "s=5", "n=6"]), parse).unwrap();
        assert_eq!(Value::Object(inputs), json!({"n": 6, "s": "5"}));
    }

    #[test]
    fn a_file_gives_an_object_or_a_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.json");
        std::fs::write(&path, "{\"a\": 1, \"n\": [2]}").unwrap();
        let path = path.to_str().unwrap();
        let inputs = read(&words(&[&format!("@{path}"), "n=2"]), parse).unwrap();
        assert_eq!(Value::Object(inputs), json!({"a": 1, "n": 2}));
        let inputs = read(&words(&[&format!("text=@{path}")]), parse).unwrap();
        assert_eq!(inputs["text"], "{\"a\": 1, \"n\": [2]}");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert!(read(&words(&["novalue"]), parse).unwrap_err().message.contains("key=value"));
        assert!(read(&words(&["@/does/not/exist"]), parse).unwrap_err().message.contains("/does/not/exist"));
        assert!(read(&words(&["n=x"]), parse).unwrap_err().message.starts_with("--input n: "));
    }

    #[test]
    fn what_is_too_large_has_another_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(super::FILE_BYTES_MAX + 1).unwrap();
        let unread = read(&words(&[&format!("n=@{}", file.path().display())]), parse).unwrap_err();
        assert!(unread.message.ends_with("larger than 64 MiB") && unread.hint.unwrap().contains("16 MiB"));
    }
}
