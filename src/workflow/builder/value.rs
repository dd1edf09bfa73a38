//! The values that keys take: expressions, texts and durations.

use super::tree::Tree;
use crate::process::Micros;
use crate::workflow::model::write_duration;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

/// An expression, or a text that holds expressions.
///
/// It serialises, so that `json!` and structs can hold it, to a form that only the builder reads
/// and that changes with each process: no literal can be mistaken for one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expr(String);

/// Makes an expression of jq: `expr(".inputs.id")` is `${ .inputs.id }` in a file. Its result keeps
/// its type.
///
/// A value of the program belongs into it as JSON only:
/// `expr(format!(".inputs[{}]", json!(name)))`.
pub fn expr(jq: impl AsRef<str>) -> Expr {
    let jq = jq.as_ref().trim();
    // A comment of jq ends with its line.
    let end = if jq.contains('#') { "\n}" } else { " }" };
    Expr(format!("${{ {jq}{end}"))
}

/// Takes a text as a file has it: `template("order ${ .inputs.id }")`. `$${` stands for a literal
/// `${`.
pub fn template(text: impl Into<String>) -> Expr {
    Expr(text.into())
}

/// The key under which an expression serialises: 128 bits that no data from outside can know.
pub(super) static MARK: LazyLock<String> = LazyLock::new(|| {
    let random = || RandomState::new().build_hasher().finish();
    format!("wfhost expression {:016x}{:016x}", random(), random())
});

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(MARK.as_str(), &self.0)?;
        map.end()
    }
}

/// A text: a literal, or an [`Expr`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text(String);

impl From<Expr> for Text {
    fn from(expression: Expr) -> Self {
        Self(expression.0)
    }
}

impl From<&str> for Text {
    fn from(literal: &str) -> Self {
        Self(escaped(literal))
    }
}

impl From<String> for Text {
    fn from(literal: String) -> Self {
        Self(escaped(&literal))
    }
}

/// A literal in a place where a file may have expressions.
pub(super) fn escaped(literal: &str) -> String {
    literal.replace("${", "$${")
}

/// A duration, or an [`Expr`] that gives one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval(String);

impl From<Duration> for Interval {
    fn from(duration: Duration) -> Self {
        Self(written(duration))
    }
}

impl From<Expr> for Interval {
    fn from(expression: Expr) -> Self {
        Self(expression.0)
    }
}

/// A duration as a file has it. Files count microseconds: a part of one is a whole one here.
pub(super) fn written(duration: Duration) -> String {
    let micros = duration.as_nanos().div_ceil(1_000);
    write_duration(Micros(u64::try_from(micros).unwrap_or(u64::MAX)))
}

impl From<Expr> for Tree {
    fn from(expression: Expr) -> Self {
        Self::Text(expression.0)
    }
}

impl From<Text> for Tree {
    fn from(text: Text) -> Self {
        Self::Text(text.0)
    }
}

impl From<Interval> for Tree {
    fn from(interval: Interval) -> Self {
        Self::Text(interval.0)
    }
}

impl From<Duration> for Tree {
    fn from(duration: Duration) -> Self {
        Self::Text(written(duration))
    }
}
