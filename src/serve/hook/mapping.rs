//! From a genuine delivery to what it does: the expressions of its webhook on `{body, headers,
//! query}`.

use super::spec::CheckedWebhook;
use crate::process::Json;
use crate::workflow::expression::{Jq, Scope};
use http::{HeaderMap, header};
use serde_json::{Map, Value};
use url::form_urlencoded;

/// What expressions read.
pub(super) const ROOTS: [&str; 3] = ["body", "headers", "query"];

/// The longest id of a run, in bytes, that an expression may give.
const RUN_ID_BYTES_MAX: usize = 256;

/// Most fields of a form or a query. Arbitrary.
const FIELDS_MAX: usize = 1_000;

/// What a delivery does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Deed {
    /// It starts a run.
    Start { workflow: String, inputs: Map<String, Value> },
    /// It is a signal.
    Signal { run: String, name: String, body: Value },
    /// The webhook does not accept it: nothing.
    Filtered,
}

/// Why a genuine delivery does nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    #[error("the body is not UTF-8 text")]
    NotText,
    #[error("it has more than {FIELDS_MAX} fields")]
    TooManyFields,
    #[error("`{what}`: {why}")]
    Expression { what: String, why: String },
    #[error("the inputs of a workflow are an object, and these are {0}")]
    Inputs(&'static str),
    #[error("the id of a run is a text of 1 to {RUN_ID_BYTES_MAX} bytes, and this is {0}")]
    RunId(&'static str),
}

impl CheckedWebhook {
    /// Decides what a genuine delivery does.
    ///
    /// # Errors
    /// Says why it does nothing.
    pub(crate) fn decide(&self, jq: &Jq, headers: &HeaderMap, query: Option<&str>, body: &[u8]) -> Result<Deed, Unfit> {
        let scope = Scope::object([
            ("body", Scope::Owned(self.body(headers, body)?)),
            ("headers", Scope::Owned(self.headers(headers))),
            ("query", Scope::Owned(fields(query.unwrap_or_default().as_bytes())?)),
        ]);
        let failed = |what: &str, why: String| Unfit::Expression { what: what.to_owned(), why };
        if let Some(accept) = &self.accept {
            let accepted = accept.evaluate(jq, &scope).map_err(|problem| failed("accept", problem.to_string()))?;
            if matches!(accepted, Value::Null | Value::Bool(false)) {
                return Ok(Deed::Filtered);
            }
        }
        let inputs = self.inputs.evaluate(jq, &scope).map_err(|problem| {
            let what = format!("inputs{}", problem.pointer);
            failed(&what, problem.to_string())
        })?;
        if let (Some(target), Some(run)) = (&self.spec.signals, &self.run) {
            let run = run.evaluate(jq, &scope).map_err(|problem| failed("signals.run", problem.to_string()))?;
            return Ok(Deed::Signal { run: run_id(run)?, name: target.name.clone(), body: inputs });
        }
        match inputs {
            Value::Object(inputs) => Ok(Deed::Start { workflow: self.spec.starts.clone().unwrap_or_default(), inputs }),
            other => Err(Unfit::Inputs(kind_of(&other))),
        }
    }

    /// `.body`: the value of JSON, the fields of a form, or the text itself.
    fn body(&self, headers: &HeaderMap, body: &[u8]) -> Result<Value, Unfit> {
        if self.spec.raw {
            return std::str::from_utf8(body).map(Value::from).map_err(|_| Unfit::NotText);
        }
        let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        if media.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return fields(body);
        }
        if body.is_empty() {
            return Ok(Value::Null);
        }
        let json = Json::parse(body.to_vec()).map_err(|error| Unfit::NotJson(error.to_string()))?;
        Ok(json.to_value())
    }

    /// `.headers`, by their names in lower case, without those that hold a secret.
    fn headers(&self, headers: &HeaderMap) -> Value {
        let is_secret = |name: &header::HeaderName| {
            [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION].contains(name)
                || self.spec.verify.secret_header().is_some_and(|secret| secret.eq_ignore_ascii_case(name.as_str()))
        };
        let names = headers.keys().filter(|name| !is_secret(name));
        let joined = names.map(|name| {
            let values: Vec<_> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
            (name.as_str().to_owned(), Value::from(values.join(", ")))
        });
        Value::Object(joined.collect())
    }
}

/// The fields of a form or a query: a text each, or a list of texts where a name is repeated.
fn fields(text: &[u8]) -> Result<Value, Unfit> {
    let mut fields: Map<String, Value> = Map::new();
    for (number, (name, value)) in form_urlencoded::parse(text).enumerate() {
        if number >= FIELDS_MAX {
            return Err(Unfit::TooManyFields);
        }
        let value = Value::from(value.into_owned());
        match fields.get_mut(&*name) {
            None => {
                fields.insert(name.into_owned(), value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    Ok(Value::Object(fields))
}

fn run_id(value: Value) -> Result<String, Unfit> {
    match value {
        Value::String(id) if (1..=RUN_ID_BYTES_MAX).contains(&id.len()) => Ok(id),
        Value::String(_) => Err(Unfit::RunId("a text of another length")),
        other => Err(Unfit::RunId(kind_of(&other))),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
