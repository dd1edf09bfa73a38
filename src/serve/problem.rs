//! Problems of requests: RFC 9457, `application/problem+json`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// The kinds of problems, each with its status and its title.
macro_rules! kinds {
    ($($name:ident $word:literal $status:literal $title:literal $meaning:literal;)*) => {
        /// What is wrong with a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ProblemKind {
            $(#[doc = $meaning] $name,)*
        }

        impl ProblemKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// Its HTTP status.
            pub fn status(self) -> StatusCode {
                let status = match self { $(Self::$name => $status),* };
                StatusCode::from_u16(status).expect("invariant: the table has statuses")
            }

            /// What it is called.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// What it means, and what helps.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }
        }
    };
}

kinds! {
    Malformed "malformed" 400 "The request cannot be read" "A part of the request is not what the API's document says: its path, query, header or JSON.";
    Unauthenticated "unauthenticated" 401 "A token is needed" "The request has no token, or one that is unknown, expired or revoked. Send `Authorization: Bearer TOKEN`.";
    NotGenuine "not-genuine" 401 "The delivery is not genuine" "Its signature or token does not fit, is missing, or is too old. The webhook's `verify` says what is asked for, and its list of deliveries what was wrong.";
    NotGranted "not-granted" 403 "The token does not grant this" "The token lacks the scope that the route needs, or is not for this workflow.";
    Unknown "unknown" 404 "There is no such thing" "What the path names does not exist, or the token may not see it.";
    MethodNotAllowed "method-not-allowed" 405 "The path does not have this method" "The path exists, and takes other methods.";
    RunEnded "run-ended" 409 "The run has ended" "The act needs a run that has not ended.";
    RunUnfinished "run-unfinished" 409 "The run has not ended" "The act needs a run that has ended.";
    RunBusy "run-busy" 409 "The run cannot be changed now" "A call of the run is under way, it waits for a place in its concurrency group, or another process has it. Send the request again; `pause` brings a run that never waits to rest.";
    RunExists "run-exists" 409 "There is a run with this id" "Another request started a run with this id. Ids of runs are unique in a data folder.";
    NoPlace "no-place" 409 "The concurrency group has no place" "The workflow says `on-limit: skip`, and as many runs of its group are unfinished as may be. The run did not begin.";
    NotActive "not-active" 409 "Another version is active" "The active version is not the one that the request expected.";
    InUse "in-use" 409 "It is in use" "It cannot be removed while something needs it.";
    Damaged "damaged" 409 "The run is damaged" "The records of the run cannot be read as they are on disk.";
    MissingComponents "missing-components" 409 "Components are missing" "The version names components that were not uploaded: `POST /v1/components` takes them.";
    NothingToRetry "nothing-to-retry" 409 "Nothing would run again" "Every step of the run succeeded, and nothing else has changed. `from` names a step that runs again; `version`, `components` and `inputs` make changes.";
    Retried "retried" 409 "Another run retries it already" "Steps of the run were undone. What the other run did again may be undone, too, so the same idempotency keys would not do it once more. Retry that run; `new-keys` does all of it once more.";
    Diverged "diverged" 409 "The change does something else" "What was changed does not repeat the records of the run, so nothing can continue from them. `POST /v1/runs/{id}/replay` shows the difference.";
    NoSuchCall "no-such-call" 409 "No such call is uncertain" "The call has an answer, or was never made.";
    Precondition "precondition-failed" 412 "It has changed" "The `If-Match` of the request is not the present revision.";
    TooLarge "too-large" 413 "It is too large" "The body, or a part of it, is larger than the limit.";
    NotJson "unsupported-media-type" 415 "The body is not what the route takes" "Send JSON with `Content-Type: application/json`, uncompressed.";
    Misdirected "misdirected" 421 "The request is not for this server" "Its `Host` or `Origin` is not one of this server. `--public-url` and `--allow-origin` name others.";
    DoesNotFit "does-not-fit" 422 "It does not fit" "What was sent can be read, and breaks a rule; `errors` has all of them.";
    BadRange "bad-range" 416 "The blob has no such range" "The `Range` of the request begins behind the end of the blob; `Content-Range` has its size.";
    KeyReused "key-reused" 422 "The idempotency key was used for another request" "The same key came with another request before. Use a new key for a new request.";
    HeaderTooLarge "header-too-large" 431 "The header is too large" "The line and the header of a request have at most 32 KiB together.";
    RateLimited "rate-limited" 429 "Too many requests" "Wait as long as `Retry-After` says.";
    MailboxFull "mailbox-full" 429 "The run takes no more now" "Its queue is full until it has taken some of it.";
    QueueFull "queue-full" 429 "The queue of the concurrency group is full" "As many runs wait for a place in the group as its `queue-max` says. The run did not begin.";
    HostFault "host-fault" 500 "The server failed" "A defect of the server, or of what it runs on. The request id finds it in the server's log.";
    Deploying "deploying" 503 "The server is starting" "It deploys its workflows. Send the request again in a second.";
    NotDeployed "not-deployed" 503 "The workflow is not deployed" "What the webhook starts has no active version now. Nothing has happened: send the delivery again later.";
    WebhookUnusable "webhook-unusable" 503 "The webhook cannot be used now" "Nothing has happened: send the delivery again later. The log of the server tells its operator why.";
    MissingSecrets "missing-secrets" 503 "Secrets are missing" "The workflow uses secrets that the server does not have now, so no run of it can begin or go on. `secrets` of the server's configuration file says where they are; its log says what is wrong.";
    Draining "draining" 503 "The server is stopping" "It takes no new work. Send the request again to the next one.";
    JournalFailed "journal-failed" 503 "The journal cannot be used" "The server cannot read or write its data folder.";
    Unsure "unsure" 503 "It is not known whether it counts" "The act did not become durable in time. Send it again under the same idempotency key.";
    TooManyWaits "too-many-waits" 503 "Too many requests wait" "Ask again without `wait`, or later.";
    BlobStoreFull "blob-store-full" 507 "There are more blobs than allowed" "The blobs of all runs have reached the bound of the data folder. Removing runs makes room.";
    DiskFull "disk-full" 507 "The disk is full" "Nothing new is taken until there is room; runs wait.";
}

/// A part of the request that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct PartProblem {
    /// A JSON Pointer into the body, or the name of a parameter.
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
    /// The line of a text that was sent, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in that line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Why a request is refused: a problem as RFC 9457 has them.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Problem)]
pub struct ServeProblem {
    /// Where the server explains this kind.
    #[serde(rename = "type")]
    pub about: String,
    /// The HTTP status.
    pub status: u16,
    /// The word for the kind.
    pub kind: String,
    /// What the kind is called.
    pub title: String,
    /// What is wrong with this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// All that is wrong with the parts of the request.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub errors: Vec<PartProblem>,
    /// Digests of components that are missing.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub missing: Vec<String>,
    /// The first step that differs, if a version of a workflow does not do what a run did:
    /// `record`, `pid`, `step`, `scope`, `component`; with the scope `runs:payloads`, `expected`
    /// and `did`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub difference: Option<serde_json::Value>,
    /// Names the request in the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// After how many seconds the request may be sent again.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

/// What a handler returns.
pub(in crate::serve) type Answered<T> = Result<T, ServeProblem>;

impl ServeProblem {
    /// A problem of a kind.
    pub fn new(kind: ProblemKind) -> Self {
        Self {
            about: format!("/problems/{}", kind.word()),
            status: kind.status().as_u16(),
            kind: kind.word().to_owned(),
            title: kind.title().to_owned(),
            detail: None,
            hint: None,
            errors: Vec::new(),
            missing: Vec::new(),
            difference: None,
            request_id: None,
            retry_after: None,
        }
    }

    /// Whether it is of a kind.
    pub fn is(&self, kind: ProblemKind) -> bool {
        self.kind == kind.word()
    }

    /// Says what is wrong with this request.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Says what would help.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a part that is wrong.
    #[must_use]
    pub fn part(mut self, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        let (pointer, message) = (pointer.into(), message.into());
        self.errors.push(PartProblem { pointer, message, line: None, column: None, hint: None });
        self
    }

    /// Says when the request may be sent again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The problem of an act on a run that has ended.
    pub fn ended(run: impl std::fmt::Display) -> Self {
        Self::new(ProblemKind::RunEnded)
            .detail(format!("the run `{run}` has ended"))
            .hint(format!("`GET /v1/runs/{run}/outcome` says how"))
    }

    /// The problem of a thing that does not exist.
    pub fn unknown(what: impl std::fmt::Display) -> Self {
        Self::new(ProblemKind::Unknown).detail(format!("there is no {what}"))
    }
}

impl IntoResponse for ServeProblem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("invariant: a problem can be written as JSON");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"wfhost\""));
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<crate::journal::StoreError> for ServeProblem {
    fn from(error: crate::journal::StoreError) -> Self {
        use crate::journal::StoreError;
        match error {
            StoreError::Unknown(id) => Self::unknown(format_args!("run `{id}`")),
            StoreError::Exists(id) => Self::new(ProblemKind::RunExists)
                .detail(format!("there is a run `{id}`"))
                .hint(format!("`GET /v1/runs/{id}` shows it")),
            StoreError::Owned { .. } => Self::new(ProblemKind::RunUnfinished).detail(error.to_string()),
            StoreError::Ended(id) => Self::ended(id),
            StoreError::Damaged { .. } => Self::new(ProblemKind::Damaged).detail(error.to_string()),
            // Its text names files of the server.
            error => {
                tracing::error!(error = %error, "the journal cannot be used");
                Self::new(ProblemKind::JournalFailed).retry_after(5)
            }
        }
    }
}
