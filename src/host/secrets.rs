//! Secrets that workflows declare: whether the operator has them.

use super::{Host, LoadError, Workflow};
use crate::dispatch::SecretError;
use crate::workflow::plan::{Secret, SecretOrigin};
use std::collections::BTreeMap;
use std::fmt;

/// A secret that a workflow declares and that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingSecret {
    /// Why. It has the secret's place, which is the operator's matter.
    pub error: SecretError,
    /// Where the author of the workflow expects it.
    pub origin: SecretOrigin,
}

impl Host {
    /// Checks that the secrets that steps of a workflow may use can be used now. It reads them on
    /// this thread, and may run a command of the operator.
    ///
    /// # Errors
    /// Fails if one cannot be used.
    pub fn check_secrets(&self, workflow: &Workflow) -> Result<(), LoadError> {
        let secrets: BTreeMap<&str, &Secret> =
            workflow.plan().used_secrets().map(|secret| (&*secret.name, secret)).collect();
        if secrets.is_empty() {
            return Ok(());
        }
        self.shared.secrets.check(secrets.keys().copied()).map_err(|errors| {
            let origin = |error: &SecretError| secrets.get(&*error.name).map(|secret| secret.from.clone());
            let missing =
                errors.into_iter().map(|error| MissingSecret { origin: origin(&error).unwrap_or_default(), error });
            LoadError::Secrets(missing.collect())
        })
    }
}

impl MissingSecret {
    /// The flag by which an operator gives the secret, if the operator has not said at all where it
    /// is.
    #[must_use]
    pub fn flag(&self) -> Option<String> {
        self.error.is_unknown.then(|| self.origin.flag(&self.error.name))
    }
}

impl fmt::Display for MissingSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
