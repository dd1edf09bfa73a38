//! References: which component of which registry.

use super::is_digest;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// How a reference begins in a workflow file and on the command line.
pub(crate) const SCHEME: &str = "oci://";

/// The tag of a reference that names neither tag nor digest.
const TAG_DEFAULT: &str = "latest";

/// Bytes of a reference at most. The specification bounds host and repository together at 255.
const REFERENCE_BYTES_MAX: usize = 512;

/// Bytes of a tag at most, by the specification.
const TAG_BYTES_MAX: usize = 128;

/// A component in a registry: `oci://host[:port]/repository[:tag][@sha256:…]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The registry's host, with its port if it has one.
    pub(super) registry: String,
    /// The repository's path.
    pub(super) repository: String,
    /// The tag, if it is named.
    pub(super) tag: Option<String>,
    /// The manifest's digest, `sha256:` and 64 hexadecimal digits.
    pub(super) digest: Option<String>,
}

/// Why a text is not a [`Reference`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ReferenceError {
    /// The fault in the text.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| refuse("a reference begins with `oci://`"))?;
        if text.len() > REFERENCE_BYTES_MAX {
            return Err(refuse(&format!("a reference has at most {REFERENCE_BYTES_MAX} bytes")));
        }
        let (named, digest) = match rest.split_once('@') {
            Some((named, digest)) if is_digest(digest) => (named, Some(digest.to_owned())),
            Some(_) => return Err(refuse("a digest is `sha256:` and 64 hexadecimal digits in lower case")),
            None => (rest, None),
        };
        let (registry, path) = named.split_once('/').ok_or_else(|| refuse("it names no repository"))?;
        // A colon before the last slash is that of a port.
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag.to_owned())),
            _ => (path, None),
        };
        if !is_registry(registry) {
            return Err(refuse("the registry is not a host, with a port perhaps"));
        }
        if !is_repository(repository) {
            return Err(refuse(
                "a repository has parts of a-z, 0-9, `.`, `_` and `-`, separated by `/`, each beginning and ending with a letter or digit",
            ));
        }
        if tag.as_deref().is_some_and(|tag| !is_tag(tag)) {
            return Err(refuse(
                "a tag begins with a letter, a digit or `_`, and has at most 128 of these, `.` and `-`",
            ));
        }
        Ok(Self { registry: registry.to_owned(), repository: repository.to_owned(), tag, digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

impl Reference {
    /// What the registry finds the manifest by: the digest, else the tag.
    pub(super) fn name(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or(TAG_DEFAULT)
    }

    /// The tag under which a push is found.
    pub(super) fn tag_or_default(&self) -> &str {
        self.tag.as_deref().unwrap_or(TAG_DEFAULT)
    }

    /// The same reference with this digest.
    #[must_use]
    pub fn pinned(&self, digest: &str) -> Self {
        Self { digest: Some(digest.to_owned()), ..self.clone() }
    }

    /// The digest that it names.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The registry's origin: plain HTTP on a loopback address, else HTTPS.
    pub(super) fn origin(&self) -> String {
        let scheme = if is_loopback(&self.registry) { "http" } else { "https" };
        format!("{scheme}://{}", self.registry)
    }
}

/// Returns whether a registry is on this machine.
pub(super) fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(host, _)| host),
        None => registry.split_once(':').map_or(registry, |(host, _)| host),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns whether a text is a host with a port perhaps.
fn is_registry(text: &str) -> bool {
    let is_host = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    is_host
        && url::Url::parse(&format!("https://{text}/")).is_ok_and(|url| {
            url.has_host() && url.path() == "/" && url.username().is_empty() && url.password().is_none()
        })
}

/// Returns whether a text is a repository's path.
fn is_repository(text: &str) -> bool {
    text.len() <= 255
        && text.split('/').all(|part| {
            let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            let bytes = part.as_bytes();
            bytes.first().is_some_and(|byte| is_end(*byte))
                && bytes.last().is_some_and(|byte| is_end(*byte))
                && bytes.iter().all(|byte| is_end(*byte) || b"._-".contains(byte))
                && !part.contains("..")
        })
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= TAG_BYTES_MAX
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || b".-".contains(&byte))
}

fn refuse(message: &str) -> ReferenceError {
    ReferenceError {
        message: message.to_owned(),
        hint: "write oci://registry.example.com/team/name:1.0, and @sha256:… after it to pin the content".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn references_are_read_and_written_as_they_were() {
        let pinned = format!("oci://localhost:5000/team/name:1.0@{DIGEST}");
        for (text, registry, repository, name) in [
            ("oci://ghcr.io/team/name:v1.2", "ghcr.io", "team/name", "v1.2"),
            ("oci://ghcr.io/name", "ghcr.io", "name", "latest"),
            ("oci://127.0.0.1:5000/a/b/c", "127.0.0.1:5000", "a/b/c", "latest"),
            ("oci://[::1]:5000/a", "[::1]:5000", "a", "latest"),
            (&pinned, "localhost:5000", "team/name", DIGEST),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!((&*reference.registry, &*reference.repository, reference.name()), (registry, repository, name));
            assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn what_could_leave_the_registry_is_refused() {
        for text in [
            "ghcr.io/a",
            "oci://ghcr.io",
            "oci://ghcr.io/",
            "oci:///a",
            "oci://user:word@ghcr.io/a",
            "oci://ghcr.io/../a",
            "oci://ghcr.io/a/../../b",
            "oci://ghcr.io/A",
            "oci://ghcr.io/a?b",
            "oci://ghcr.io/a:b/c",
            "oci://ghcr.io/a:",
            "oci://ghcr.io/a:.x",
            "oci://ghcr.io/a@sha256:00",
            "oci://ghcr.io/a@sha512:00",
            "oci://gh cr.io/a",
            "oci://ghcr.io:99999/a",
            &format!("oci://ghcr.io/{}", "a".repeat(600)),
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_registry_of_this_machine_is_spoken_to_in_plain_text() {
        for (text, origin) in [
            ("oci://localhost:5000/a", "http://localhost:5000"),
            ("oci://127.0.0.1/a", "http://127.0.0.1"),
            ("oci://[::1]:5000/a", "http://[::1]:5000"),
            ("oci://localhost.example.com/a", "https://localhost.example.com"),
            ("oci://10.0.0.1:5000/a", "https://10.0.0.1:5000"),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().origin(), origin);
        }
    }
}
