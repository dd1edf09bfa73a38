//! Requests to one registry: authorization, redirects, bounds.

use super::reference::{Reference, is_loopback};
use super::{RegistryError, credentials};
use crate::dispatch::http::{Client, no_answer};
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use std::path::Path;
use std::time::Duration;
use tower_service::Service as _;
use url::Url;

/// How long one request may take, its body included. Arbitrary: a large component on a slow line.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(5);

/// Redirects that are followed. Arbitrary; registries use one, to where the blobs are.
const REDIRECTS_MAX: usize = 5;

/// Bytes of an answer that carries a token or an error.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Characters of a server's own words that are shown.
const SHOWN_MAX: usize = 300;

/// The requests of one pull or push.
pub(super) struct Session<'a> {
    client: Client,
    reference: &'a Reference,
    origin: Url,
    /// What tokens are asked for: `pull` or `pull,push`.
    actions: &'static str,
    basic: Option<String>,
    authorization: Option<HeaderValue>,
}

/// A request, but for what the session adds.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    /// The media types that are accepted, or that of the body.
    pub(super) media_type: &'static str,
    pub(super) body: Bytes,
    /// Bytes of the answer's body at most.
    pub(super) bytes_max: u64,
}

/// An answer with all of its body.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        client: Client,
        reference: &'a Reference,
        actions: &'static str,
        file: Option<&Path>,
    ) -> Result<Self, RegistryError> {
        let origin = Url::parse(&reference.origin()).map_err(|error| RegistryError::new(error.to_string()))?;
        let basic = file.map_or(Ok(None), |file| credentials::basic(file, &reference.registry))?;
        Ok(Self { client, reference, origin, actions, basic, authorization: None })
    }

    /// The URL of a path below the repository.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.origin.clone();
        url.set_path(&format!("/v2/{}/{path}", self.reference.repository));
        url
    }

    /// Resolves where an upload goes on.
    ///
    /// # Errors
    /// The registry named no place, or one that would not be encrypted.
    pub(super) fn location(&self, asked: &Url, headers: &HeaderMap) -> Result<Url, RegistryError> {
        let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| self.wrong("it names no location"))?;
        let url = asked.join(location).map_err(|error| self.wrong(&format!("its location is no URL: {error}")))?;
        self.check_scheme(&url)?;
        Ok(url)
    }

    /// Sends a request, with a token if the registry asks for one, and follows redirects of
    /// requests without a body.
    pub(super) async fn send(&mut self, request: &Request) -> Result<Answer, RegistryError> {
        let mut url = request.url.clone();
        let mut asked_for_token = false;
        for _ in 0..=REDIRECTS_MAX {
            let is_own = url.origin() == self.origin.origin();
            let authorization = self.authorization.clone().filter(|_| is_own);
            let answer = self.exchange(request, &url, authorization).await?;
            if answer.status == StatusCode::UNAUTHORIZED && is_own && !asked_for_token {
                asked_for_token = true;
                self.authorize(&answer.headers).await?;
                continue;
            }
            let is_redirect = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect || !matches!(request.method, Method::GET | Method::HEAD) {
                return Ok(answer);
            }
            url = self.location(&url, &answer.headers)?;
        }
        Err(self.wrong("it redirects too often"))
    }

    /// Sends one request and reads the answer.
    async fn exchange(
        &mut self,
        request: &Request,
        url: &Url,
        authorization: Option<HeaderValue>,
    ) -> Result<Answer, RegistryError> {
        let mut message = http::Request::new(Full::new(request.body.clone()));
        *message.method_mut() = request.method.clone();
        *message.uri_mut() =
            url.as_str().parse().map_err(|_| self.wrong("its location has characters that a request cannot carry"))?;
        let headers = message.headers_mut();
        let media_type = HeaderValue::from_static(request.media_type);
        let has_body = matches!(request.method, Method::PUT | Method::POST);
        headers.insert(if has_body { CONTENT_TYPE } else { ACCEPT }, media_type);
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("wfhost/", env!("CARGO_PKG_VERSION"))));
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        let whole = async {
            let answer = self.client.call(message).await.map_err(|error| self.unreachable(&error))?;
            let (head, mut body) = answer.into_parts();
            let bytes_max = if head.status.is_success() { request.bytes_max } else { ANSWER_BYTES_MAX };
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| self.wrong(&format!("the answer broke off: {error}")))?;
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() as u64 + data.len() as u64 > bytes_max {
                    return Err(self.wrong(&format!("the answer has more than {bytes_max} bytes")));
                }
                bytes.extend_from_slice(&data);
            }
            Ok(Answer { status: head.status, headers: head.headers, body: bytes.into() })
        };
        let whole = tokio::time::timeout(REQUEST_TIMEOUT, whole).await;
        whole.unwrap_or_else(|_| Err(self.wrong(&format!("it did not answer within {} s", REQUEST_TIMEOUT.as_secs()))))
    }

    /// Obtains what the registry's challenge asks for.
    async fn authorize(&mut self, headers: &HeaderMap) -> Result<(), RegistryError> {
        let challenges = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|challenge| challenge.to_str().ok());
        let challenges: Vec<&str> = challenges.collect();
        if let Some(bearer) = challenges.iter().find_map(|challenge| parameters(challenge, "bearer")) {
            let token = self.token(&bearer).await?;
            return self.set_authorization(&format!("Bearer {token}"));
        }
        if challenges.iter().any(|challenge| challenge.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("basic")))
        {
            let Some(basic) = self.basic.clone() else { return Err(self.denied("it asks for a name and a password")) };
            return self.set_authorization(&basic);
        }
        Err(self.denied("it does not say how to authorize"))
    }

    /// Asks the token server that the registry names.
    async fn token(&mut self, bearer: &[(String, String)]) -> Result<String, RegistryError> {
        let value = |name: &str| bearer.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let realm = value("realm").unwrap_or_default();
        let mut url = Url::parse(realm).map_err(|error| self.wrong(&format!("its token server is no URL: {error}")))?;
        self.check_scheme(&url)?;
        let scope = format!("repository:{}:{}", self.reference.repository, self.actions);
        {
            let mut query = url.query_pairs_mut();
            if let Some(service) = value("service") {
                query.append_pair("service", service);
            }
            query.append_pair("scope", &scope);
        }
        let basic = self.basic.as_deref().map(HeaderValue::from_str).transpose();
        let basic = basic.map_err(|_| self.wrong("the password has characters that a header cannot carry"))?;
        let request = Request {
            method: Method::GET,
            url: url.clone(),
            media_type: "application/json",
            body: Bytes::new(),
            bytes_max: ANSWER_BYTES_MAX,
        };
        let answer = self.exchange(&request, &url, basic).await?;
        if !answer.status.is_success() {
            return Err(self.denied(&format!("its token server answered {}", answer.status)));
        }
        let token: serde_json::Value =
            serde_json::from_slice(&answer.body).map_err(|_| self.wrong("its token server answered with no JSON"))?;
        let token = ["token", "access_token"].iter().find_map(|name| token[*name].as_str());
        token.map(str::to_owned).ok_or_else(|| self.wrong("its token server answered without a token"))
    }

    fn set_authorization(&mut self, text: &str) -> Result<(), RegistryError> {
        let mut value = HeaderValue::from_str(text).map_err(|_| self.wrong("the token is no text of a header"))?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(())
    }

    /// Refuses plain HTTP, but from a registry of this machine to this machine.
    fn check_scheme(&self, url: &Url) -> Result<(), RegistryError> {
        let is_own = self.origin.scheme() == "http" && url.host_str().is_some_and(is_loopback);
        let is_allowed = url.scheme() == "https" || url.scheme() == "http" && is_own;
        if is_allowed {
            Ok(())
        } else {
            Err(self.wrong(&format!("it leads to {}, which is not encrypted", shown(url.as_str()))))
        }
    }

    /// The error of an answer with an unexpected status.
    pub(super) fn unexpected(&self, answer: &Answer) -> RegistryError {
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.denied(&format!("it answered {}", answer.status)),
            StatusCode::NOT_FOUND => RegistryError::new(format!("there is no {}", self.reference)).with_hint(
                "is the name right, and the tag? Registries also answer so where the credentials do not suffice",
            ),
            status => {
                let text: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                let words = text["errors"][0]["message"].as_str().map(|words| format!(": {}", shown(words)));
                self.wrong(&format!("it answered {status}{}", words.unwrap_or_default()))
            }
        }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> RegistryError {
        let (why, hint) = no_answer(error);
        let error = RegistryError::new(format!("the registry {} cannot be reached: {why}", self.reference.registry));
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    pub(super) fn wrong(&self, what: &str) -> RegistryError {
        RegistryError::new(format!("the registry {}: {what}", self.reference.registry))
    }

    fn denied(&self, what: &str) -> RegistryError {
        let hint = match (&self.basic, credentials::file()) {
            (Some(_), Some(file)) => {
                format!("the credentials of {} in {} do not suffice", self.reference.registry, file.display())
            }
            (_, Some(file)) => format!(
                "put its credentials into {}: docker login {}, or podman login",
                file.display(),
                self.reference.registry
            ),
            (_, None) => "name a file with its credentials by REGISTRY_AUTH_FILE".to_owned(),
        };
        self.wrong(&format!("access is denied: {what}")).with_hint(hint)
    }
}

/// The parameters of a challenge of this scheme: `Bearer realm="…",service="…"` (RFC 9110, section
/// 11.2).
fn parameters(challenge: &str, scheme: &str) -> Option<Vec<(String, String)>> {
    let (word, mut rest) = challenge.split_once(' ')?;
    if !word.eq_ignore_ascii_case(scheme) {
        return None;
    }
    let mut found = Vec::new();
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_ascii_lowercase();
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((name, value.to_owned()));
        rest = after;
    }
    Some(found)
}

/// A server's words, shortened.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let challenge = r#"Bearer realm="https://auth.example.com/token",service="a,b",scope="repository:x:pull""#;
        let expected =
            vec![of("realm", "https://auth.example.com/token"), of("service", "a,b"), of("scope", "repository:x:pull")];
        assert_eq!(parameters(challenge, "bearer"), Some(expected));
        assert_eq!(parameters("bearer realm=x, service=y", "bearer"), Some(vec![of("realm", "x"), of("service", "y")]));
        assert_eq!(parameters("Basic realm=\"x\"", "bearer"), None);
        assert_eq!(parameters("Bearer", "bearer"), None);
        assert_eq!(parameters("Bearer realm=\"open", "bearer"), Some(vec![of("realm", "open")]));
    }
}
