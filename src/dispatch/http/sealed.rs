//! Secrets in requests: placeholders are replaced in the header fields and at the hosts that the
//! secret's declaration names; a request with one anywhere else is refused.
//!
//! What the process has written stays as it is: only the header of the message that leaves has
//! values. Each hop begins with placeholders again.

use super::body::Content;
use super::request::Request;
use super::target;
use crate::dispatch::problems::{self, kind};
use crate::dispatch::secrets::{SecretError, SecretValue, Secrets};
use crate::process::secret::{DIGITS, NAME_BYTES_MAX, PREFIX, SecretGrant};
use crate::process::{Grants, Problem, ProblemClass};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;
use std::ops::Range;
use std::sync::Arc;
use url::{Host, Url};
use zeroize::Zeroizing;

/// How the value of a field with a user name and a password begins.
const BASIC: &[u8] = b"Basic ";

/// The secrets of a call.
pub(super) struct CallSecrets<'a> {
    store: &'a Arc<Secrets>,
    grants: Vec<SecretGrant>,
    /// Whether this machine itself may receive secrets without TLS.
    plain_to_loopback: bool,
}

/// A placeholder in a text.
struct Found<'t> {
    range: Range<usize>,
    text: &'t str,
    /// The name in it.
    name: &'t str,
}

impl<'a> CallSecrets<'a> {
    pub(super) fn new(store: &'a Arc<Secrets>, grants: &Grants, plain_to_loopback: bool) -> Self {
        Self { store, grants: SecretGrant::all(grants), plain_to_loopback }
    }

    /// Refuses a request with a placeholder where no secret may be.
    #[allow(clippy::unused_self, reason = "what may be in a request is its matter")]
    pub(super) fn check(&self, request: &Request) -> Result<(), Problem> {
        let refuse =
            |found: &Found<'_>, place: &str| refused(found.name, &format!("a placeholder of it is in {place}"));
        if let Some(found) = find(request.url.as_str().as_bytes()).next() {
            return Err(refuse(&found, "the URL"));
        }
        // A blob is sent as it is: nothing in it is replaced.
        if let Content::Bytes(body) = &request.body
            && let Some(found) = find(body).next()
        {
            return Err(refuse(&found, "the body"));
        }
        match request.headers.keys().find_map(|name| find(name.as_str().as_bytes()).next()) {
            Some(found) => Err(refuse(&found, "the name of a header field")),
            None => Ok(()),
        }
    }

    /// Puts the values into the header of a message to this URL. It may wait for a command.
    pub(super) async fn put_in(&self, url: &Url, headers: &mut HeaderMap) -> Result<(), Problem> {
        let names: Vec<HeaderName> = headers.keys().filter(|name| holds(headers, name)).cloned().collect();
        for name in names {
            let before: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
            headers.remove(&name);
            for value in before {
                let value = if is_held_by(&name, &value) { self.filled(url, &name, &value).await? } else { value };
                headers.append(name.clone(), value);
            }
        }
        Ok(())
    }

    /// The value of a field, with the secrets in it.
    async fn filled(&self, url: &Url, field: &HeaderName, value: &HeaderValue) -> Result<HeaderValue, Problem> {
        let basic = basic_of(field, value);
        let text: &[u8] = basic.as_ref().map_or(value.as_bytes(), |decoded| decoded.as_slice());
        let mut parts: Vec<(Range<usize>, Arc<SecretValue>)> = Vec::new();
        for found in find(text) {
            let grant = self.granted(url, field, &found)?;
            parts.push((found.range, self.value(&grant.name).await?));
        }
        let size = text.len() + parts.iter().map(|(_, value)| value.bytes().len()).sum::<usize>();
        let mut whole = Zeroizing::new(Vec::with_capacity(size));
        let mut done = 0;
        for (range, value) in &parts {
            whole.extend_from_slice(&text[done..range.start]);
            whole.extend_from_slice(value.bytes());
            done = range.end;
        }
        whole.extend_from_slice(&text[done..]);
        if basic.is_some() {
            let mut encoded = Zeroizing::new(String::with_capacity(BASIC.len() + whole.len().div_ceil(3) * 4));
            encoded.push_str("Basic ");
            STANDARD.encode_string(&*whole, &mut encoded);
            whole = Zeroizing::new(encoded.as_bytes().to_vec());
        }
        let filled = HeaderValue::from_bytes(&whole);
        let mut filled = filled.map_err(|_| {
            let name = find(text).next().map_or("", |found| found.name);
            Problem::new(kind::SECRET_MISSING, "a secret cannot be used")
                .with_detail(format!("the value of {name} has characters that no header field may have"))
                .with_class(ProblemClass::Definite)
        })?;
        // It is in no debug output, and is not put into the tables that HTTP/2 shares.
        filled.set_sensitive(true);
        Ok(filled)
    }

    /// The grant of a secret whose placeholder is in a header field of a message to this URL.
    fn granted(&self, url: &Url, field: &HeaderName, found: &Found<'_>) -> Result<&SecretGrant, Problem> {
        let name = found.name;
        let Some(grant) = self.grants.iter().find(|grant| grant.placeholder == found.text) else {
            let is_granted = self.grants.iter().any(|grant| grant.name == name);
            let why = if is_granted {
                "the placeholder is not the one of this run"
            } else {
                "it is not among the `secrets` of this step"
            };
            return Err(refused(name, why));
        };
        if !grant.headers.iter().any(|known| known == field.as_str()) {
            let why = format!("its `headers` are {}, and not {}", grant.headers.join(", "), field.as_str());
            return Err(refused(name, &why));
        }
        let host = || url.origin().ascii_serialization();
        if !grant.hosts.iter().any(|known| known.parse::<super::SecretHost>().is_ok_and(|known| known.matches(url))) {
            return Err(refused(name, &format!("its `hosts` are {}, and not {}", grant.hosts.join(", "), host())));
        }
        if url.scheme() != "https" && !(self.plain_to_loopback && is_loopback(url)) {
            return Err(Self::without_tls(name, url));
        }
        match self.store.allows(name, url) {
            Some(false) => Err(refused(name, &format!("the operator does not let {} receive it", host()))),
            // A secret that the operator does not have cannot be read either.
            Some(true) | None => Ok(grant),
        }
    }

    /// The problem of a secret that a URL without TLS would receive.
    fn without_tls(name: &str, url: &Url) -> Problem {
        let is_localhost = matches!(url.host(), Some(Host::Domain("localhost" | "localhost.")));
        let why = match () {
            () if is_localhost => ": no name may, since it can lead elsewhere; an address such as 127.0.0.1 may",
            () if is_loopback(url) => ", which the operator does not permit",
            () => "",
        };
        let origin = url.origin().ascii_serialization();
        refused(name, &format!("{origin} would receive it without TLS{why}"))
            .with_data(&serde_json::json!({ "secret": name, "without-tls": origin }))
    }

    async fn value(&self, name: &str) -> Result<Arc<SecretValue>, Problem> {
        let loaded = if self.store.waits(name) {
            let (store, name) = (Arc::clone(self.store), name.to_owned());
            let loading = tokio::task::spawn_blocking(move || store.load(&name));
            loading.await.map_err(|_| problems::host_fault("reading a secret panicked", true))?
        } else {
            self.store.load(name)
        };
        loaded.map_err(|error| missing(&error))
    }

    /// Notes that a server has refused a request: a secret in it may have been replaced.
    pub(super) fn was_refused(&self, request: &Request) {
        for (field, value) in request.headers.iter().filter(|(field, value)| is_held_by(field, value)) {
            let basic = basic_of(field, value);
            let text: &[u8] = basic.as_ref().map_or(value.as_bytes(), |decoded| decoded.as_slice());
            find(text).for_each(|found| self.store.renew(found.name));
        }
    }

    /// Takes the values out of the header of a response: out of the fields and their names.
    pub(super) fn redact_headers(&self, headers: &mut HeaderMap) {
        let redacted = |name: &HeaderName| Some((name.clone(), self.store.redacted_name(name.as_str().as_bytes())?));
        let names: Vec<(HeaderName, Vec<u8>)> = headers.keys().filter_map(redacted).collect();
        for (name, redacted) in names {
            // What remains of a valid name, and letters, digits, `-` and `_`.
            let redacted = HeaderName::from_bytes(&redacted).unwrap_or(HeaderName::from_static("secret"));
            let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
            headers.remove(&name);
            for value in values {
                headers.append(redacted.clone(), value);
            }
        }
        for value in headers.values_mut() {
            if let Some(redacted) = self.store.redacted(value.as_bytes()) {
                // What remains of a valid field, and a text of visible characters.
                *value = HeaderValue::from_bytes(&redacted).unwrap_or(HeaderValue::from_static("[secret]"));
            }
        }
    }

    /// Takes the values out of a body.
    pub(super) fn redact(&self, body: Vec<u8>) -> Vec<u8> {
        self.store.redacted(&body).unwrap_or(body)
    }

    /// Takes the values out of a body without its last bytes, and without a value that goes on in
    /// them.
    pub(super) fn redact_all_but(&self, mut body: Vec<u8>, staying: usize) -> Vec<u8> {
        let (taken, redacted) = self.store.redacted_start(&body, staying);
        body.truncate(taken);
        redacted.unwrap_or(body)
    }

    /// Takes the beginning of a body that goes on: without the values in it, and without an end in
    /// which one may have begun.
    pub(super) fn redact_start(&self, body: &mut BytesMut) -> Vec<u8> {
        let (taken, redacted) = self.store.redacted_start(body, self.overlap());
        let rest = body.split_off(taken);
        let start = std::mem::replace(body, rest);
        redacted.unwrap_or_else(|| start.to_vec())
    }

    /// How much more of a body must be read than is shown, so that no part of a value remains at
    /// its end.
    pub(super) fn overlap(&self) -> usize {
        self.store.longest()
    }

    /// Refuses the target of a redirect that a server has put a value into.
    pub(super) fn check_redirect(&self, request: &Request, location: &str) -> Result<(), Problem> {
        if self.store.redacted(location.as_bytes()).is_none() {
            return Ok(());
        }
        let class = if request.repeatable { ProblemClass::Definite } else { ProblemClass::Uncertain };
        Err(Problem::new(kind::SECRET_REFUSED, "a secret would leave where it may not")
            .with_detail(format!("{} redirects to a URL with a secret in it", target::without_query(&request.url)))
            .with_class(class))
    }
}

/// Returns whether a field has a placeholder in it: a redirect to another origin drops it.
pub(super) fn holds(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().any(|value| is_held_by(name, value))
}

fn is_held_by(field: &HeaderName, value: &HeaderValue) -> bool {
    find(value.as_bytes()).next().is_some()
        || basic_of(field, value).is_some_and(|decoded| find(&decoded).next().is_some())
}

/// The user name and the password of an `authorization` field.
fn basic_of(field: &HeaderName, value: &HeaderValue) -> Option<Vec<u8>> {
    let (scheme, rest) = value.as_bytes().split_at_checked(BASIC.len()).filter(|_| *field == header::AUTHORIZATION)?;
    STANDARD.decode(rest.trim_ascii()).ok().filter(|_| scheme.eq_ignore_ascii_case(BASIC))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        // A name can lead elsewhere.
        Some(Host::Domain(_)) | None => false,
    }
}

fn refused(name: &str, why: &str) -> Problem {
    Problem::new(kind::SECRET_REFUSED, "a secret would leave where it may not")
        .with_detail(format!("{name}: {why}"))
        .with_data(&serde_json::json!({ "secret": name }))
}

/// The problem of a secret that cannot be read now. The reason names a place of the operator's
/// machine, so it is for the log.
fn missing(error: &SecretError) -> Problem {
    tracing::warn!(secret = error.name, why = error.why, "a secret cannot be read");
    let why = if error.is_unknown { "the operator has not said where it is" } else { "it cannot be read now" };
    Problem::new(kind::SECRET_MISSING, "a secret cannot be used")
        .with_detail(format!("{}: {why}", error.name))
        .with_data(&serde_json::json!({ "secret": error.name }))
        .with_class(ProblemClass::Retryable)
}

/// Finds all texts that have the form of a placeholder, of whatever run.
fn find(text: &[u8]) -> impl Iterator<Item = Found<'_>> {
    memmem::find_iter(text, PREFIX).filter_map(|start| {
        let rest = &text[start + PREFIX.len()..];
        let name =
            rest.iter().take(NAME_BYTES_MAX + 1).position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')?;
        let digits = rest.get(name + 1..name + 1 + DIGITS)?;
        let is_one = name > 0 && rest[name] == b'-' && digits.iter().all(u8::is_ascii_hexdigit);
        let range = start..start + PREFIX.len() + name + 1 + DIGITS;
        let found = std::str::from_utf8(&text[range.clone()]).ok().filter(|_| is_one)?;
        Some(Found { range, text: found, name: &found[PREFIX.len()..PREFIX.len() + name] })
    })
}

#[cfg(test)]
#[path = "sealed_tests.rs"]
mod tests;
