//! The description of a webhook, and what is wrong with one.

use super::mapping::ROOTS;
use super::verify::{Signed, Verify};
use crate::base::text::steers;
use crate::serve::body::object;
use crate::workflow::expression::{Expression, Jq, References, TemplateError, TextTemplate, ValueTemplate};
use http::HeaderName;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The longest description, in bytes of its JSON. Arbitrary: far above what a person writes.
pub(crate) const SPEC_BYTES_MAX: usize = 64 * 1024;

/// The longest name of a webhook, a workflow, a signal or a header, in bytes. Arbitrary.
const NAME_BYTES_MAX: usize = 128;

/// Most secrets at one time: an old and a new one.
const SECRETS_MAX: usize = 2;

/// A webhook: what a delivery does, and how it shows that it is genuine.
///
/// Expressions are jq filters over `{body, headers, query}`. A text with `${ }` is a template as in
/// a workflow file; a text without is one expression as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WebhookSpec {
    /// The workflow that each delivery starts. Either this or `signals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<String>,
    /// The signal that each delivery is. Either this or `starts`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub signals: Option<SignalTarget>,
    /// The inputs of the run, or the body of the signal: an expression, or a value with `${ }` in
    /// its texts. Without it they are the body of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// How a delivery shows that it is genuine.
    pub verify: Verify,
    /// An expression: a delivery for which it is false or null is acknowledged and does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// Whether `.body` is the text of the body instead of its value: it need not be JSON.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
}

/// The signal that a delivery is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SignalTarget {
    /// Its name.
    pub name: String,
    /// An expression: the id of the run.
    pub run: String,
}

/// Something wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The JSON Pointer (RFC 6901) of what is wrong.
    pub(crate) pointer: String,
    pub(crate) message: String,
}

/// A description that was checked, ready for deliveries.
#[derive(Clone, Debug)]
pub(crate) struct CheckedWebhook {
    pub(crate) spec: WebhookSpec,
    pub(super) inputs: ValueTemplate,
    /// The run that is signalled.
    pub(super) run: Option<TextTemplate>,
    pub(super) accept: Option<TextTemplate>,
    /// Whether the server's operator has described it: it may name any secret.
    pub(super) is_trusted: bool,
}

impl WebhookSpec {
    /// Checks a description. Secrets are not read.
    ///
    /// # Errors
    /// Returns everything that is wrong with it.
    pub(crate) fn check(self, jq: &Jq) -> Result<CheckedWebhook, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut fault = |pointer: &str, message: &str| {
            faults.push(Fault { pointer: pointer.to_owned(), message: message.to_owned() });
        };
        match (&self.starts, &self.signals) {
            (Some(workflow), None) => check_name(workflow, "/starts", &mut fault),
            (None, Some(target)) => check_name(&target.name, "/signals/name", &mut fault),
            (None, None) => fault("", "it starts a workflow (`starts`) or signals a run (`signals`): one of them"),
            (Some(_), Some(_)) => fault("/signals", "it starts a workflow or signals a run, not both"),
        }
        check_verify(&self.verify, &mut fault);
        if serde_json::to_vec(&self).map_or(0, |text| text.len()) > SPEC_BYTES_MAX {
            fault("", &format!("a webhook has at most {SPEC_BYTES_MAX} bytes"));
        }
        let mut text = |text: &str, pointer: &str| match template(text) {
            Ok(template) => {
                check_expressions(jq, template.expressions().map(|placed| (pointer, &placed.expression)), &mut fault);
                Some(template)
            }
            Err(error) => {
                fault(pointer, &error.message);
                None
            }
        };
        let run = self.signals.as_ref().map(|target| text(&target.run, "/signals/run"));
        let accept = self.accept.as_ref().map(|condition| text(condition, "/accept"));
        let inputs = self.inputs.clone().unwrap_or_else(|| Value::String(".body".to_owned()));
        let inputs = match ValueTemplate::parse(&whole(&inputs)) {
            Ok(inputs) => {
                let pointers = inputs.expressions().map(|(at, placed)| (format!("/inputs{at}"), &placed.expression));
                let pointers: Vec<_> = pointers.collect();
                check_expressions(jq, pointers.iter().map(|(at, expression)| (at.as_str(), *expression)), &mut fault);
                Some(inputs)
            }
            Err(errors) => {
                for error in errors {
                    fault(&format!("/inputs{}", error.pointer), &error.error.message);
                }
                None
            }
        };
        match (inputs, run, accept) {
            (Some(inputs), run, accept) if faults.is_empty() => Ok(CheckedWebhook {
                spec: self,
                inputs,
                run: run.flatten(),
                accept: accept.flatten(),
                is_trusted: false,
            }),
            _ => Err(faults),
        }
    }
}

/// Checks what a webhook is called: a part of its URL.
pub(crate) fn check_webhook_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "the name of a webhook has 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`, the first a letter or digit"
    ))
}

fn check_name(name: &str, pointer: &str, fault: &mut impl FnMut(&str, &str)) {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(steers) {
        fault(
            pointer,
            &format!(
                "a name has 1 to {NAME_BYTES_MAX} bytes, none of them of a character that controls how text is shown"
            ),
        );
    }
}

fn check_verify(verify: &Verify, fault: &mut impl FnMut(&str, &str)) {
    match (verify, verify.secrets().len()) {
        (Verify::None { .. }, _) | (_, 1..=SECRETS_MAX) => {}
        (_, 0) => fault("/verify/secrets", "one secret is needed, or `\"scheme\": \"none\"` to let anybody send"),
        _ => fault("/verify/secrets", "two secrets at most: an old and a new one"),
    }
    let mut header = |name: Option<&String>, key: &str| {
        if name.is_some_and(|name| name.len() > NAME_BYTES_MAX || HeaderName::from_bytes(name.as_bytes()).is_err()) {
            fault(&format!("/verify/{key}"), "it is not the name of a header");
        }
    };
    match verify {
        Verify::Hmac { header: name, id, timestamp, signed, .. } => {
            header(Some(name), "header");
            header(id.as_ref(), "id");
            header(timestamp.as_ref(), "timestamp");
            match (signed, timestamp) {
                (Signed::TimestampBody, None) => {
                    fault("/verify/timestamp", "the header of the time is needed, because the time is signed");
                }
                (Signed::Body, Some(_)) => {
                    fault(
                        "/verify/timestamp",
                        "a time that is not signed proves nothing: `\"signed\": \"timestamp.body\"`",
                    );
                }
                _ => {}
            }
        }
        Verify::Token { header: name, id, .. } => {
            header(Some(name), "header");
            header(id.as_ref(), "id");
        }
        Verify::None { id } => header(id.as_ref(), "id"),
        Verify::Standard { .. } | Verify::Github { .. } | Verify::Stripe { .. } | Verify::Slack { .. } => {}
    }
}

/// A text with `${ }` is a template, and one without is an expression.
fn template(text: &str) -> Result<TextTemplate, TemplateError> {
    if text.contains("${") { TextTemplate::parse(text) } else { TextTemplate::parse(&format!("${{{text}}}")) }
}

/// The same of inputs that are one text.
fn whole(inputs: &Value) -> Value {
    match inputs {
        Value::String(text) if !text.contains("${") => Value::String(format!("${{{text}}}")),
        inputs => inputs.clone(),
    }
}

fn check_expressions<'a>(
    jq: &Jq,
    expressions: impl Iterator<Item = (&'a str, &'a Expression)>,
    fault: &mut impl FnMut(&str, &str),
) {
    for (pointer, expression) in expressions {
        for error in jq.check(expression).err().into_iter().flatten() {
            fault(pointer, &format!("`{}` is not an expression: {}", expression.text(), error.message));
        }
        let References::Paths(paths) = expression.references() else { continue };
        for root in paths.iter().filter_map(|reference| reference.path.first()) {
            if !ROOTS.contains(&root.as_str()) {
                fault(
                    pointer,
                    &format!("there is no `.{root}` here: expressions read `.body`, `.headers` and `.query`"),
                );
            }
        }
    }
}
