//! What an expression is evaluated on.

use serde_json::Value;
use std::borrow::Cow;

/// A tree of JSON that borrows what exists already: only the objects that hold the parts together are built for a call.
///
/// ```
/// use serde_json::json;
/// use wfhost::workflow::expression::Scope;
///
/// let (inputs, output) = (json!({"n": 3}), json!([1, 2]));
/// let step = Scope::object([("output", Scope::Borrowed(&output)), ("status", Scope::Owned(json!("completed")))]);
/// let scope = Scope::object([
///     ("inputs", Scope::Borrowed(&inputs)),
///     ("steps", Scope::object([("download", step)])),
/// ]);
/// # let _ = scope;
/// ```
#[derive(Clone, Debug)]
pub enum Scope<'a> {
    /// A value that lives elsewhere.
    Borrowed(&'a Value),
    /// A value of the scope's own.
    Owned(Value),
    /// An object of parts. A name occurs once.
    Object(Vec<(Cow<'a, str>, Scope<'a>)>),
}

impl<'a> Scope<'a> {
    /// An object of parts, in that order. Each name must occur only once.
    pub fn object<K: Into<Cow<'a, str>>>(parts: impl IntoIterator<Item = (K, Scope<'a>)>) -> Self {
        Self::Object(parts.into_iter().map(|(name, part)| (name.into(), part)).collect())
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
