//! The context that an expression is evaluated on.

use super::references::{Reference, References};
use super::{EvalProblem, INPUT_DEPTH_MAX, depth};
use serde_json::Value;
use std::borrow::Cow;

/// A JSON tree that borrows existing values: only the objects that join them are built for a call.
///
/// ```
/// use serde_json::json;
/// use wfhost::workflow::expression::{EngineConfig, Expression, Jq, Scope};
///
/// let (inputs, output) = (json!({"n": 3}), json!([1, 2]));
/// let step = Scope::object([("output", Scope::Borrowed(&output))]);
/// let scope = Scope::object([
///     ("inputs", Scope::Borrowed(&inputs)),
///     ("steps", Scope::object([("download", step)])),
/// ]);
/// let jq = Jq::new(EngineConfig::default())?;
/// let sum = Expression::new("(.steps.download.output | add) + .inputs.n");
/// assert_eq!(jq.evaluate_one(&sum, &scope)?, json!(6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub enum Scope<'a> {
    /// A value owned elsewhere.
    Borrowed(&'a Value),
    /// A value owned by the scope.
    Owned(Value),
    /// An object of parts, each name once.
    Object(Vec<(Cow<'a, str>, Scope<'a>)>),
}

impl<'a> Scope<'a> {
    /// Makes an object of parts, in that order. Each name must occur only once.
    pub fn object<K: Into<Cow<'a, str>>>(parts: impl IntoIterator<Item = (K, Scope<'a>)>) -> Self {
        Self::Object(parts.into_iter().map(|(name, part)| (name.into(), part)).collect())
    }

    /// Writes what an expression refers to as JSON. Objects on the way keep only the keys that lead
    /// there; any other value on the way is kept whole.
    pub(super) fn write(&self, references: &References) -> Result<Vec<u8>, EvalProblem> {
        let mut out = Vec::with_capacity(256);
        match references {
            References::Paths(paths) => {
                let paths: Vec<&[String]> = paths.iter().map(|Reference { path, .. }| path.as_slice()).collect();
                Node::of(self).write_parts(&paths, 0, &mut out)?;
            }
            References::Everything(_) | References::NotInferable { .. } => Node::of(self).write_whole(0, &mut out)?,
        }
        Ok(out)
    }
}

impl<'a> From<&'a Value> for Scope<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Borrowed(value)
    }
}

impl From<Value> for Scope<'_> {
    fn from(value: Value) -> Self {
        Self::Owned(value)
    }
}

/// A value in a scope, however it is stored.
#[derive(Clone, Copy)]
pub(super) enum Node<'s, 'a> {
    /// An object of parts.
    Parts(&'s [(Cow<'a, str>, Scope<'a>)]),
    /// A value.
    Value(&'s Value),
}

impl<'s, 'a> Node<'s, 'a> {
    pub(super) fn of(scope: &'s Scope<'a>) -> Self {
        match scope {
            Scope::Borrowed(value) => Self::Value(value),
            Scope::Owned(value) => Self::Value(value),
            Scope::Object(parts) => Self::Parts(parts),
        }
    }

    /// The value of a key, if this is an object that has the key.
    pub(super) fn get(self, key: &str) -> Option<Self> {
        match self {
            Self::Parts(parts) => parts.iter().find(|(name, _)| name == key).map(|(_, part)| Self::of(part)),
            Self::Value(value) => value.as_object()?.get(key).map(Self::Value),
        }
    }

    fn is_object(self) -> bool {
        matches!(self, Self::Parts(_) | Self::Value(Value::Object(_)))
    }

    /// Writes the values at the paths. An empty path is this value itself. `above` is the number of
    /// enclosing objects.
    fn write_parts(self, paths: &[&[String]], above: usize, out: &mut Vec<u8>) -> Result<(), EvalProblem> {
        if !self.is_object() || paths.iter().any(|path| path.is_empty()) {
            return self.write_whole(above, out);
        }
        out.push(b'{');
        let mut done: Vec<&str> = Vec::new();
        for path in paths {
            let key = path[0].as_str();
            if done.contains(&key) {
                continue;
            }
            done.push(key);
            if let Some(part) = self.get(key) {
                let below: Vec<&[String]> = paths.iter().filter(|p| p[0] == key).map(|p| &p[1..]).collect();
                write_key(key, out);
                part.write_parts(&below, above + 1, out)?;
            }
        }
        out.push(b'}');
        Ok(())
    }

    fn write_whole(self, above: usize, out: &mut Vec<u8>) -> Result<(), EvalProblem> {
        match self {
            Self::Parts(parts) => {
                out.push(b'{');
                for (key, part) in parts {
                    write_key(key, out);
                    Self::of(part).write_whole(above + 1, out)?;
                }
                out.push(b'}');
                Ok(())
            }
            Self::Value(value) => {
                depth::check_input(above + depth::of_value(value, INPUT_DEPTH_MAX))?;
                serde_json::to_writer(out, value).map_err(|error| EvalProblem::BadInput(error.to_string()))
            }
        }
    }
}

/// Writes a key of an object, with a comma before it unless it is the first.
fn write_key(key: &str, out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    // Writing a string into a vector cannot fail.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
}
