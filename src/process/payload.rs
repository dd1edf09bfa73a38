//! What commands and events carry.

use bytes::Bytes;
use serde::de::IgnoredAny;
use std::fmt;
use std::sync::Arc;

/// How deep arrays and objects of a JSON text may nest.
pub const JSON_DEPTH_MAX: usize = 128;

/// A text that is known to be one well-formed JSON value in UTF-8. It is handed on byte for byte. Cloning it is cheap.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Bytes);

impl Json {
    /// The value `null`.
    pub const NULL: Self = Self(Bytes::from_static(b"null"));

    /// Checks that `text` is one JSON value, at most [`JSON_DEPTH_MAX`] deep.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        // The parser's own recursion limit is 128.
        serde_json::from_slice::<IgnoredAny>(&text)?;
        std::str::from_utf8(&text).map_err(|e| serde::de::Error::custom(e.to_string()))?;
        Ok(Self(text))
    }

    /// The text of a value.
    ///
    /// # Panics
    /// Where a map of the value has keys that are not strings: the types of this crate have none.
    #[must_use]
    pub fn from_value(value: &impl serde::Serialize) -> Self {
        Self(serde_json::to_vec(value).expect("invariant: values of this crate can be written as JSON").into())
    }

    /// The value of the text.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.0).expect("invariant: checked when it was made")
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("invariant: checked when it was made")
    }

    /// The text's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self::from_value(value)
    }
}

impl serde::Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(text).map_err(serde::de::Error::custom)
    }
}

/// Content too large to carry; valid only in the run that was given it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct Blob {
    /// The content's digest: `blake3:` and 64 hexadecimal digits.
    pub digest: String,
    /// Bytes.
    pub size: u64,
    /// What it is, as in RFC 6838.
    pub media_type: String,
}

/// The content of a message, an argument, an answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub enum Payload {
    /// JSON text.
    Json(Json),
    /// Bytes of any kind.
    Bytes(Bytes),
    /// A handle of something that is stored.
    Blob(Arc<Blob>),
}

impl Payload {
    /// The JSON value `null`.
    pub const NULL: Self = Self::Json(Json::NULL);

    /// A JSON payload of a value.
    #[must_use]
    pub fn json(value: &impl serde::Serialize) -> Self {
        Self::Json(Json::from_value(value))
    }

    /// How many bytes it takes in a queue or a record.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Json(json) => json.as_bytes().len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Blob(blob) => blob.digest.len() + blob.media_type.len() + 8,
        }
    }
}
