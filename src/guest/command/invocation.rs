//! What a program is started with: the input of its step.
//!
//! ```yaml
//! with:
//!   args: [ "-i", "in.csv" ]        # texts, after the program's own name
//!   stdin: "text"                   # a text, { bytes: base64 }, a blob's content by its handle,
//!                                   # or any other value as JSON
//!   env: { LANG: en }               # texts by name
//!   files: { "in.csv": "a,b" }      # content by path below /, in the same forms as stdin
//!   parse: json                     # how stdout is read: text (default), lines, json, bytes, or
//!                                   # blob: it is stored, however large, and its handle answered
//!   expect: [ 0, 1 ]                # exit codes that are answers: [ 0 ] by default
//!   outputs: [ out.csv ]            # which files are answered; by default all new and changed ones
//! ```

use super::granted::GrantedFolders;
use crate::guest::wasi::files::tree::{BYTES_MAX, ENTRIES_MAX, File, Folder};
use crate::process::{Blob, Json, Payload, Problem};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kind of an input that does not fit, as of guests.
const BAD_INPUT: &str = "bad-input";

/// Bytes of arguments and environment together, with 16 for each text. Derived: the adapter of
/// preview 1 holds both in a page of its own, with its paths and descriptors.
const START_BYTES_MAX: usize = 32 << 10;

/// The one entry of a program.
pub(super) const ENTRY: &str = "run";

/// The input as it is written.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Written {
    args: Vec<String>,
    stdin: Option<Value>,
    env: BTreeMap<String, String>,
    files: BTreeMap<String, Value>,
    parse: Parse,
    expect: Option<Vec<u8>>,
    outputs: Option<Vec<String>>,
}

/// How standard output is read.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Parse {
    #[default]
    Text,
    Lines,
    Json,
    Bytes,
    Blob,
}

/// A start of a program.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) stdin: Content,
    pub(super) root: Arc<Folder>,
    /// Blobs that are files, by path.
    pub(super) blobs: Vec<(String, Blob)>,
    /// The files that it begins with, to tell which it has changed.
    pub(super) given: BTreeMap<String, Given>,
    pub(super) expected: Expected,
}

/// What a program is given to read.
#[derive(Debug, PartialEq)]
pub(super) enum Content {
    Bytes(Bytes),
    Blob(Blob),
}

/// A file that a program begins with.
#[derive(Debug)]
pub(super) struct Given {
    bytes: u64,
    hash: blake3::Hash,
}

impl Given {
    /// Whether a file still is as it was given. Only one of the same size is read.
    pub(super) fn is(&self, file: &File) -> bool {
        file.len() == self.bytes && blake3::hash(&file.bytes()) == self.hash
    }
}

/// What is made of what a program leaves.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) parse: Parse,
    pub(super) codes: Vec<u8>,
    pub(super) outputs: Option<Vec<String>>,
}

impl Invocation {
    /// The problem of a file that cannot be made.
    pub(super) fn no_file(path: &str, why: &str) -> Problem {
        bad(format!("the file `{path}` cannot be made: {why}"))
    }

    /// Whether blobs have to be opened, or made, for it.
    pub(super) fn needs_blobs(&self) -> bool {
        matches!(self.stdin, Content::Blob(_)) || !self.blobs.is_empty() || self.expected.parse == Parse::Blob
    }

    /// Reads the input of a process of the program with this name.
    ///
    /// # Errors
    /// The problem of an input that does not fit.
    pub(super) fn read(name: &str, granted: &GrantedFolders, entry: &str, input: &Payload) -> Result<Self, Problem> {
        if entry != ENTRY {
            return Err(Problem::new("unknown-entry", "The program has no such entry").with_detail(entry));
        }
        let Payload::Json(input) = input else { return Err(bad("the input of a program is JSON")) };
        if !input.as_str().trim_start().starts_with(['{', 'n']) {
            return Err(bad("the input of a program is an object: args, stdin, env, files, parse, expect, outputs"));
        }
        let written: Option<Written> = serde_json::from_str(input.as_str()).map_err(|error| bad(error.to_string()))?;
        let Written { args, stdin, env, files, parse, expect, outputs } = written.unwrap_or_default();
        let has_nul = |text: &String| text.contains('\0');
        if args.iter().any(has_nul) || env.iter().any(|(name, value)| has_nul(name) || has_nul(value)) {
            return Err(bad("arguments and environment cannot contain the character NUL"));
        }
        if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains('=')) {
            return Err(bad(format!("`{name}` cannot name a variable of the environment")));
        }
        let names = env.iter().flat_map(|(name, value)| [name, value]);
        let bytes: usize = args.iter().chain(names).map(|text| text.len() + 16).sum();
        if bytes > START_BYTES_MAX {
            return Err(bad(format!(
                "arguments and environment have {bytes} bytes (16 for each text included) of at most \
                {START_BYTES_MAX}; longer content goes into `stdin` or `files`"
            )));
        }
        let root = Folder::root();
        granted.mount(&root);
        let (mut given, mut blobs) = (BTreeMap::new(), Vec::new());
        for (path, value) in files {
            let content = content(&value).map_err(|why| bad(format!("the file `{path}`: {why}")))?;
            let content = match content {
                Content::Bytes(bytes) => bytes,
                Content::Blob(blob) => {
                    blobs.push((path, blob));
                    continue;
                }
            };
            let place = path.strip_prefix('/').unwrap_or(&path);
            root.put(place, &content).map_err(|error| Self::no_file(&path, &error.to_string()))?;
            given.insert(place.to_owned(), Given { bytes: content.len() as u64, hash: blake3::hash(&content) });
        }
        let nothing = Ok(Content::Bytes(Bytes::new()));
        let stdin = stdin.as_ref().map_or(nothing, content).map_err(|why| bad(format!("stdin: {why}")))?;
        Ok(Self {
            arguments: std::iter::once(name.to_owned()).chain(args).collect(),
            environment: env.into_iter().collect(),
            stdin,
            root,
            blobs,
            given,
            expected: Expected { parse, codes: expect.unwrap_or_else(|| vec![0]), outputs },
        })
    }
}

/// The bytes of a text, of `{ bytes: base64 }`, of a blob, or of any other value as JSON.
fn content(value: &Value) -> Result<Content, String> {
    if let Some(blob) = Blob::of_value(value) {
        return Ok(Content::Blob(blob));
    }
    bytes_of(value).map(|bytes| Content::Bytes(bytes.into()))
}

fn bytes_of(value: &Value) -> Result<Vec<u8>, String> {
    match value {
        Value::String(text) => Ok(text.clone().into_bytes()),
        Value::Object(fields) if fields.len() == 1 && fields.contains_key("bytes") => {
            let text = fields["bytes"].as_str().ok_or("`bytes` is a text in base64")?;
            STANDARD.decode(text).map_err(|error| format!("`bytes` is not base64: {error}"))
        }
        other => Ok(other.to_string().into_bytes()),
    }
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(BAD_INPUT, "The input does not fit the program").with_detail(detail)
}

/// The entry as components describe theirs.
pub(super) fn description() -> Json {
    let content = json!({ "description": "a text, { bytes: base64 }, a blob, or any other value as JSON" });
    let text = json!({ "type": "string" });
    Json::from_value(&json!({
        "description": "A program for the command line.",
        "entries": { ENTRY: {
            "description": "Runs it once.",
            "input": {
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": {
                    "args": { "type": "array", "items": text },
                    "stdin": content,
                    "env": { "type": "object", "additionalProperties": text },
                    "files": { "type": "object", "additionalProperties": content, "maxProperties": ENTRIES_MAX },
                    "parse": { "enum": ["text", "lines", "json", "bytes", "blob"] },
                    "expect": { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 255 } },
                    "outputs": { "type": "array", "items": text },
                },
            },
            "output": {
                "type": "object",
                "properties": { "stdout": {}, "stderr": text, "code": { "type": "integer" }, "files": { "type": "object" } },
            },
        } },
        "limits": { "files-bytes": BYTES_MAX, "files": ENTRIES_MAX },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &Value) -> Result<Invocation, Problem> {
        Invocation::read("tool", &GrantedFolders::default(), ENTRY, &Payload::Json(Json::from_value(input)))
    }

    #[test]
    fn an_input_is_what_the_program_sees() {
        let found = read(&json!({
            "args": ["-x", "é"], "stdin": { "a": [1] }, "env": { "LANG": "en" },
            "files": { "/in/a.txt": "text", "b.bin": { "bytes": "AAE=" }, "c.json": [1, null] },
            "parse": "lines", "expect": [0, 3], "outputs": ["out"],
        }))
        .unwrap();
        assert_eq!(found.arguments, ["tool", "-x", "é"]);
        assert_eq!(found.stdin, Content::Bytes(Bytes::from_static(b"{\"a\":[1]}")));
        assert_eq!(found.environment, [("LANG".into(), "en".into())]);
        let files: Vec<_> = found.root.files().into_iter().map(|(path, file)| (path, file.bytes())).collect();
        let expected = [("b.bin", &b"\0\x01"[..]), ("c.json", b"[1,null]"), ("in/a.txt", b"text")];
        assert_eq!(files, expected.map(|(path, bytes)| (path.to_owned(), bytes.to_vec())));
        assert_eq!((found.expected.parse, found.expected.codes), (Parse::Lines, vec![0, 3]));
        let nothing = read(&Value::Null).unwrap();
        assert_eq!((nothing.arguments, nothing.expected.codes), (vec!["tool".to_owned()], vec![0]));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (input, expected) in [
            (json!([]), "is an object"),
            (json!("x"), "is an object"),
            (json!({ "arguments": [] }), "unknown field `arguments`"),
            (json!({ "args": "x" }), "invalid type"),
            (json!({ "args": ["a\0b"] }), "NUL"),
            (json!({ "env": { "A=B": "" } }), "`A=B`"),
            (json!({ "files": { "../x": "" } }), "`../x`"),
            (json!({ "files": { "a": "", "a/b": "" } }), "`a/b`"),
            (json!({ "files": { "a": { "bytes": "?" } } }), "not base64"),
            (json!({ "stdin": { "bytes": 1 } }), "base64"),
            (json!({ "parse": "yaml" }), "unknown variant `yaml`"),
            (json!({ "expect": [256] }), "256"),
        ] {
            let problem = read(&input).unwrap_err();
            let detail = problem.detail.unwrap();
            assert!(problem.kind == BAD_INPUT && detail.contains(expected), "{input}: {detail}");
        }
        let problem = Invocation::read("tool", &GrantedFolders::default(), "main", &Payload::NULL).unwrap_err();
        assert_eq!(problem.kind, "unknown-entry");
    }
}
