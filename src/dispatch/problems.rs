//! The problems that the dispatcher and its handlers make.

use crate::process::problem::kind as base;
use crate::process::{Problem, ProblemClass};
use std::time::Duration;

/// The kinds of problem that calls add to those of
/// [`process::problem::kind`](crate::process::problem::kind).
pub mod kind {
    /// More calls of a handler are queued than allowed.
    pub const TOO_MANY_CALLS: &str = "too-many-calls";
    /// No connection to the server could be made: nothing was sent.
    pub const CONNECTION_FAILED: &str = "connection-failed";
    /// The connection broke after the request may have been sent.
    pub const CONNECTION_LOST: &str = "connection-lost";
    /// The server did not answer in time.
    pub const HTTP_TIMED_OUT: &str = "http-timed-out";
    /// The server answered with a status that counts as a failure.
    pub const HTTP_STATUS: &str = "http-status";
    /// The server's answer is not valid HTTP, or is not what the call asked for.
    pub const BAD_RESPONSE: &str = "bad-response";
    /// The server's answer is larger than allowed.
    pub const RESPONSE_TOO_LARGE: &str = "response-too-large";
    /// The name resolves to an address that the operator does not permit.
    pub const ADDRESS_REFUSED: &str = "address-refused";
    /// A secret would leave where its declaration, its step or the operator does not let it.
    pub const SECRET_REFUSED: &str = "secret-refused";
    /// A secret cannot be read, or put into a header field.
    pub const SECRET_MISSING: &str = "secret-missing";
    /// More redirects than allowed, or one that leads nowhere.
    pub const BAD_REDIRECT: &str = "bad-redirect";
}

/// Bytes of foreign text (a name, an error) that a problem repeats at most. Arbitrary.
const TEXT_BYTES_MAX: usize = 300;

/// Returns the text, cut at [`TEXT_BYTES_MAX`].
pub(super) fn bounded(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let mut end = TEXT_BYTES_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

pub(super) fn bad_arguments(detail: &str) -> Problem {
    Problem::new(base::BAD_ARGUMENTS, "the arguments do not fit the handler").with_detail(detail)
}

/// Only a host that was built by hand stores none.
pub(super) fn no_blobs() -> Problem {
    Problem::new(base::NOT_SUPPORTED, "this host stores no blobs")
}

pub(super) fn not_granted(detail: impl Into<String>) -> Problem {
    Problem::new(base::NOT_GRANTED, "the workflow does not grant this call").with_detail(detail)
}

pub(super) fn unknown_handler(name: &str, known: &str) -> Problem {
    Problem::new(base::UNKNOWN_HANDLER, "no handler of that name")
        .with_detail(format!("`{}`; there are: {known}", bounded(name)))
}

pub(super) fn too_many_calls(waiting_max: usize, retry_after: Duration) -> Problem {
    let mut problem = Problem::new(kind::TOO_MANY_CALLS, "too many calls of this handler are waiting")
        .with_detail(format!("at most {waiting_max} may wait"))
        .with_class(ProblemClass::Retryable);
    problem.retry_after = Some(retry_after.into());
    problem
}

/// The host's own failure during a call. The outcome is unknown unless the call is safe to repeat.
pub(super) fn host_fault(detail: &str, repeatable: bool) -> Problem {
    Problem::new(base::HOST_FAULT, "the host failed during the call")
        .with_detail(detail)
        .with_unknown_outcome(repeatable)
}

/// An answer beyond the process's limit. The call itself happened, so it must not be repeated under
/// another key.
pub(super) fn answer_too_large(size: usize, limit: u64, repeatable: bool) -> Problem {
    let class = if repeatable { ProblemClass::Definite } else { ProblemClass::Uncertain };
    Problem::new(base::TOO_LARGE, "the handler's answer is larger than the process may receive")
        .with_detail(format!("{size} bytes, the limit is {limit}"))
        .with_class(class)
}
