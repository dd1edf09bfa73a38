//! Secrets: their placeholders in expressions, and what the processes of a node may do with them.

use super::Interpreter;
use crate::process::Grants;
use crate::process::secret::{PlaceholderKey, SecretGrant};
use crate::workflow::expression::Scope;
use crate::workflow::plan::{Node, Secret};
use serde_json::json;
use std::sync::Arc;

impl Interpreter {
    /// Lets placeholders follow from the seed of the run, unless they are those of the run that it
    /// repeats.
    pub(super) fn begin_secrets(&mut self, seed: &[u8; 32]) {
        if self.placeholder_key.is_none() && self.plan.used_secrets().next().is_some() {
            self.placeholder_key = Some(PlaceholderKey::of_seed(seed));
        }
    }

    fn placeholder(&self, secret: &Secret) -> String {
        let key = self.placeholder_key.as_ref().expect("invariant: a run with secrets has begun with a key");
        key.placeholder(&secret.name)
    }

    /// `.secrets` of a step that lists these.
    pub(super) fn placeholders(&self, secrets: &[Arc<Secret>]) -> Scope<'static> {
        let value = |secret: &Arc<Secret>| (secret.name.to_string(), Scope::Owned(json!(self.placeholder(secret))));
        Scope::object(secrets.iter().map(value))
    }

    /// What the processes of a node may ask for: the grants of the plan, and its secrets.
    pub(super) fn grants_of(&self, node: &Node) -> Grants {
        if node.secrets.is_empty() {
            return node.grants.clone();
        }
        let grant = |secret: &Arc<Secret>| SecretGrant {
            name: secret.name.to_string(),
            placeholder: self.placeholder(secret),
            hosts: secret.hosts.clone(),
            headers: secret.headers.clone(),
        };
        SecretGrant::add(&node.secrets.iter().map(grant).collect::<Vec<_>>(), &node.grants)
    }
}
