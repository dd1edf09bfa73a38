//! The key-value store of a run, behind the handler named `kv`. Its operations are decided at
//! commit, like names: they happen in the order of the log, and need no answer from outside.
//!
//! Arguments are a JSON object with `op`: `get {key}`, `set {key, value}`, `delete {key}`, `list
//! {prefix?, after?, limit?}`, or `compare-and-set {key, expected?, value?}`, where an absent
//! `expected` means "there is no such key" and an absent `value` deletes. `get` answers the value
//! or null; `set` and `delete` answer null; `list` answers the keys in order; `compare-and-set`
//! answers `{"done": bool, "value": what is there now}`.

pub(crate) use crate::process::handler::KV as NAME;
use crate::process::{Json, Payload, Problem, problem::kind};
use crate::run::record::kinds::Bounds;
use serde_json::Value;
#[cfg(feature = "wasm")]
use serde_json::json;
use std::collections::BTreeMap;

/// The longest key. Arbitrary.
const KEY_BYTES_MAX: usize = 1_024;
/// The most keys of one `list`. Arbitrary.
const LIST_MAX: usize = 1_000;

/// The keys and values of a run.
#[derive(Default)]
pub(in crate::run) struct Kv {
    /// Values are stored as texts, which take as many bytes as are counted for them and are
    /// answered without a copy.
    values: BTreeMap<String, Kept>,
    bytes: u64,
    /// The change of the call that was just decided, until it is applied.
    decided: Option<Change>,
}

/// A value, and the length of its key as JSON: so the size of a list is known before it is made.
struct Kept {
    value: Json,
    key_bytes: u32,
}

/// Why an operation is refused.
#[derive(Debug)]
pub(in crate::run) enum Refused {
    /// The store would become larger than its bounds.
    Full(Problem),
    /// The answer would have this many bytes.
    Answer(u64),
}

/// The arguments of a call of `kv`. They are read before the commit lock is taken.
#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::run) struct Arguments {
    op: Operation,
    key: Option<String>,
    #[serde(default, deserialize_with = "written")]
    value: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    expected: Option<Value>,
    prefix: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Operation {
    Get,
    Set,
    Delete,
    List,
    CompareAndSet,
}

/// The JSON Schema of the arguments: those of one operation, or what all have in common if `op`
/// names none.
#[cfg(feature = "wasm")]
pub(crate) fn schema(op: Option<&str>) -> Value {
    let (takes, needs): (&[&str], &[&str]) = match op {
        Some("get" | "delete") => (&["key"], &["key"]),
        Some("set") => (&["key", "value"], &["key", "value"]),
        Some("compare-and-set") => (&["key", "expected", "value"], &["key"]),
        Some("list") => (&["prefix", "after", "limit"], &[]),
        _ => (&["key", "value", "expected", "prefix", "after", "limit"], &[]),
    };
    let property = |name: &str| match name {
        "key" => json!({ "type": "string", "maxLength": KEY_BYTES_MAX }),
        "value" | "expected" => json!(true),
        "limit" => json!({ "type": "integer", "minimum": 0 }),
        _ => json!({ "type": "string" }),
    };
    let operations = ["get", "set", "delete", "list", "compare-and-set"];
    let mut properties = serde_json::Map::from_iter([("op".to_owned(), json!({ "enum": operations }))]);
    properties.extend(takes.iter().map(|name| ((*name).to_owned(), property(name))));
    let required: Vec<&str> = std::iter::once("op").chain(needs.iter().copied()).collect();
    let example = match op {
        Some("set") => json!({ "op": "set", "key": "name", "value": 1 }),
        Some(op) if needs.contains(&"key") => json!({ "op": op, "key": "name" }),
        _ => json!({ "op": "get", "key": "name" }),
    };
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
        "examples": [example],
    })
}

/// Distinguishes a field that is null from one that is absent.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    serde::Deserialize::deserialize(deserializer).map(Some)
}

/// Like [`present`], for a value that is stored: it is normalised, whatever white space and escapes
/// it came with.
fn written<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Ok(present(deserializer)?.as_ref().map(Json::from_value))
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(kind::BAD_ARGUMENTS, "The arguments do not fit the handler kv").with_detail(detail)
}

fn size(key: &str, value: &Json) -> u64 {
    (key.len() + value.as_bytes().len()) as u64
}

/// Returns whether a stored value equals another one, up to the order of members. Equal values have
/// equal lengths, so a value much longer than the caller's is never read.
fn is_equal(kept: Option<&Json>, expected: Option<&Value>) -> bool {
    match (kept, expected) {
        (None, None) => true,
        (Some(kept), Some(expected)) => {
            let text = Json::from_value(expected);
            kept == &text || kept.as_bytes().len() == text.as_bytes().len() && kept.to_value() == *expected
        }
        _ => false,
    }
}

/// The answer of `compare-and-set`.
fn swapped(done: bool, value: Option<&Json>, room: u64) -> Result<Payload, Refused> {
    let (before, after) = (format!(r#"{{"done":{done},"value":"#), "}");
    let value = value.map_or("null", Json::as_str);
    answers((before.len() + value.len() + after.len()) as u64, room)?;
    Ok(Payload::Json(Json::checked(before + value + after)))
}

/// Refuses an answer that is too large before it is made.
fn answers(bytes: u64, room: u64) -> Result<(), Refused> {
    if bytes <= room { Ok(()) } else { Err(Refused::Answer(bytes)) }
}

impl Arguments {
    /// # Errors
    /// Fails if the arguments do not fit the schema.
    pub(in crate::run) fn parse(args: &Payload) -> Result<Self, Problem> {
        let Payload::Json(json) = args else { return Err(bad("They are not JSON.")) };
        let arguments: Self = serde_json::from_slice(json.as_bytes()).map_err(|error| bad(error.to_string()))?;
        let list = arguments.op == Operation::List;
        let lists = arguments.prefix.is_some() || arguments.after.is_some() || arguments.limit.is_some();
        let takes_value = matches!(arguments.op, Operation::Set | Operation::CompareAndSet);
        if arguments.key.as_ref().is_some_and(|key| key.len() > KEY_BYTES_MAX) {
            return Err(bad(format!("A key has more than {KEY_BYTES_MAX} bytes.")));
        }
        if list == arguments.key.is_some() {
            return Err(bad(if list { "`list` takes no `key`." } else { "`key` is missing." }));
        }
        if lists && !list {
            return Err(bad("Only `list` takes `prefix`, `after` and `limit`."));
        }
        if arguments.value.is_some() && !takes_value || arguments.op == Operation::Set && arguments.value.is_none() {
            return Err(bad("`set` takes a `value`, `compare-and-set` may, and nothing else does."));
        }
        if arguments.expected.is_some() && arguments.op != Operation::CompareAndSet {
            return Err(bad("Only `compare-and-set` takes `expected`."));
        }
        Ok(arguments)
    }
}

/// What an operation does to the store.
#[derive(PartialEq, Debug)]
pub(in crate::run) enum Change {
    None,
    Set(String, Json),
    Delete(String),
}

impl Change {
    /// Bytes that the change adds to the store.
    pub(in crate::run) fn bytes(&self) -> u64 {
        match self {
            Self::Set(key, value) => size(key, value),
            Self::None | Self::Delete(_) => 0,
        }
    }

    /// The change made by a call with this answer. It follows from these two alone, and neither
    /// from the contents of the store nor from its bounds: a rebuild makes the changes that were
    /// made, however this release would decide.
    pub(in crate::run) fn of(args: &Payload, answer: &Payload) -> Self {
        let (Payload::Json(args), Payload::Json(answer)) = (args, answer) else { return Self::None };
        let mut args = args.to_value();
        let is_made = match args["op"].as_str() {
            Some("set" | "delete") => true,
            Some("compare-and-set") => answer.to_value()["done"] == true,
            _ => false,
        };
        let takes_value = args["op"] != "delete";
        let Some(args) = args.as_object_mut().filter(|_| is_made) else { return Self::None };
        let (key, value) = (args.remove("key"), args.remove("value").filter(|_| takes_value));
        match (key, value) {
            (Some(Value::String(key)), Some(value)) => Self::Set(key, Json::from_value(&value)),
            (Some(Value::String(key)), None) => Self::Delete(key),
            _ => Self::None,
        }
    }
}

impl Kv {
    /// Bytes of keys and values.
    pub(in crate::run) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Decides one operation: its answer, of at most this many bytes, and its change, which is not
    /// made yet.
    ///
    /// # Errors
    /// The store would become larger than its bounds, or the answer is larger.
    pub(in crate::run) fn decide(
        &self,
        arguments: Arguments,
        bounds: &Bounds,
        room: u64,
    ) -> Result<(Payload, Change), Refused> {
        let Arguments { op, key, value, expected, prefix, after, limit } = arguments;
        let key = key.unwrap_or_default();
        let there = self.values.get(&key).map(|kept| &kept.value);
        match op {
            Operation::Get => {
                let answer = there.cloned().unwrap_or(Json::NULL);
                answers(answer.as_bytes().len() as u64, room)?;
                Ok((Payload::Json(answer), Change::None))
            }
            Operation::Set => {
                let value = value.expect("invariant: checked with the arguments");
                self.check(&key, &value, bounds)?;
                Ok((Payload::NULL, Change::Set(key, value)))
            }
            Operation::Delete => Ok((Payload::NULL, Change::Delete(key))),
            Operation::List => Ok((self.list(&prefix.unwrap_or_default(), after, limit, room)?, Change::None)),
            Operation::CompareAndSet if is_equal(there, expected.as_ref()) => {
                let answer = swapped(true, value.as_ref(), room)?;
                let Some(value) = value else { return Ok((answer, Change::Delete(key))) };
                self.check(&key, &value, bounds)?;
                Ok((answer, Change::Set(key, value)))
            }
            Operation::CompareAndSet => Ok((swapped(false, there, room)?, Change::None)),
        }
    }

    fn check(&self, key: &str, value: &Json, bounds: &Bounds) -> Result<(), Refused> {
        let before = self.values.get(key).map(|kept| size(key, &kept.value));
        let bytes = self.bytes - before.unwrap_or(0) + size(key, value);
        let keys = self.values.len() as u64 + u64::from(before.is_none());
        if bytes > bounds.kv_bytes || keys > bounds.kv_keys {
            let detail = format!("It holds {} keys of {} bytes.", self.values.len(), self.bytes);
            let problem = Problem::new(kind::TOO_LARGE, "The run's key-value store is full").with_detail(detail);
            return Err(Refused::Full(problem));
        }
        Ok(())
    }

    /// Notes the change of the call that is decided.
    pub(in crate::run) fn note(&mut self, change: Change) {
        self.decided = Some(change);
    }

    /// Makes the change of a call with this answer.
    pub(in crate::run) fn apply(&mut self, args: &Payload, answer: &Payload) {
        let change = self.decided.take().unwrap_or_else(|| Change::of(args, answer));
        self.make(change);
    }

    fn make(&mut self, change: Change) {
        let removed = match change {
            Change::None => return,
            Change::Set(key, value) => {
                self.bytes += size(&key, &value);
                let key_bytes = Json::from_value(&key).as_bytes().len() as u32;
                self.values.insert(key.clone(), Kept { value, key_bytes }).map(|before| (key, before))
            }
            Change::Delete(key) => self.values.remove_entry(&key),
        };
        if let Some((key, before)) = removed {
            self.bytes -= size(&key, &before.value);
        }
    }

    fn list(&self, prefix: &str, after: Option<String>, limit: Option<usize>, room: u64) -> Result<Payload, Refused> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let from = match &after {
            Some(after) if after.as_str() >= prefix => Excluded(after.as_str()),
            _ => Included(prefix),
        };
        let (keys, sizes): (Vec<&String>, Vec<u64>) = self
            .values
            .range::<str, _>((from, Unbounded))
            .map(|(key, kept)| (key, u64::from(kept.key_bytes)))
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit.unwrap_or(LIST_MAX).min(LIST_MAX))
            .unzip();
        let commas = keys.len().saturating_sub(1) as u64;
        answers(2 + commas + sizes.iter().sum::<u64>(), room)?;
        Ok(Payload::json(&keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(kv: &mut Kv, args: &str) -> String {
        let bounds = Bounds { kv_keys: 3, kv_bytes: 100, ..Bounds::default() };
        let args = Payload::Json(Json::parse(args.to_owned()).unwrap());
        let arguments = match Arguments::parse(&args) {
            Ok(arguments) => arguments,
            Err(problem) => return problem.kind.into_owned(),
        };
        match kv.decide(arguments, &bounds, u64::MAX) {
            Ok((Payload::Json(json), change)) => {
                // A rebuild knows no more than this.
                assert_eq!(Change::of(&args, &Payload::Json(json.clone())), change, "{args:?}");
                kv.make(change);
                json.as_str().to_owned()
            }
            Ok((other, _)) => panic!("{other:?}"),
            Err(Refused::Full(problem)) => problem.kind.into_owned(),
            Err(Refused::Answer(bytes)) => panic!("{bytes}"),
        }
    }

    /// The size of every answer is known before the answer is made.
    #[test]
    fn an_answer_that_is_too_large_is_refused_by_its_exact_size() {
        let kv = &mut Kv::default();
        for (key, value) in [("a\u{1}\"", r#"{"x":1.50}"#), ("ä\n\u{7f}", "null"), ("b", r#""text""#)] {
            let args = json!({ "op": "set", "key": key, "value": serde_json::from_str::<Value>(value).unwrap() });
            assert_eq!(call(kv, &args.to_string()), "null");
        }
        let calls = [
            json!({ "op": "list" }),
            json!({ "op": "list", "prefix": "b" }),
            json!({ "op": "list", "prefix": "nothing" }),
            json!({ "op": "get", "key": "a\u{1}\"" }),
            json!({ "op": "get", "key": "nothing" }),
            json!({ "op": "compare-and-set", "key": "b", "value": 1 }),
            json!({ "op": "compare-and-set", "key": "b", "expected": "text", "value": "other" }),
        ];
        for args in calls {
            let args = Payload::json(&args);
            let decide = |room| kv.decide(Arguments::parse(&args).unwrap(), &Bounds::default(), room);
            let Ok((answer, _)) = decide(u64::MAX) else { panic!("{args:?}") };
            let size = answer.size() as u64;
            assert!(decide(size).is_ok(), "{args:?}");
            assert!(matches!(decide(size - 1), Err(Refused::Answer(bytes)) if bytes == size), "{args:?}");
        }
    }

    #[test]
    fn operations() {
        let kv = &mut Kv::default();
        assert_eq!(call(kv, r#"{"op":"get","key":"a"}"#), "null");
        assert_eq!(call(kv, r#"{"op":"set","key":"a","value":{"x":1.50}}"#), "null");
        assert_eq!(call(kv, r#"{"op":"get","key":"a"}"#), r#"{"x":1.50}"#);
        assert_eq!(call(kv, r#"{"op":"compare-and-set","key":"a","value":2}"#), r#"{"done":false,"value":{"x":1.50}}"#);
        assert_eq!(
            call(kv, r#"{"op":"compare-and-set","key":"a","expected":{"x":1.50},"value":2}"#),
            r#"{"done":true,"value":2}"#
        );
        assert_eq!(call(kv, r#"{"op":"set","key":"a","value":{"x" : 1.50, "y":"\u0061"}}"#), "null");
        assert_eq!(call(kv, r#"{"op":"get","key":"a"}"#), r#"{"x":1.50,"y":"a"}"#);
        assert_eq!(
            call(kv, r#"{"op":"compare-and-set","key":"a","expected":{"y":"a","x":1.50},"value":2}"#),
            r#"{"done":true,"value":2}"#
        );
        assert_eq!(call(kv, r#"{"op":"compare-and-set","key":"b","value":null}"#), r#"{"done":true,"value":null}"#);
        assert_eq!(call(kv, r#"{"op":"compare-and-set","key":"b","expected":null}"#), r#"{"done":true,"value":null}"#);
        assert_eq!(call(kv, r#"{"op":"list"}"#), r#"["a"]"#);
        assert_eq!(call(kv, r#"{"op":"set","key":"b/1","value":1}"#), "null");
        assert_eq!(call(kv, r#"{"op":"set","key":"b/2","value":1}"#), "null");
        assert_eq!(call(kv, r#"{"op":"set","key":"c","value":1}"#), "too-large");
        assert_eq!(call(kv, r#"{"op":"list","prefix":"b/","after":"b/1"}"#), r#"["b/2"]"#);
        assert_eq!(call(kv, r#"{"op":"list","prefix":"b/","limit":1}"#), r#"["b/1"]"#);
        assert_eq!(call(kv, r#"{"op":"delete","key":"b/1"}"#), "null");
        assert_eq!(call(kv, &format!(r#"{{"op":"set","key":"b","value":"{}"}}"#, "x".repeat(100))), "too-large");
        assert_eq!(call(kv, r#"{"op":"delete","key":"a"}"#), "null");
        assert_eq!(call(kv, r#"{"op":"delete","key":"b/2"}"#), "null");
        assert_eq!((kv.values.len(), kv.bytes), (0, 0));
    }

    #[test]
    fn bad_arguments() {
        let kv = &mut Kv::default();
        for args in [
            "[]",
            r#"{"op":"get"}"#,
            r#"{"op":"nothing","key":"a"}"#,
            r#"{"op":"set","key":"a"}"#,
            r#"{"op":"get","key":"a","value":1}"#,
            r#"{"op":"list","key":"a"}"#,
            r#"{"op":"get","key":"a","limit":1}"#,
            r#"{"op":"set","key":"a","value":1,"expected":1}"#,
            r#"{"op":"get","key":"a","further":1}"#,
        ] {
            assert_eq!(call(kv, args), "bad-arguments", "{args}");
        }
    }

    /// The store takes whatever the schema takes; the schema is for authors of calls, before
    /// anything runs.
    #[cfg(feature = "wasm")]
    #[test]
    fn the_schema_says_what_the_store_takes() {
        for op in ["get", "set", "delete", "list", "compare-and-set"] {
            let schema = schema(Some(op));
            let mut args = serde_json::Map::from_iter([("op".to_owned(), json!(op))]);
            let value = |name: &str| if name == "limit" { json!(1) } else { json!("x") };
            for name in schema["required"].as_array().unwrap().iter().skip(1) {
                let name = name.as_str().unwrap();
                let text = Value::Object(args.clone()).to_string();
                assert_eq!(call(&mut Kv::default(), &text), "bad-arguments", "{text} lacks {name}");
                args.insert(name.to_owned(), value(name));
            }
            for name in ["key", "value", "expected", "prefix", "after", "limit"] {
                let mut args = args.clone();
                args.insert(name.to_owned(), value(name));
                let text = Value::Object(args).to_string();
                let is_taken = call(&mut Kv::default(), &text) != "bad-arguments";
                assert_eq!(is_taken, schema["properties"].get(name).is_some(), "{text}");
            }
        }
    }
}
