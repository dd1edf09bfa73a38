//! The patterns by which a workflow grants requests: `GET https://*.example.com/path/*`.
//!
//! ```text
//! pattern = [methods " "] scheme "://" host [":" port] [path]
//! methods = "*" | method {"," method}       none: GET. GET covers HEAD.
//! scheme  = "https" | "http"
//! host    = "*" | "*." name | name | address   `*.` stands for one label or more, never for none
//! port    = "*" | number                    none: the scheme's own
//! path    = "/" segments                    none: every path. A segment `*` is any one segment;
//!                                           at the end, any rest
//! ```
//! Names are compared after IDNA, paths after percent-decoding, segment by segment. A request's
//! query is not restricted.
//!
//! Servers disagree on what an encoded slash, a doubly encoded dot or `..;` means, so only patterns
//! without a path match a request whose path has one.

use http::Method;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::str::FromStr;
use url::{Host, Url};

/// Longest pattern, in bytes. Arbitrary.
const PATTERN_BYTES_MAX: usize = 2048;

/// How often a path is decoded to find what a careless server could read in it.
const DECODINGS_MAX: usize = 3;

/// A pattern of the requests that a workflow grants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// `None` for every method.
    methods: Option<Vec<Method>>,
    is_https: bool,
    host: HostPattern,
    /// `None` for every port.
    port: Option<u16>,
    path: Option<PathPattern>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HostPattern {
    Any,
    /// Every subdomain of this name.
    Below(String),
    Exactly(Host<String>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct PathPattern {
    segments: Vec<Segment>,
    /// Whether further segments may follow.
    is_open: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Any,
    Exactly(Vec<u8>),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        let (methods, rest) = match text.split_once(' ') {
            Some((methods, rest)) => (methods_of(methods)?, rest),
            None => (Some(vec![Method::GET]), text),
        };
        let (scheme, rest) = rest.split_once("://").ok_or("a pattern looks like `GET https://example.com/path/*`")?;
        let is_https = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(format!("the scheme must be `https` or `http`, not `{scheme}`")),
        };
        if let Some(odd) = rest.chars().find(|c| matches!(c, '?' | '#' | '@' | '\\') || c.is_whitespace()) {
            return Err(format!("a pattern may have no `{odd}` after the scheme"));
        }
        let (authority, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
        let (host, port) = split_port(authority)?;
        let port = match port {
            None => Some(if is_https { 443 } else { 80 }),
            Some("*") => None,
            Some(port) => Some(port.parse().map_err(|_| format!("`{port}` is not a port"))?),
        };
        let path = path.map(path_of).transpose()?;
        Ok(Self { methods, is_https, host: host_of(host)?, port, path })
    }
}

fn methods_of(text: &str) -> Result<Option<Vec<Method>>, String> {
    if text == "*" {
        return Ok(None);
    }
    let method = |name: &str| {
        super::request::method(name).ok_or_else(|| format!("`{name}` is not a method that can be granted"))
    };
    text.split(',').map(method).collect::<Result<_, _>>().map(Some)
}

pub(super) fn split_port(authority: &str) -> Result<(&str, Option<&str>), String> {
    let end_of_host =
        if authority.starts_with('[') { authority.find(']').map(|at| at + 1) } else { authority.find(':') };
    let (host, rest) = authority.split_at(end_of_host.unwrap_or(authority.len()));
    match rest.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(format!("`{authority}` is not a host")),
    }
}

pub(super) fn host_of(text: &str) -> Result<HostPattern, String> {
    if text == "*" {
        return Ok(HostPattern::Any);
    }
    let below = text.strip_prefix("*.");
    let name = below.unwrap_or(text);
    if name.contains('*') {
        return Err(format!("`{text}`: a `*` may stand alone or as the first label only"));
    }
    let host = Host::parse(name).map_err(|error| format!("`{name}` is not a host: {error}"))?;
    match (host, below) {
        (Host::Domain(name), _) if name.ends_with('.') => Err(format!("`{text}`: a host must not end in a dot")),
        (Host::Domain(name), Some(_)) => Ok(HostPattern::Below(name)),
        (_, Some(_)) => Err(format!("`{text}`: an address has no subdomains")),
        (host, None) => Ok(HostPattern::Exactly(host)),
    }
}

fn path_of(path: &str) -> Result<PathPattern, String> {
    if is_ambiguous(path) {
        return Err(format!("`{path}`: servers disagree on what such a path means"));
    }
    let mut texts: Vec<&str> = path[1..].split('/').collect();
    let is_open = texts.last() == Some(&"*");
    if is_open {
        texts.pop();
    }
    let segment = |text: &str| match text {
        "*" => Ok(Segment::Any),
        _ if text.contains('*') => Err(format!("`{path}`: a `*` stands for a whole segment")),
        _ => Ok(Segment::Exactly(percent_decode_str(text).collect())),
    };
    Ok(PathPattern { segments: texts.into_iter().map(segment).collect::<Result<_, _>>()?, is_open })
}

impl Pattern {
    /// Returns whether the pattern grants this request. [`target`](super::target) has accepted the
    /// URL.
    pub(super) fn matches(&self, method: &Method, url: &Url) -> bool {
        self.covers_method(method)
            && (url.scheme() == "https") == self.is_https
            && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
            && url.host().is_some_and(|host| self.host.matches(&host))
            && self.path.as_ref().is_none_or(|path| path.matches(url.path()))
    }

    fn covers_method(&self, method: &Method) -> bool {
        let covers = |granted: &Method| granted == method || (*granted == Method::GET && *method == Method::HEAD);
        self.methods.as_ref().is_none_or(|methods| methods.iter().any(covers))
    }

    /// Returns whether the pattern grants some request to these hosts, by this scheme.
    pub(super) fn reaches(&self, host: &HostPattern, port: Option<u16>, is_https: bool) -> bool {
        let hosts = self.host.covers(host) || host.covers(&self.host);
        let port = port.or(Some(if is_https { 443 } else { 80 }));
        self.is_https == is_https && hosts && (self.port.is_none() || self.port == port)
    }

    /// Returns whether the pattern grants every request that the other grants.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let methods = match (&self.methods, &other.methods) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(wanted)) => wanted.iter().all(|method| self.covers_method(method)),
        };
        let path = match (&self.path, &other.path) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(granted), Some(wanted)) => granted.covers(wanted),
        };
        methods
            && path
            && self.is_https == other.is_https
            && (self.port.is_none() || self.port == other.port)
            && self.host.covers(&other.host)
    }
}

impl HostPattern {
    pub(super) fn matches(&self, host: &Host<&str>) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Below(suffix), Host::Domain(name)) => is_below(name, suffix),
            (Self::Below(_), _) => false,
            (Self::Exactly(Host::Domain(exactly)), Host::Domain(name)) => exactly == name,
            (Self::Exactly(Host::Ipv4(exactly)), Host::Ipv4(address)) => exactly == address,
            (Self::Exactly(Host::Ipv6(exactly)), Host::Ipv6(address)) => exactly == address,
            _ => false,
        }
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (_, Self::Any) => false,
            (Self::Below(granted), Self::Below(wanted)) => granted == wanted || is_below(wanted, granted),
            (Self::Below(granted), Self::Exactly(Host::Domain(wanted))) => is_below(wanted, granted),
            (Self::Exactly(granted), Self::Exactly(wanted)) => granted == wanted,
            _ => false,
        }
    }
}

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).and_then(|rest| rest.strip_suffix('.')).is_some_and(|label| !label.is_empty())
}

impl PathPattern {
    fn matches(&self, path: &str) -> bool {
        if is_ambiguous(path) {
            return false;
        }
        let path: Vec<Cow<'_, [u8]>> =
            path.strip_prefix('/').unwrap_or(path).split('/').map(|s| percent_decode_str(s).into()).collect();
        let is_long_enough =
            if self.is_open { path.len() > self.segments.len() } else { path.len() == self.segments.len() };
        is_long_enough && self.segments.iter().zip(&path).all(|(segment, text)| segment.matches(text))
    }

    fn covers(&self, other: &Self) -> bool {
        let (granted, wanted) = (&self.segments, &other.segments);
        // An open pattern matches at least one segment more.
        let wanted_min = wanted.len() + usize::from(other.is_open);
        let fits = if self.is_open {
            wanted_min > granted.len() && wanted.len() >= granted.len()
        } else {
            !other.is_open && wanted.len() == granted.len()
        };
        fits && granted.iter().zip(wanted).all(|(granted, wanted)| match (granted, wanted) {
            (Segment::Any, _) => true,
            (Segment::Exactly(granted), Segment::Exactly(wanted)) => granted == wanted,
            (Segment::Exactly(_), Segment::Any) => false,
        })
    }
}

impl Segment {
    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(exactly) => exactly == text,
        }
    }
}

/// Returns whether some server could read the path as another one.
fn is_ambiguous(path: &str) -> bool {
    path.split('/').any(|segment| {
        let mut bytes = segment.as_bytes().to_vec();
        for _ in 0..DECODINGS_MAX {
            if can_escape(&bytes) {
                return true;
            }
            let decoded: Vec<u8> = percent_encoding::percent_decode(&bytes).collect();
            if decoded == bytes {
                return false;
            }
            bytes = decoded;
        }
        true
    })
}

/// Returns whether a segment contains a separator or goes up, path parameters apart.
fn can_escape(segment: &[u8]) -> bool {
    let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
    segment.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0)) || matches!(name, b"." | b"..")
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
