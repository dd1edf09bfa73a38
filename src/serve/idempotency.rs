//! Idempotency keys: a start under a key is a run whose id is derived from it.

use super::access::Caller;
use super::problem::{ProblemKind, ServeProblem};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde_json::Value;
use std::collections::BTreeMap;

/// The header with the key.
pub(in crate::serve) const HEADER: &str = "idempotency-key";

/// The header of an answer that was given before.
pub(in crate::serve) const REPLAYED: &str = "idempotency-replayed";

/// Characters of a key.
const KEY_CHARS_MAX: usize = 255;

/// Digits of derived ids: lower case, and none that is easily taken for another.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The idempotency key of a request, if it has one.
pub(in crate::serve) struct Key(pub(in crate::serve) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = ServeProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ServeProblem> {
        let mut given = parts.headers.get_all(HEADER).iter();
        let (Some(key), more) = (given.next(), given.next()) else { return Ok(Self(None)) };
        let bad = |detail: &str| {
            let detail = format!("the header `Idempotency-Key` {detail}");
            ServeProblem::new(ProblemKind::Malformed).detail(detail)
        };
        if more.is_some() {
            return Err(bad("comes twice"));
        }
        let key = key.to_str().map_err(|_| bad("has characters that cannot be seen"))?;
        // Quotes are those of a structured field (RFC 8941), and no part of the key.
        let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
        if key.is_empty() || key.len() > KEY_CHARS_MAX || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad(&format!("has 1 to {KEY_CHARS_MAX} visible characters of ASCII")));
        }
        Ok(Self(Some(key.to_owned())))
    }
}

/// The id of the run that a caller starts under a key: `k` and 26 characters of a BLAKE3.
pub(in crate::serve) fn run_id(caller: &Caller, workflow: &str, key: &str) -> String {
    derived('k', &[caller.name(), workflow, key])
}

/// The id of the run that a caller makes of another under a key: `act` is what it does with it.
pub(in crate::serve) fn rerun_id(caller: &Caller, act: &str, run: &str, key: &str) -> String {
    derived('k', &[caller.name(), act, run, key])
}

/// Refuses a request that has a key and names its run too: which of them counts would be a guess.
pub(in crate::serve) fn two_keys(pointer: &str) -> ServeProblem {
    let why = "it makes the request count once, as the header `Idempotency-Key` does: send one of them";
    ServeProblem::new(ProblemKind::DoesNotFit).part(pointer, why)
}

/// An id derived from texts: a letter and 130 bits of their BLAKE3.
pub(in crate::serve) fn derived(letter: char, parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    let mut bytes = [0; 17];
    hasher.finalize_xof().fill(&mut bytes);
    let mut id = String::from(letter);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in bytes {
        bits = (bits << 8) | u32::from(byte);
        count += 8;
        while count >= 5 && id.len() < 27 {
            count -= 5;
            id.push(char::from(DIGITS[(bits >> count) as usize & 31]));
        }
    }
    id
}

/// A digest of a request to start a run, which tells the same one from another. The version that
/// was active then is no part of it.
pub(in crate::serve) fn request_digest(
    workflow: &str,
    version: Option<u64>,
    inputs: &serde_json::Map<String, Value>,
    labels: &BTreeMap<String, String>,
) -> String {
    digest(&serde_json::json!([workflow, version, inputs, labels]))
}

/// A digest of a request, whatever the order of its keys.
pub(in crate::serve) fn digest(request: &Value) -> String {
    blake3::hash(sorted(request).to_string().as_bytes()).to_hex().to_string()
}

/// The same value with its keys in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let ordered: BTreeMap<&String, &Value> = fields.iter().collect();
            ordered
                .into_iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_the_same_for_the_same_texts_only() {
        let id = derived('k', &["ann", "order", "7"]);
        assert_eq!(id.len(), 27);
        assert_eq!(id, derived('k', &["ann", "order", "7"]));
        assert_ne!(id, derived('k', &["annorder", "", "7"]));
        assert_ne!(id, derived('k', &["ann", "order7", ""]));
    }
}
