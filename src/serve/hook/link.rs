//! Approval links: whoever opens one is shown what is asked, and sends one signal by a button.
//!
//! - **I1** Only the SHA-256 of a link's secret is stored. The link is shown once, to who made it.
//! - **I2** A `GET` changes nothing: programs that look at links in messages decide nothing.
//! - **I3** A link is used once. The signal's id is derived from the link, so the run takes one
//!   signal however often and however fast the button is pressed.

use crate::journal::catalog::Link;
use crate::process::{Json, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::form_urlencoded;
use utoipa::ToSchema;

/// Bytes of a link's secret.
const SECRET_BYTES: usize = 32;
/// Characters of the title. As of a `wait`.
const TITLE_CHARS_MAX: usize = 200;
/// Characters of the text, and of a comment. As of a `wait`.
const TEXT_CHARS_MAX: usize = 4_000;
/// Characters on a button. Arbitrary.
const LABEL_CHARS_MAX: usize = 60;
/// Buttons. Arbitrary.
const CHOICES_MAX: usize = 8;
/// Bytes of what a button sends. Arbitrary: a link decides, and carries no documents.
const BODY_BYTES_MAX: usize = 16 << 10;

/// What a link shows, and what may be answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct LinkDetail {
    /// In a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// In sentences. Line breaks are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The buttons. Without them: *Approve* sends `{"approved": true}`, *Reject* sends
    /// `{"approved": false}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
}

/// A button of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Choice {
    /// What is written on it.
    pub label: String,
    /// The body of the signal. If it is an object, the comment of the person is added to it as
    /// `comment`, if there is one.
    pub body: Value,
}

/// A secret that was made for a link, and its hash.
pub(crate) struct LinkSecret {
    pub(crate) text: String,
    pub(crate) hash: [u8; 32],
}

/// What a link is at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Open,
    Used(Timestamp),
    Expired,
}

/// Why the form of a page cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAnswer {
    #[error("the form does not say which button was pressed")]
    NoChoice,
    #[error("the comment has more than {TEXT_CHARS_MAX} characters")]
    LongComment,
}

impl LinkSecret {
    /// Makes a secret.
    ///
    /// # Errors
    /// Fails if the system gives no random bytes.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        let text = URL_SAFE_NO_PAD.encode(bytes);
        let hash = hash(&bytes);
        Ok(Self { text, hash })
    }
}

/// The hash of the secret in the path of a link; `None` if it is none.
pub(crate) fn hash_of(secret: &str) -> Option<[u8; 32]> {
    let bytes = URL_SAFE_NO_PAD.decode(secret).ok().filter(|bytes| bytes.len() == SECRET_BYTES)?;
    Some(hash(&bytes))
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().try_into().expect("invariant: SHA-256 has 32 bytes")
}

/// The id of the signal that a link sends.
pub(crate) fn act_id(hash: &[u8; 32]) -> String {
    format!("link-{}", &blake3::hash(hash).to_hex()[..32])
}

/// Returns what a link is now.
pub(crate) fn state_of(link: &Link, now: Timestamp) -> LinkState {
    match link.used {
        Some(at) => LinkState::Used(at),
        None if link.expires <= now => LinkState::Expired,
        None => LinkState::Open,
    }
}

impl LinkDetail {
    /// Returns what is wrong with it: JSON Pointers, each with a text.
    pub(crate) fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut bounded = |pointer: String, text: &str, chars: std::ops::RangeInclusive<usize>| {
            if !chars.contains(&text.chars().count()) {
                faults.push((pointer, format!("it has {} to {} characters", chars.start(), chars.end())));
            }
        };
        bounded("/title".to_owned(), self.title.as_deref().unwrap_or_default(), 0..=TITLE_CHARS_MAX);
        bounded("/text".to_owned(), self.text.as_deref().unwrap_or_default(), 0..=TEXT_CHARS_MAX);
        for (number, choice) in self.choices.iter().enumerate() {
            bounded(format!("/choices/{number}/label"), &choice.label, 1..=LABEL_CHARS_MAX);
        }
        if self.choices.len() > CHOICES_MAX {
            faults.push(("/choices".to_owned(), format!("a link has at most {CHOICES_MAX} buttons")));
        }
        for (number, choice) in self.choices.iter().enumerate() {
            if choice.body.to_string().len() > BODY_BYTES_MAX {
                let message = format!("a button sends at most {BODY_BYTES_MAX} bytes");
                faults.push((format!("/choices/{number}/body"), message));
            }
        }
        faults
    }

    /// The detail with what the wait itself shows, where it says nothing.
    #[must_use]
    pub(crate) fn or_of_wait(mut self, prompt: Option<&Json>) -> Self {
        let prompt = prompt.map(Json::to_value).unwrap_or_default();
        let shown = |key: &str, chars: usize| Some(prompt.get(key)?.as_str()?.chars().take(chars).collect::<String>());
        self.title = self.title.or_else(|| shown("title", TITLE_CHARS_MAX));
        self.text = self.text.or_else(|| shown("text", TEXT_CHARS_MAX));
        self
    }

    /// The detail of a stored link. One that cannot be read shows nothing, and has no button.
    pub(crate) fn of(link: &Link) -> Option<Self> {
        link.detail.as_deref().map_or(Some(Self::empty()), |text| serde_json::from_str(text).ok())
    }

    fn empty() -> Self {
        Self { title: None, text: None, choices: Vec::new() }
    }

    /// Its buttons.
    pub(crate) fn buttons(&self) -> Vec<Choice> {
        if !self.choices.is_empty() {
            return self.choices.clone();
        }
        let choice =
            |label: &str, approved: bool| Choice { label: label.to_owned(), body: json!({ "approved": approved }) };
        vec![choice("Approve", true), choice("Reject", false)]
    }

    /// The body of the signal that the form of the page stands for.
    ///
    /// # Errors
    /// Fails if the form has no button of this link, or too long a comment.
    pub(crate) fn answer(&self, form: &[u8]) -> Result<Value, BadAnswer> {
        let (mut choice, mut comment) = (None, String::new());
        for (name, value) in form_urlencoded::parse(form) {
            match &*name {
                "choice" => choice = value.parse::<usize>().ok(),
                "comment" => comment = value.replace("\r\n", "\n"),
                _ => {}
            }
        }
        let comment = comment.trim();
        if comment.chars().count() > TEXT_CHARS_MAX {
            return Err(BadAnswer::LongComment);
        }
        let choice = choice.and_then(|choice| self.buttons().into_iter().nth(choice)).ok_or(BadAnswer::NoChoice)?;
        let mut body = choice.body;
        if let (Value::Object(body), false) = (&mut body, comment.is_empty()) {
            body.insert("comment".to_owned(), Value::from(comment));
        }
        Ok(body)
    }
}
