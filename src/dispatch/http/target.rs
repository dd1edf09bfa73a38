//! The URL of a request: one text for each target, so that the URL that is checked is the URL that
//! is requested.

use url::{Host, Url};

/// Longest URL, in bytes.
pub(super) const URL_BYTES_MAX: usize = 8192;

/// Parses a URL by the WHATWG standard, which normalises case, IDNA, default ports, dot segments,
/// and odd spellings of addresses. The fragment is dropped.
///
/// # Errors
/// The fault in the URL, for its author.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    if text.len() > URL_BYTES_MAX {
        return Err(format!("the URL is longer than {URL_BYTES_MAX} bytes"));
    }
    check(Url::parse(text).map_err(|error| format!("the URL cannot be read: {error}"))?)
}

/// Resolves the target of a redirect.
pub(super) fn join(base: &Url, location: &str) -> Result<Url, String> {
    if location.len() > URL_BYTES_MAX {
        return Err(format!("the URL is longer than {URL_BYTES_MAX} bytes"));
    }
    check(base.join(location).map_err(|error| format!("the URL cannot be read: {error}"))?)
}

fn check(mut url: Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the scheme must be `https` or `http`".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL has a user name or a password in it; use `auth: { basic: … }`".into());
    }
    match url.host() {
        None => return Err("the URL has no host".into()),
        Some(Host::Domain(name)) if name.ends_with('.') || name.starts_with('.') => {
            return Err("the host begins or ends with a dot".into());
        }
        Some(_) => {}
    }
    url.set_fragment(None);
    Ok(url)
}

/// Returns whether two URLs have scheme, host and port in common.
pub(super) fn is_same_origin(left: &Url, right: &Url) -> bool {
    left.scheme() == right.scheme()
        && left.host() == right.host()
        && left.port_or_known_default() == right.port_or_known_default()
}

/// Returns the URL for display, without its query, which may hold secrets.
pub(super) fn without_query(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    crate::dispatch::problems::bounded(shown.as_str())
}
