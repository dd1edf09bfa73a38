//! Verifies that a delivery is from who has the secret: an HMAC over its raw bytes, before anything
//! is parsed, compared in constant time.
//!
//! - **I1** What is not signed decides nothing. The id that recognises a delivery is signed, is a
//!   digest of what is signed, or is in a header that the operator has named.
//! - **I2** The id does not depend on how a signature is written: it comes from the computed tag,
//!   never from the header.

use super::secret::{Reach, Secret, SecretError, SecretSource};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use http::HeaderMap;
use ring::hmac;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far the time of a delivery may be from the server's, in seconds, to either side. What
/// Stripe, Slack and Standard Webhooks recommend.
const WINDOW_SECONDS: u64 = 300;

/// Most signatures that one delivery may bring: senders add one for each of their secrets.
/// Arbitrary.
const SIGNATURES_MAX: usize = 16;

/// The longest id of a delivery, in bytes: what an idempotency key may have.
const ID_BYTES_MAX: usize = 255;

/// How a delivery shows that it is genuine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "scheme", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Verify {
    /// Standard Webhooks 1.0: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    Standard {
        /// One secret, or two while it is changed; each with or without `whsec_`.
        secrets: Vec<SecretSource>,
    },
    /// GitHub: `X-Hub-Signature-256`. There is no signed time, so the bytes that were delivered
    /// are recognised for ever.
    Github {
        /// One secret, or two while it is changed.
        secrets: Vec<SecretSource>,
    },
    /// Stripe: `Stripe-Signature` with `t=` and `v1=`. The id is that of the event.
    Stripe {
        /// One secret, or two while it is changed.
        secrets: Vec<SecretSource>,
    },
    /// Slack: `X-Slack-Signature` and `X-Slack-Request-Timestamp`. The id is the digest of the
    /// body, which Slack sends again unchanged.
    Slack {
        /// One secret, or two while it is changed.
        secrets: Vec<SecretSource>,
    },
    /// Any HMAC in a header.
    Hmac {
        /// One secret, or two while it is changed.
        secrets: Vec<SecretSource>,
        /// The header of the signature.
        header: String,
        /// What stands before the signature, as `sha256=`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        prefix: String,
        /// The hash function.
        algorithm: Algorithm,
        /// How the signature is written.
        encoding: Encoding,
        /// What is signed.
        signed: Signed,
        /// The header of the time, in seconds since 1970, if it is signed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<String>,
        /// The header of the delivery's id. Without it the id is the digest of the signature.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// A token in a header: whoever reads one delivery can send others.
    Token {
        /// One token, or two while it is changed.
        secrets: Vec<SecretSource>,
        /// The header of the token.
        header: String,
        /// What stands before the token, as `Bearer `.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        prefix: String,
        /// The header of the delivery's id. Without it each delivery is a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// Anybody may send.
    None {
        /// The header of the delivery's id. Without it each delivery is a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
}

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Hexadecimal digits.
    Hex,
    /// Base64 with `+`, `/` and padding.
    Base64,
}

/// What is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Signed {
    /// The body.
    #[serde(rename = "body")]
    Body,
    /// The time, a dot, and the body.
    #[serde(rename = "timestamp.body")]
    TimestampBody,
}

/// A delivery before anything of it is parsed.
pub(crate) struct Received<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
    /// The server's time, in seconds since 1970.
    pub(crate) now: u64,
}

/// What is known of a genuine delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Genuine {
    /// Recognises the delivery when it comes again. `None` if nothing does.
    pub(crate) key: Option<String>,
    /// What the sender calls it, for people.
    pub(crate) id: Option<String>,
}

/// Why a delivery is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the header `{0}` is missing")]
    Missing(String),
    #[error("the header `{0}` is there more than once")]
    Repeated(String),
    #[error("the header `{header}` {why}")]
    Malformed { header: String, why: &'static str },
    #[error("the signature does not fit")]
    Forged,
    #[error("it is {0} s old, and at most {WINDOW_SECONDS} s are allowed: it may be a replay, or a clock is wrong")]
    Late(u64),
    #[error("its time is {0} s in the future, and at most {WINDOW_SECONDS} s are allowed: one of the clocks is wrong")]
    Early(u64),
    /// The server's own fault.
    #[error("the secret cannot be used: {0}")]
    Secret(#[from] SecretError),
    /// The server's own fault.
    #[error("the secret cannot be used: it is not base64, as Standard Webhooks asks")]
    NotBase64,
}

/// What a scheme found in the headers: what is signed before the body, the signatures, the id.
struct Claim {
    signed: Vec<u8>,
    tags: Vec<Vec<u8>>,
    algorithm: Algorithm,
    key: Key,
    id: Option<String>,
}

/// What recognises a delivery.
enum Key {
    /// A text of the sender.
    Given(String),
    /// The digest of the tag.
    Tag,
    /// The digest of the body.
    Body,
    /// The member `id` of the body, or else the digest of the tag.
    Event,
}

impl Verify {
    /// Verifies a delivery.
    ///
    /// # Errors
    /// Says why the delivery is refused.
    pub(crate) fn check(&self, received: &Received<'_>, reach: Reach<'_>) -> Result<Genuine, Refusal> {
        let secrets = self.secrets().iter().map(|source| source.read(reach)).collect::<Result<Vec<_>, _>>()?;
        self.check_by(received, &secrets)
    }

    /// The secrets that it names.
    pub(crate) fn secrets(&self) -> &[SecretSource] {
        match self {
            Self::Standard { secrets }
            | Self::Github { secrets }
            | Self::Stripe { secrets }
            | Self::Slack { secrets }
            | Self::Hmac { secrets, .. }
            | Self::Token { secrets, .. } => secrets,
            Self::None { .. } => &[],
        }
    }

    /// Checks that a secret can be read and used now.
    ///
    /// # Errors
    /// Says why it cannot.
    pub(crate) fn check_secret(&self, source: &SecretSource, reach: Reach<'_>) -> Result<(), String> {
        let secret = source.read(reach).map_err(|error| error.to_string())?;
        match self {
            Self::Standard { .. } => standard_key(&secret).map(drop).map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }

    /// The header whose value is a secret itself.
    pub(super) fn secret_header(&self) -> Option<&str> {
        match self {
            Self::Token { header, .. } => Some(header),
            _ => None,
        }
    }

    /// Verifies a delivery by these secrets.
    pub(super) fn check_by(&self, received: &Received<'_>, secrets: &[Secret]) -> Result<Genuine, Refusal> {
        match self {
            Self::Standard { .. } => {
                let keys = secrets.iter().map(standard_key).collect::<Result<Vec<_>, _>>()?;
                standard(received)?.check(received, &keys)
            }
            Self::Github { .. } => github(received)?.check(received, secrets),
            Self::Stripe { .. } => stripe(received)?.check(received, secrets),
            Self::Slack { .. } => slack(received)?.check(received, secrets),
            Self::Hmac { header, prefix, algorithm, encoding, signed, timestamp, id, .. } => {
                let text = header_of(received, header)?;
                let tag = text.strip_prefix(prefix.as_str()).and_then(|text| encoding.decode(text));
                let tag = tag.ok_or_else(|| malformed(header, "is not a signature as the webhook describes it"))?;
                let signed = match (signed, timestamp) {
                    (Signed::TimestampBody, Some(timestamp)) => [time(received, timestamp)?.as_bytes(), b"."].concat(),
                    _ => Vec::new(),
                };
                let id = id.as_deref().map(|id| id_of(received, id)).transpose()?;
                let key = id.clone().map_or(Key::Tag, Key::Given);
                Claim { signed, tags: vec![tag], algorithm: *algorithm, key, id }.check(received, secrets)
            }
            Self::Token { header, prefix, id, .. } => {
                let text = header_of(received, header)?;
                let given = text.strip_prefix(prefix.as_str()).ok_or(Refusal::Forged)?;
                if !secrets.iter().any(|secret| are_same(secret.bytes(), given.as_bytes())) {
                    return Err(Refusal::Forged);
                }
                given_id(received, id.as_deref())
            }
            Self::None { id } => given_id(received, id.as_deref()),
        }
    }
}

impl Claim {
    fn check(self, received: &Received<'_>, secrets: &[impl AsRef<[u8]>]) -> Result<Genuine, Refusal> {
        let message = [self.signed.as_slice(), received.body].concat();
        let algorithm = match self.algorithm {
            Algorithm::Sha256 => hmac::HMAC_SHA256,
            Algorithm::Sha512 => hmac::HMAC_SHA512,
        };
        let mut found = None;
        for secret in secrets {
            let key = hmac::Key::new(algorithm, secret.as_ref());
            let tag = hmac::sign(&key, &message);
            if self.tags.iter().any(|given| are_same(tag.as_ref(), given)) {
                found = Some(tag);
                break;
            }
        }
        let tag = found.ok_or(Refusal::Forged)?;
        let by_tag = || digest("signature", tag.as_ref());
        let key = match self.key {
            Key::Given(key) => key,
            Key::Tag => by_tag(),
            Key::Body => digest("body", received.body),
            Key::Event => event_id(received.body).unwrap_or_else(by_tag),
        };
        Ok(Genuine { id: self.id.or_else(|| Some(key.clone())), key: Some(key) })
    }
}

fn standard(received: &Received<'_>) -> Result<Claim, Refusal> {
    const SIGNATURE: &str = "webhook-signature";
    const ID: &str = "webhook-id";
    let id = id_of(received, ID)?;
    if id.contains('.') {
        // It separates what is signed: the same bytes would be another id and time.
        return Err(malformed(ID, "is not an id: it has a dot in it"));
    }
    let timestamp = time(received, "webhook-timestamp")?;
    let signatures = header_of(received, SIGNATURE)?.split(' ').filter_map(|one| one.strip_prefix("v1,"));
    let tags = tags(SIGNATURE, signatures, Encoding::Base64)?;
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b"."].concat();
    Ok(Claim { signed, tags, algorithm: Algorithm::Sha256, key: Key::Given(id.clone()), id: Some(id) })
}

fn github(received: &Received<'_>) -> Result<Claim, Refusal> {
    const SIGNATURE: &str = "x-hub-signature-256";
    let tags = tags(SIGNATURE, header_of(received, SIGNATURE)?.strip_prefix("sha256=").into_iter(), Encoding::Hex)?;
    // It is not signed: whoever has read a delivery could send it again under another id.
    let id = id_of(received, "x-github-delivery").ok();
    Ok(Claim { signed: Vec::new(), tags, algorithm: Algorithm::Sha256, key: Key::Tag, id })
}

fn stripe(received: &Received<'_>) -> Result<Claim, Refusal> {
    const SIGNATURE: &str = "stripe-signature";
    let text = header_of(received, SIGNATURE)?;
    let mut times = text.split(',').filter_map(|part| part.trim().strip_prefix("t="));
    let (Some(timestamp), None) = (times.next(), times.next()) else {
        return Err(malformed(SIGNATURE, "does not have one `t=`"));
    };
    in_window(received.now, timestamp, SIGNATURE)?;
    let signatures = text.split(',').filter_map(|part| part.trim().strip_prefix("v1="));
    let tags = tags(SIGNATURE, signatures, Encoding::Hex)?;
    let signed = [timestamp.as_bytes(), b"."].concat();
    // A repeated delivery is signed anew.
    Ok(Claim { signed, tags, algorithm: Algorithm::Sha256, key: Key::Event, id: None })
}

fn slack(received: &Received<'_>) -> Result<Claim, Refusal> {
    const SIGNATURE: &str = "x-slack-signature";
    let timestamp = time(received, "x-slack-request-timestamp")?;
    let tags = tags(SIGNATURE, header_of(received, SIGNATURE)?.strip_prefix("v0=").into_iter(), Encoding::Hex)?;
    let signed = [b"v0:", timestamp.as_bytes(), b":"].concat();
    // A repeated delivery is signed anew.
    Ok(Claim { signed, tags, algorithm: Algorithm::Sha256, key: Key::Body, id: None })
}

/// The key of Standard Webhooks: base64, in most libraries after `whsec_`.
fn standard_key(secret: &Secret) -> Result<Vec<u8>, Refusal> {
    let text = secret.bytes().strip_prefix(b"whsec_").unwrap_or(secret.bytes());
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    STANDARD_NO_PAD.decode(&text[..text.len() - padding]).map_err(|_| Refusal::NotBase64)
}

impl AsRef<[u8]> for Secret {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Encoding {
    fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Base64 => STANDARD.decode(text).ok(),
            Self::Hex => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let pair = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8);
                text.as_bytes().chunks(2).map(pair).collect()
            }
        }
    }
}

/// The signatures of a header: at least one, and not too many.
fn tags<'t>(header: &str, texts: impl Iterator<Item = &'t str>, encoding: Encoding) -> Result<Vec<Vec<u8>>, Refusal> {
    let tags: Vec<_> = texts.take(SIGNATURES_MAX + 1).filter_map(|text| encoding.decode(text)).collect();
    match tags.len() {
        0 => Err(malformed(header, "has no signature in it")),
        1..=SIGNATURES_MAX => Ok(tags),
        _ => Err(malformed(header, "has too many signatures in it")),
    }
}

/// A header that must be there once.
fn header_of<'a>(received: &Received<'a>, name: &str) -> Result<&'a str, Refusal> {
    let mut values = received.headers.get_all(name).iter();
    let value = values.next().ok_or_else(|| Refusal::Missing(name.to_owned()))?;
    if values.next().is_some() {
        return Err(Refusal::Repeated(name.to_owned()));
    }
    value.to_str().map_err(|_| malformed(name, "has characters that are not visible ASCII"))
}

/// A header that is the id of the delivery.
fn id_of(received: &Received<'_>, name: &str) -> Result<String, Refusal> {
    let id = header_of(received, name)?;
    if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(malformed(name, "is not an id: 1 to 255 visible characters without spaces"));
    }
    Ok(id.to_owned())
}

fn given_id(received: &Received<'_>, header: Option<&str>) -> Result<Genuine, Refusal> {
    let id = header.map(|header| id_of(received, header)).transpose()?;
    Ok(Genuine { key: id.clone(), id })
}

/// A header that is the time of the delivery, which is not too far from now.
fn time<'a>(received: &Received<'a>, name: &str) -> Result<&'a str, Refusal> {
    let text = header_of(received, name)?;
    in_window(received.now, text, name)?;
    Ok(text)
}

fn in_window(now: u64, text: &str, header: &str) -> Result<(), Refusal> {
    // Not what `parse` takes besides, as a sign.
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let at: u64 = digits
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed(header, "is not a time in seconds since 1970"))?;
    match (now.checked_sub(at), at.checked_sub(now)) {
        (Some(age), _) if age > WINDOW_SECONDS => Err(Refusal::Late(age)),
        (_, Some(ahead)) if ahead > WINDOW_SECONDS => Err(Refusal::Early(ahead)),
        _ => Ok(()),
    }
}

fn malformed(header: &str, why: &'static str) -> Refusal {
    Refusal::Malformed { header: header.to_owned(), why }
}

/// Compares in a time that does not depend on where two texts differ: by their tags under one key.
fn are_same(a: &[u8], b: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"compare");
    hmac::verify(&key, b, hmac::sign(&key, a).as_ref()).is_ok()
}

fn digest(what: &str, bytes: &[u8]) -> String {
    format!("{what}-{}", &blake3::hash(bytes).to_hex()[..32])
}

/// The id of an event of Stripe. The body is signed, and it is bounded; it need not be JSON.
fn event_id(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Event {
        id: String,
    }
    let Event { id } = serde_json::from_slice(body).ok()?;
    let fits = !id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| format!("event-{id}"))
}
