//! What commands and events carry.

use super::Recalled;
use super::json_text::Check;
use bytes::Bytes;
use serde::de::Error;
use std::fmt;
use std::sync::Arc;

/// How deep arrays and objects of a JSON text may nest: what every reader of serde_json takes.
pub const JSON_DEPTH_MAX: usize = 127;

/// How deep those of a text from outside the host may nest. Arbitrary: the rest is for the
/// structure that the host puts around it, in templates and outputs.
pub const GIVEN_DEPTH_MAX: usize = 100;

/// A text that is known to be one well-formed JSON value in UTF-8. It is passed on byte for byte.
/// Cloning it is cheap.
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
        let utf8 = std::str::from_utf8(&text).map_err(Error::custom)?;
        Check::new(JSON_DEPTH_MAX).advance(utf8, usize::MAX).map_err(Error::custom)?;
        Ok(Self(text))
    }

    /// A text that a [`Check`] has found well-formed to its end.
    pub(crate) fn checked(text: String) -> Self {
        Self(text.into())
    }

    /// The text of a value.
    ///
    /// # Panics
    /// If a map of the value has keys that are not strings: the types of this crate have none.
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

impl From<serde_json::Value> for Payload {
    fn from(value: serde_json::Value) -> Self {
        Self::json(&value)
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

impl Blob {
    /// Returns the handle as a value: `{ digest, size, media-type }`.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::json!({ "digest": self.digest, "size": self.size, "media-type": self.media_type })
    }

    /// Returns the handle that a value is: an object of just these three members. `None` if it is
    /// another value.
    #[must_use]
    pub fn of_value(value: &serde_json::Value) -> Option<Self> {
        let members = value.as_object().filter(|members| members.len() == 3)?;
        let (digest, media_type) = (members.get("digest")?.as_str()?, members.get("media-type")?.as_str()?);
        let size = members.get("size")?.as_u64().filter(|size| *size < super::NUMBER_MAX)?;
        Self::is_digest(digest).then(|| Self { digest: digest.to_owned(), size, media_type: media_type.to_owned() })
    }

    /// Returns the handles within a value, in its order.
    #[must_use]
    pub fn all_of(value: &serde_json::Value) -> Vec<Self> {
        let mut found = Vec::new();
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                serde_json::Value::Array(items) => open.extend(items.iter().rev()),
                serde_json::Value::Object(members) => match Self::of_value(value) {
                    Some(blob) => found.push(blob),
                    None => open.extend(members.values().rev()),
                },
                _ => {}
            }
        }
        found
    }

    /// Returns whether a text contains a digest: by itself, or as a part of a handle.
    #[must_use]
    pub fn is_named_in(text: &str) -> bool {
        text.match_indices("blake3:").any(|(at, _)| text.get(at..at + 7 + 64).is_some_and(Self::is_digest))
    }

    /// Returns whether a text has the form of a digest.
    #[must_use]
    pub fn is_digest(text: &str) -> bool {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.strip_prefix("blake3:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_digit))
    }
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
    /// An answer that records do not write out. No process sees it: it gets the answer.
    Recalled(Arc<Recalled>),
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
            Self::Recalled(recalled) => recalled.size as usize,
        }
    }

    /// Its JSON value: bytes are base64 text, and a blob is an object with its digest.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        match self {
            Self::Json(json) => json.to_value(),
            Self::Bytes(bytes) => serde_json::Value::String(base64(bytes)),
            Self::Blob(blob) => blob.to_value(),
            Self::Recalled(recalled) => recalled.answer().map_or(serde_json::Value::Null, |answer| answer.to_value()),
        }
    }
}

/// Base64 of RFC 4648, padded.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= chunk.len() { digit as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn base64_of_rfc_4648() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(super::base64(bytes.as_bytes()), text);
        }
        assert_eq!(super::base64(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn depth_is_bounded() {
        assert_eq!(Json::parse(nested(JSON_DEPTH_MAX)).unwrap().to_value().to_string(), nested(JSON_DEPTH_MAX));
        assert!(Json::parse(nested(JSON_DEPTH_MAX + 1)).is_err());
        assert!(Json::parse(nested(1_000_000)).is_err());
        assert!(Json::parse("{\"a\":".repeat(1_000_000)).is_err());
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "nul", "1 2", "[1,]", "{1:2}", r#""\ud800""#, r#""\x""#, "\"\u{1}\"", "01", "-", "1.", "NaN"] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        assert!(Json::parse(vec![b'"', 0xff, b'"']).is_err());
    }

    #[test]
    fn numbers_are_any_that_json_can_write() {
        for text in ["0", "-0", "1e400", "0.1000000000000000055511151231257827", "123456789012345678901234567890"] {
            assert_eq!(Json::parse(text).unwrap().to_value().to_string(), text.replace("e400", "e+400"));
        }
    }

    #[test]
    fn no_object_passes_for_what_serde_json_keeps_to_itself() {
        for text in [
            r#"{"$serde_json::private::Number":"x"}"#,
            r#"{"\u0024serde_json::private::Number":[]}"#,
            r#"{"$serde_json::private::Number":"1","a":1}"#,
            r#"{"a":1,"$serde_json::private::Number":"1"}"#,
            r#"{"$serde_json::private::RawValue":"x"}"#,
        ] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_is_parsed_has_a_value(text in texts()) {
            if let Ok(json) = Json::parse(text.clone()) {
                let value = serde_json::from_str::<serde_json::Value>(&text);
                prop_assert!(value.is_ok_and(|value| value == json.to_value()), "{}", text);
            }
        }
    }

    /// Texts that are JSON or nearly so, often with names that serde_json reserves.
    fn texts() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "-?[0-9]{1,3}(\\.[0-9]{0,2})?([eE][+-]?[0-9]{0,3})?",
            "\"[a\\\\u0d8cn]{0,7}\"",
            Just("null".to_owned()),
            Just("tru".to_owned()),
        ];
        let name = prop_oneof![
            "[ab]",
            Just("$serde_json::private::Number".to_owned()),
            Just("$serde_json::private::RawValue".to_owned())
        ];
        leaf.prop_recursive(4, 16, 3, move |inner| {
            let members = proptest::collection::vec((name.clone(), inner.clone()), 0..3);
            let members = members.prop_map(|members| {
                let texts: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", texts.join(","))
            });
            prop_oneof![
                members,
                proptest::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(",")))
            ]
        })
    }
}
