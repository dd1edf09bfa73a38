//! What a call says as values, and what a case says as a response.

use crate::dispatch::http::{SimulatedBody, SimulatedResponse};
use crate::process::Payload;
use crate::testing::case_file::{STATUS_MAX, STATUS_MIN};
use crate::workflow::model::shorten;
use serde_json::Value;

/// What the keys of all attempts of a step have in common: they differ in the number at the end.
pub(super) fn attempts_of(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(step, _)| step)
}

/// A payload as a value: bytes are null.
pub(super) fn value_of(payload: &Payload) -> Value {
    match payload {
        Payload::Json(json) => json.to_value(),
        _ => Value::Null,
    }
}

/// The response that the members of `answer` describe.
///
/// # Errors
/// Fails if its expressions gave no response: the pointer to the member, and why.
pub(super) fn response(value: &Value) -> Result<SimulatedResponse, (&'static str, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let status = match value.get("status") {
        None => 200,
        Some(status) => {
            let number = status.as_u64().and_then(|number| u16::try_from(number).ok());
            number.filter(|number| (STATUS_MIN..=STATUS_MAX).contains(number)).ok_or_else(|| {
                let shown = shorten(&status.to_string());
                ("/status", format!("`status` must be a whole number from {STATUS_MIN} to {STATUS_MAX}, not {shown}"))
            })?
        }
    };
    let fields = match value.get("headers") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(fields)) => fields.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        Some(_) => return Err(("/headers", "`headers` must be a mapping".to_owned())),
    };
    Ok(SimulatedResponse {
        status,
        headers: fields,
        body: match value.get("body") {
            None | Some(Value::Null) => SimulatedBody::None,
            Some(Value::String(text)) => SimulatedBody::Text(text.clone()),
            Some(body) => SimulatedBody::Json(body.clone()),
        },
    })
}
