//! Who may do what: tokens, scopes, sessions, and the addresses that requests may come to.

pub mod guard;
pub mod rate;
mod scope;
pub mod token;

pub use scope::{Scope, Scopes};

use super::problem::{ProblemKind, ServeProblem};
use crate::journal::pattern_fits;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the token of a stream is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who sends a request.
#[derive(Clone, Debug)]
pub struct Caller(Arc<CallerOf>);

#[derive(Debug)]
struct CallerOf {
    token: String,
    name: String,
    scopes: Scopes,
    /// Patterns of workflow names; empty: all.
    workflows: Vec<String>,
}

/// Whether the token of a stream is still valid.
pub(in crate::serve) struct Validity {
    caller: Caller,
    until: Instant,
}

impl Validity {
    /// Looks at most once in [`LOOK_EVERY`].
    pub(in crate::serve) async fn lasts(&mut self, service: &Arc<super::Service>) -> bool {
        if Instant::now() < self.until {
            return true;
        }
        self.until = Instant::now() + LOOK_EVERY;
        self.caller.is_valid(service).await
    }
}

impl Caller {
    /// A caller with the rights of a token.
    pub fn new(token: &str, name: &str, scopes: Scopes, workflows: Vec<String>) -> Self {
        Self(Arc::new(CallerOf { token: token.to_owned(), name: name.to_owned(), scopes, workflows }))
    }

    /// The id of the token.
    pub fn token(&self) -> &str {
        &self.0.token
    }

    /// Whose token it is.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether the token has a scope.
    pub fn has(&self, scope: Scope) -> bool {
        self.0.scopes.has(scope)
    }

    /// Whether the token is for a workflow.
    pub fn may_touch(&self, workflow: &str) -> bool {
        self.0.workflows.is_empty() || self.0.workflows.iter().any(|pattern| pattern_fits(pattern, workflow))
    }

    /// Patterns of the workflows that it is for; all if there is none.
    pub(in crate::serve) fn workflows(&self) -> &[String] {
        &self.0.workflows
    }

    /// Whether the token is still there, and not expired.
    async fn is_valid(&self, service: &Arc<super::Service>) -> bool {
        let token = self.0.token.clone();
        let read = service.with_store(move |service| Ok(service.tokens.caller_of(&token)?.is_some()));
        // What cannot be read now is no reason to end a stream.
        read.await.unwrap_or(true)
    }

    /// For streams, which outlast a request.
    pub(in crate::serve) fn validity(&self) -> Validity {
        Validity { caller: self.clone(), until: Instant::now() }
    }

    /// Whether the token is for all workflows.
    pub fn may_touch_all(&self) -> bool {
        self.0.workflows.is_empty()
    }

    /// Refuses a token that is for some workflows: `what` tells of all.
    ///
    /// # Errors
    /// The token is for some workflows.
    pub fn check_all_workflows(&self, what: &str) -> Result<(), ServeProblem> {
        if self.may_touch_all() {
            return Ok(());
        }
        Err(ServeProblem::new(ProblemKind::NotGranted)
            .detail(format!("the token is for some workflows, and {what} tell of all")))
    }

    /// Refuses a token that is not for a workflow.
    ///
    /// # Errors
    /// The token is not for it.
    pub fn check_workflow(&self, workflow: &str) -> Result<(), ServeProblem> {
        if self.may_touch(workflow) {
            return Ok(());
        }
        Err(ServeProblem::new(ProblemKind::NotGranted)
            .detail(format!("the token is not for the workflow `{workflow}`")))
    }

    /// Refuses a token without a scope.
    ///
    /// # Errors
    /// The token lacks it.
    pub fn check(&self, scope: Scope) -> Result<(), ServeProblem> {
        if self.has(scope) {
            return Ok(());
        }
        Err(ServeProblem::new(ProblemKind::NotGranted).detail(format!("the token lacks the scope `{}`", scope.word())))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ServeProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ServeProblem> {
        // The guard of the route has put it there.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| ServeProblem::new(ProblemKind::Unauthenticated))
    }
}
