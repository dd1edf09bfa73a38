//! The hosts that may receive a secret.

use super::pattern::{HostPattern, Pattern, host_of, split_port};
use std::str::FromStr;
use url::Url;

/// Longest pattern of hosts, in bytes: a name with a port.
const HOST_BYTES_MAX: usize = 300;

/// A pattern of the hosts that may receive a secret: as in a grant, `s3.example.com`,
/// `*.example.com`, `[::1]:8443`. Without a port it is that of the scheme.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretHost {
    host: HostPattern,
    port: Option<u16>,
}

impl FromStr for SecretHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > HOST_BYTES_MAX {
            return Err(format!("a host is longer than {HOST_BYTES_MAX} bytes"));
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(format!("a host stands alone, without `{scheme}://`"));
        }
        if let Some(odd) = text.chars().find(|c| matches!(c, '/' | '?' | '#' | '@' | '\\') || c.is_whitespace()) {
            return Err(format!("a host has no `{odd}`"));
        }
        let (host, port) = split_port(text)?;
        let port = port.map(|port| port.parse().map_err(|_| format!("`{port}` is not a port"))).transpose()?;
        match host_of(host)? {
            HostPattern::Any => Err("a secret is for hosts that are named, not for all of them".to_owned()),
            host => Ok(Self { host, port }),
        }
    }
}

impl SecretHost {
    /// Returns whether a request to this URL is one to these hosts.
    pub(in crate::dispatch) fn matches(&self, url: &Url) -> bool {
        let port = self.port.or(if url.scheme() == "https" { Some(443) } else { Some(80) });
        url.port_or_known_default() == port && url.host().is_some_and(|host| self.host.matches(&host))
    }

    /// Returns whether one of the patterns of `allow: { http: … }` grants a request to these hosts.
    /// A pattern that cannot be read grants nothing.
    #[must_use]
    pub fn is_reached_by(&self, patterns: &[String]) -> bool {
        let reads = |text: &String| text.parse::<Pattern>().ok();
        let reaches =
            |pattern: Pattern| [true, false].iter().any(|is_https| pattern.reaches(&self.host, self.port, *is_https));
        patterns.iter().filter_map(reads).any(reaches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(host: &str, url: &str) -> bool {
        host.parse::<SecretHost>().unwrap().matches(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_host_is_matched_with_its_port() {
        for (host, url) in [
            ("a.example", "https://a.example/x?y"),
            ("A.example", "https://a.EXAMPLE:443/"),
            ("*.a.example", "https://b.c.a.example/"),
            ("a.example:8443", "https://a.example:8443/"),
            ("127.0.0.1:80", "http://127.0.0.1/"),
            ("[::1]:7", "http://[::1]:7/"),
        ] {
            assert!(matches(host, url), "{host} {url}");
        }
        for (host, url) in [
            ("a.example", "https://b.a.example/"),
            ("a.example", "https://a.example:8443/"),
            ("a.example", "https://a.example.evil.example/"),
            ("*.a.example", "https://a.example/"),
            ("*.a.example", "https://ba.example/"),
            ("a.example:8443", "https://a.example/"),
            ("a.example", "http://a.example:443/"),
        ] {
            assert!(!matches(host, url), "{host} {url}");
        }
        for bad in ["", "*", "https://a.example", "a.example/x", "a b", "a*.example", "a.example:x", "u@a.example"] {
            assert!(bad.parse::<SecretHost>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_grant_reaches_a_host_if_some_request_is_for_both() {
        let reached =
            |host: &str, pattern: &str| host.parse::<SecretHost>().unwrap().is_reached_by(&[pattern.to_owned()]);
        assert!(reached("a.example", "GET https://*.example"));
        assert!(reached("*.example", "POST https://a.example/x/*"));
        assert!(reached("a.example:8443", "https://a.example:8443"));
        assert!(reached("127.0.0.1:8080", "http://127.0.0.1:8080"));
        assert!(!reached("a.example", "https://b.example"));
        assert!(!reached("a.example", "https://a.example:8443"));
        assert!(!reached("a.example", "no pattern"));
    }
}
