//! Payloads to and from a guest's types: serde types as JSON, `Payload` and `Bytes` unchanged.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::bindings::wfhost::process::types::{Message, Payload, Problem};
use crate::problem::not_json;
use crate::schema;

/// Bytes that are not JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

/// A value that can be sent.
pub trait IntoPayload {
    /// # Errors
    /// Fails if the value has no JSON form (a map whose keys are not text).
    fn into_payload(self) -> Result<Payload, Problem>;
}

/// A value that can be received.
pub trait FromPayload: Sized {
    /// # Errors
    /// Fails if the payload does not fit the type.
    fn from_payload(payload: Payload) -> Result<Self, Problem>;

    /// Returns the JSON Schema of what fits; `None` if it is not known.
    fn schema() -> Option<Value> {
        None
    }
}

impl<T: Serialize> IntoPayload for T {
    fn into_payload(self) -> Result<Payload, Problem> {
        Ok(Payload::Json(serde_json::to_string(&self)?))
    }
}

impl<T: DeserializeOwned> FromPayload for T {
    fn from_payload(payload: Payload) -> Result<Self, Problem> {
        payload.parse()
    }

    fn schema() -> Option<Value> {
        schema::of::<T>()
    }
}

impl IntoPayload for Payload {
    fn into_payload(self) -> Result<Payload, Problem> {
        Ok(self)
    }
}

impl FromPayload for Payload {
    fn from_payload(payload: Payload) -> Result<Self, Problem> {
        Ok(payload)
    }
}

impl IntoPayload for Bytes {
    fn into_payload(self) -> Result<Payload, Problem> {
        Ok(Payload::Bytes(self.0))
    }
}

impl FromPayload for Bytes {
    fn from_payload(payload: Payload) -> Result<Self, Problem> {
        match payload {
            Payload::Bytes(bytes) => Ok(Self(bytes)),
            other => Err(not_json(&other)),
        }
    }
}

impl Payload {
    /// JSON's null.
    pub fn null() -> Self {
        Self::Json("null".to_owned())
    }

    /// Parses JSON.
    ///
    /// # Errors
    /// `bad-payload` if this is not JSON, `bad-json` if it does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        match self {
            Self::Json(text) => Ok(serde_json::from_str(text)?),
            other => Err(not_json(other)),
        }
    }
}

impl Message {
    /// Parses a JSON body.
    ///
    /// # Errors
    /// Fails like [`Payload::parse`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.body.parse()
    }
}
