//! `secrets:`, of a workflow and of a step.

use super::fields::{Fields, KnownKeys, fixed_text, shorten, texts};
use super::foreign_keys;
use super::{SECRETS_MAX, Spanned};
use crate::process::secret;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Entry, Node, Span};

pub(super) const KEYS: KnownKeys =
    KnownKeys { what: "a secret", known: &["from", "hosts", "headers"], later: &[], foreign: foreign_keys::SECRET };

pub(super) const FROM_KEYS: KnownKeys =
    KnownKeys { what: "`from`", known: &["env", "file", "command"], later: &[], foreign: foreign_keys::NOTHING };

/// The header fields of a secret that names none.
const HEADERS_DEFAULT: [&str; 3] = ["authorization", "x-api-key", "cookie"];

/// Hosts, header fields and words of a command at most. Arbitrary.
const LIST_MAX: usize = 16;

/// Bytes of each of them at most. Arbitrary.
const TEXT_BYTES_MAX: usize = 1_024;

/// A whole declaration.
const EXAMPLE: &str = "secrets: { API_KEY: { from: env, hosts: [ api.example.com ] } }";

/// Fields that the host sets, or that travel with the message: no secret belongs there.
const NO_HEADERS: [&str; 8] =
    ["host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "idempotency-key"];

/// An entry of `secrets:`.
#[derive(Clone, PartialEq, Debug)]
pub struct SecretDecl {
    /// The name in `.secrets`, and for the operator.
    pub name: Spanned<String>,
    /// `from`.
    pub from: SecretOrigin,
    /// `hosts`: patterns of who may receive it.
    pub hosts: Vec<Spanned<String>>,
    /// `headers`, in lower case.
    pub headers: Vec<String>,
}

/// Where the author of a file expects the value of a secret.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretOrigin {
    /// A variable; `None`: the one with the secret's name.
    Env(Option<String>),
    /// A file.
    File(String),
    /// The output of a command.
    Command(Vec<String>),
}

impl Default for SecretOrigin {
    fn default() -> Self {
        Self::Env(None)
    }
}

impl SecretOrigin {
    /// The flag by which an operator gives a secret from there.
    #[must_use]
    pub fn flag(&self, name: &str) -> String {
        match self {
            Self::Env(None) => format!("--secret {name}"),
            Self::Env(Some(variable)) => format!("--secret {name}=env:{variable}"),
            Self::File(path) => format!("--secret '{name}=file:{path}'"),
            Self::Command(words) => format!("--secret '{name}=command:{}'", words.join(" ")),
        }
    }
}

/// Reads `secrets:` at the top. The names of those that cannot be read are added to `unread`.
pub(super) fn read_secrets(node: &Node, unread: &mut Vec<String>, problems: &mut Diagnostics) -> Vec<SecretDecl> {
    let Some(entries) = node.as_mapping() else {
        let message = format!("`secrets` must be a mapping with a key for each secret, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint(EXAMPLE));
        return Vec::new();
    };
    if entries.len() > SECRETS_MAX {
        let message = format!("{} secrets are more than the {SECRETS_MAX} that a workflow may have", entries.len());
        problems.push(Diagnostic::new("too-large", message, node.span));
    }
    let mut secrets = Vec::new();
    for entry in entries.iter().take(SECRETS_MAX) {
        match read_secret(entry, problems) {
            Some(secret) => secrets.push(secret),
            None => unread.push(entry.key.clone()),
        }
    }
    secrets
}

fn read_secret(entry: &Entry, problems: &mut Diagnostics) -> Option<SecretDecl> {
    let name = &entry.key;
    if !secret::is_name(name) {
        let message = format!("`{}` cannot name a secret", shorten(name));
        let rule = "a name is like that of a variable: at most 64 letters, digits and `_`, and no digit first";
        problems.push(Diagnostic::new("name", message, entry.key_span).hint(rule));
        return None;
    }
    if let Some(text) = entry.value.as_scalar().filter(|scalar| !scalar.is_null()) {
        let from = if text.text == "env" { "env" } else { "…" };
        let message = "a secret is a mapping that says who may receive it";
        let hint = format!("{name}: {{ from: {from}, hosts: [ api.example.com ] }}; the file never has the value");
        problems.push(Diagnostic::new("type", message, entry.value.span).hint(hint));
        return None;
    }
    let fields = Fields::read(&entry.value, &KEYS, problems)?;
    let from = fields.get("from").map_or(Some(SecretOrigin::Env(None)), |node| read_from(name, node, problems));
    let headers = fields.get("headers").map_or(Some(HEADERS_DEFAULT.map(str::to_owned).into()), |node| {
        let before = problems.count();
        let headers = list(node, "headers", problems);
        for (text, span) in &headers {
            check_header(text, *span, problems);
        }
        (problems.count() == before).then(|| headers.iter().map(|(text, _)| text.to_ascii_lowercase()).collect())
    });
    let Some(node) = fields.get("hosts") else {
        if !fields.has_unknown_keys {
            let message = format!("the secret `{name}` has no `hosts`: who may receive it");
            problems.push(Diagnostic::new("missing-key", message, entry.key_span).hint("hosts: [ api.example.com ]"));
        }
        return None;
    };
    let hosts = list(node, "hosts", problems);
    if hosts.is_empty() {
        return None;
    }
    let hosts = hosts.into_iter().map(|(text, span)| Spanned { value: text.to_owned(), span }).collect();
    Some(SecretDecl {
        name: Spanned { value: name.clone(), span: entry.key_span },
        from: from?,
        hosts,
        headers: headers?,
    })
}

fn read_from(name: &str, node: &Node, problems: &mut Diagnostics) -> Option<SecretOrigin> {
    const HINT: &str = "write `from: env`, `from: { env: NAME }`, `from: { file: PATH }` or `from: { command: [ … ] }`";
    if node.as_mapping().is_none() {
        return match fixed_text(node, "from", problems)? {
            "env" => Some(SecretOrigin::Env(None)),
            other => {
                let message = format!("a secret does not come from `{}`", shorten(other));
                let hint = match other.trim_start_matches('$') {
                    word @ ("file" | "command") => format!("say which: from: {{ {word}: … }}"),
                    variable if secret::is_name(variable) && variable.to_ascii_uppercase() == variable => {
                        format!("for a variable, write from: {{ env: {variable} }}")
                    }
                    _ => HINT.to_owned(),
                };
                problems.push(Diagnostic::new("value", message, node.span).hint(hint));
                None
            }
        };
    }
    let fields = Fields::read(node, &FROM_KEYS, problems)?;
    let keys = fields.among(FROM_KEYS.known);
    let [entry] = keys[..] else {
        if !fields.has_unknown_keys {
            let message = format!("the secret `{name}` comes from one place");
            problems.push(Diagnostic::new("value", message, node.span).hint(HINT));
        }
        return None;
    };
    match entry.key.as_str() {
        "command" => {
            let words = list(&entry.value, "command", problems);
            (!words.is_empty())
                .then(|| SecretOrigin::Command(words.iter().map(|(word, _)| (*word).to_owned()).collect()))
        }
        key => {
            let text = fixed_text(&entry.value, key, problems)?;
            if text.is_empty() || text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
                let message = format!("this cannot be the `{key}` of a secret");
                problems.push(Diagnostic::new("value", message, entry.value.span).hint(HINT));
                return None;
            }
            Some(if key == "env" {
                SecretOrigin::Env(Some(text.to_owned()))
            } else {
                SecretOrigin::File(text.to_owned())
            })
        }
    }
}

/// Reads a list of texts that are taken literally. Empty after a problem.
fn list<'a>(node: &'a Node, what: &str, problems: &mut Diagnostics) -> Vec<(&'a str, Span)> {
    let before = problems.count();
    let all = texts(node, what, problems);
    if problems.count() > before {
        return Vec::new();
    }
    if all.is_empty() || all.len() > LIST_MAX {
        let message = format!("`{what}` has 1 to {LIST_MAX} texts, and not {}", all.len());
        problems.push(Diagnostic::new("value", message, node.span));
        return Vec::new();
    }
    if let Some((text, span)) = all.iter().find(|(text, _)| text.contains("${") || text.len() > TEXT_BYTES_MAX) {
        let message = if text.contains("${") {
            format!("`{what}` cannot hold an expression: it must be known before anything runs")
        } else {
            format!("a text of `{what}` has at most {TEXT_BYTES_MAX} bytes")
        };
        problems.push(Diagnostic::new("value", message, *span));
        return Vec::new();
    }
    all
}

fn check_header(text: &str, span: Span, problems: &mut Diagnostics) {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let lower = text.to_ascii_lowercase();
    let why = if text.is_empty() || !text.bytes().all(is_token) {
        format!("`{}` is not the name of a header field", shorten(text))
    } else if NO_HEADERS.contains(&lower.as_str()) {
        format!("the header field `{lower}` holds no secrets: the host sets it, or every server may see it")
    } else {
        return;
    };
    let hint = "without `headers` they are authorization, x-api-key and cookie";
    problems.push(Diagnostic::new("value", why, span).hint(hint));
}

/// Reads `secrets:` of a step: the names of those that it may use.
pub(super) fn read_used(node: &Node, problems: &mut Diagnostics) -> Vec<Spanned<String>> {
    if node.as_mapping().is_some() {
        let message = "the `secrets` of a step are names, and not a mapping";
        let hint = "declare them at the top of the file, and list the names here: secrets: [ API_KEY ]";
        problems.push(Diagnostic::new("type", message, node.span).hint(hint));
        return Vec::new();
    }
    let mut used: Vec<Spanned<String>> = Vec::new();
    for (text, span) in list(node, "secrets", problems) {
        if used.iter().any(|known| known.value == text) {
            problems.push(Diagnostic::new("value", format!("`{}` is listed twice", shorten(text)), span));
            continue;
        }
        used.push(Spanned { value: text.to_owned(), span });
    }
    used
}
