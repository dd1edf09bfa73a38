//! What every request passes before its handler: the address it came to, its origin, its caller.

use super::rate::{Peer, REQUESTS_PER_SECOND};
use super::{Caller, Scope};
use crate::serve::problem::{ProblemKind, ServeProblem};
use crate::serve::service::Service;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The name of the cookie of a session; with TLS it has the prefix `__Host-`.
pub(in crate::serve) const COOKIE: &str = "wfhost";

/// Bytes of the line and the header of a request.
pub(in crate::serve) const HEADER_BYTES_MAX: usize = 32 << 10;

/// The hosts and origins that requests may name.
#[derive(Clone, Default, Debug)]
pub struct Addresses {
    /// The URL by which others reach the server, such as `https://wfhost.example.com`.
    pub public_url: Option<String>,
    /// Origins of pages that may ask from elsewhere, exactly.
    pub origins: Vec<String>,
}

impl Addresses {
    /// Refuses a request to another host: a page whose name was bound anew to this address.
    fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ServeProblem> {
        let Some(name) = asked_host(headers, uri).and_then(host_name) else {
            return Err(misdirected("the request has no `Host` that is a name or an address"));
        };
        let public = self.public_url.as_deref().and_then(|url| url.parse::<Uri>().ok());
        let public = public.as_ref().and_then(Uri::host).map(|public| public.trim_matches(['[', ']']));
        let is_public = public.is_some_and(|public| public.eq_ignore_ascii_case(name));
        // A name can be bound to any address; an address is what it is.
        if is_public || name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") {
            return Ok(());
        }
        Err(misdirected(&format!("`{name}` is not a name of this server")))
    }

    /// Refuses a request of a page elsewhere.
    fn check_origin(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ServeProblem> {
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let host = asked_host(headers, uri).unwrap_or_default();
        let is_own = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
        let is_public = self.public_url.as_deref().is_some_and(|url| url.trim_end_matches('/') == origin);
        if is_own || is_public || self.origins.iter().any(|allowed| allowed == origin) {
            return Ok(());
        }
        Err(misdirected(&format!("the origin `{origin}` is not that of this server")))
    }
}

fn misdirected(detail: &str) -> ServeProblem {
    ServeProblem::new(ProblemKind::Misdirected)
        .detail(detail)
        .hint("`wfhost serve --public-url` names the URL that others use, and `--allow-origin` pages that may ask")
}

/// The authority that a request is for, if it says one: HTTP/2 has it in the URI, and no `Host`.
fn asked_host<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Option<&'r str> {
    let asked = uri.authority().map(axum::http::uri::Authority::as_str);
    let mut all = headers.get_all(header::HOST).iter().map(|host| host.to_str().ok()).chain(asked.map(Some));
    let first = all.next()??;
    // Others that read the request may take another one.
    all.all(|other| other.is_some_and(|other| other.eq_ignore_ascii_case(first))).then_some(first)
}

/// The host of an authority: a name or an address, and then a port or nothing else.
fn host_name(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(address, _)| address.parse::<Ipv6Addr>().is_ok())?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_number = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (is_port && !host.is_empty() && host.bytes().all(is_plain)).then_some(host)
}

/// Refuses a request whose line and header are too long together.
pub(in crate::serve) fn check_header(request: &Request) -> Result<(), ServeProblem> {
    let uri = request.uri();
    let line = uri.path().len() + uri.query().map_or(0, str::len);
    // A colon, a space, and the end of the line.
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    if line + fields.sum::<usize>() <= HEADER_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("the line and the header of a request have at most {HEADER_BYTES_MAX} bytes");
    Err(ServeProblem::new(ProblemKind::HeaderTooLarge).detail(detail))
}

/// Lets a request through to a route that needs a scope.
pub(in crate::serve) async fn scoped(
    service: Arc<Service>,
    scope: Scope,
    mut request: Request,
    next: Next,
) -> Response {
    let credential = check_address(&service, &request).and_then(|()| credential(&request));
    let caller = match credential {
        Ok(credential) => {
            let peer = request.extensions().get::<Peer>().copied();
            authenticate(&service, credential, peer).await
        }
        Err(problem) => Err(problem),
    };
    match caller.and_then(|caller| caller.check(scope).map(|()| caller)) {
        Ok(caller) => {
            tracing::Span::current().record("token", caller.token());
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Lets a request through to a route that everybody may use.
pub(in crate::serve) async fn open(service: Arc<Service>, request: Request, next: Next) -> Response {
    match check_address(&service, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check_address(service: &Service, request: &Request) -> Result<(), ServeProblem> {
    let addresses = &service.options.addresses;
    addresses.check_host(request.headers(), request.uri())?;
    addresses.check_origin(request.headers(), request.uri())
}

/// By what a request says who sends it.
enum Credential {
    Token(String),
    Cookie(String),
}

fn unauthenticated() -> ServeProblem {
    ServeProblem::new(ProblemKind::Unauthenticated)
}

/// The token of a request, or the cookie of its session.
fn credential(request: &Request) -> Result<Credential, ServeProblem> {
    if let Some(value) = request.headers().get(header::AUTHORIZATION) {
        let token = value.to_str().ok().and_then(bearer).ok_or_else(unauthenticated)?;
        return Ok(Credential::Token(token.to_owned()));
    }
    let Some(cookie) = cookie(request.headers()) else {
        return Err(unauthenticated().hint("`wfhost token create` makes a token"));
    };
    check_same_site(request)?;
    Ok(Credential::Cookie(cookie.to_owned()))
}

/// The caller with a credential, if it may ask now.
async fn authenticate(
    service: &Arc<Service>,
    credential: Credential,
    peer: Option<Peer>,
) -> Result<Caller, ServeProblem> {
    let known = match &credential {
        Credential::Token(token) => service.tokens.known_caller(token),
        Credential::Cookie(_) => None,
    };
    let caller = match known {
        Some(caller) => Some(caller),
        None => {
            let read = service.with_store(move |service| match credential {
                Credential::Token(token) => Ok(service.tokens.caller(&token)?),
                Credential::Cookie(cookie) => service.session(&cookie),
            });
            read.await?
        }
    };
    let caller = caller.ok_or_else(|| unknown_credential(service, peer))?;
    service.limiter.request(&caller).map_err(|seconds| {
        let detail = format!("a token sends at most {REQUESTS_PER_SECOND} requests in a second");
        ServeProblem::new(ProblemKind::RateLimited).detail(detail).retry_after(seconds)
    })?;
    Ok(caller)
}

/// The problem of a token that is not valid; of too many from one address.
pub(in crate::serve) fn unknown_credential(service: &Service, peer: Option<Peer>) -> ServeProblem {
    match service.limiter.unknown_token(peer) {
        Ok(()) => unauthenticated().detail("it is unknown, over or revoked"),
        Err(seconds) => ServeProblem::new(ProblemKind::RateLimited)
            .detail("too many unknown tokens came from this address")
            .retry_after(seconds),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The cookie of a session.
pub(in crate::serve) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE || name.strip_prefix("__Host-") == Some(COOKIE)).map(|(_, value)| value)
}

/// Refuses a change that a page of another site asks for with the cookie of its reader.
fn check_same_site(request: &Request) -> Result<(), ServeProblem> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let headers = request.headers();
    let is_same = match headers.get("sec-fetch-site") {
        Some(site) => site == "same-origin",
        // `check_origin` has compared it.
        None => headers.contains_key(header::ORIGIN),
    };
    if is_same { Ok(()) } else { Err(misdirected("the request is not of this server's own page")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_own_names_and_addresses_are_hosts() {
        let addresses = Addresses { public_url: Some("https://flows.example.com".to_owned()), ..Addresses::default() };
        for (host, is_own) in [
            ("localhost:7007", true),
            ("127.0.0.1:7007", true),
            ("[::1]:7007", true),
            ("flows.example.com", true),
            ("evil.example.com", false),
            ("localhost.evil.example.com", false),
            ("127.0.0.1.evil.example.com", false),
            ("", false),
            (":7007", false),
            ("localhost:7007@evil.example.com", false),
            ("evil.example.com@localhost", false),
            ("localhost:7007:7007", false),
            ("localhost:x", false),
            ("localhost:+80", false),
            ("localhost:70000", false),
            ("localhost:", false),
            ("localhost/evil.example.com", false),
            ("localhost evil.example.com", false),
            ("localhost,evil.example.com", false),
            ("localhost#", false),
            ("[::1", false),
            ("[::1]evil.example.com", false),
            ("[localhost]", false),
            ("::1]", false),
        ] {
            let checked = addresses.check_host(&headers(&[("host", host)]), &Uri::from_static("/v1/runs"));
            assert_eq!(checked.is_ok(), is_own, "{host}");
        }
        assert!(addresses.check_host(&headers(&[]), &Uri::from_static("/")).is_err());
        // Not two that differ.
        let mut two = headers(&[("host", "localhost")]);
        assert!(addresses.check_host(&two, &Uri::from_static("http://localhost/")).is_ok());
        assert!(addresses.check_host(&two, &Uri::from_static("http://127.0.0.1/")).is_err());
        two.append(header::HOST, "127.0.0.1".parse().unwrap());
        assert!(addresses.check_host(&two, &Uri::from_static("/")).is_err());
    }

    #[test]
    fn only_own_pages_and_those_that_are_named_may_ask() {
        let addresses = Addresses { public_url: None, origins: vec!["https://desk.example.com".to_owned()] };
        for (origin, is_allowed) in [
            ("http://localhost:7007", true),
            ("https://desk.example.com", true),
            ("https://desk.example.com.evil.com", false),
            ("http://localhost:8080", false),
            ("null", false),
        ] {
            let checked = addresses
                .check_origin(&headers(&[("host", "localhost:7007"), ("origin", origin)]), &Uri::from_static("/"));
            assert_eq!(checked.is_ok(), is_allowed, "{origin}");
            // As HTTP/2 has it.
            let uri = Uri::from_static("http://localhost:7007/v1/runs");
            let checked = addresses.check_origin(&headers(&[("origin", origin)]), &uri);
            assert_eq!(checked.is_ok(), is_allowed, "{origin}");
        }
    }
}
