//! The secrets of a workflow: who may send which secret where.

use super::{Node, Plan, SecretOrigin};
use std::sync::Arc;

/// A secret that the workflow declares.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Secret {
    /// Its name, in `.secrets` and for the operator.
    pub name: Arc<str>,
    /// Where the author expects its value. What an operator says counts, and not this.
    pub from: SecretOrigin,
    /// The hosts that may receive it.
    pub hosts: Vec<String>,
    /// The header fields that may hold it, in lower case.
    pub headers: Vec<String>,
}

impl Plan {
    /// The secrets that nodes may use, those of the workflows that it runs too. Names may occur
    /// more than once: each file declares its own.
    pub fn used_secrets(&self) -> impl Iterator<Item = &Secret> {
        self.all_nodes().flat_map(|node| &node.secrets).map(|secret| &**secret)
    }

    /// The secrets that its files declare, each with the nodes that may use it: by the paths of
    /// their ids, after `FILE#` in the file of a workflow that it runs.
    #[must_use]
    pub fn secret_uses(&self) -> Vec<(&Secret, Vec<String>)> {
        let own = std::iter::once((&self.secrets, &self.nodes, String::new()));
        let own = own.chain(self.on.iter().map(|(_, block)| (&self.secrets, &block.nodes, String::new())));
        let theirs = self.workflows.iter().map(|one| (&one.secrets, &one.block.nodes, format!("{}#", one.file)));
        let mut uses: Vec<(&Secret, Vec<String>)> = Vec::new();
        for (secrets, nodes, prefix) in own.chain(theirs) {
            for secret in secrets {
                let mut users = Vec::new();
                add_users(nodes, &prefix, &secret.name, &mut users);
                match uses.iter_mut().find(|(known, _)| *known == &**secret) {
                    Some((_, known)) => known.extend(users),
                    None => uses.push((secret, users)),
                }
            }
        }
        uses
    }
}

fn add_users(nodes: &[Arc<Node>], prefix: &str, secret: &str, users: &mut Vec<String>) {
    for node in nodes {
        let path = format!("{prefix}{}", node.id);
        if node.secrets.iter().any(|one| &*one.name == secret) {
            users.push(path.clone());
        }
        node.blocks().for_each(|block| add_users(&block.nodes, &format!("{path}."), secret, users));
    }
}

impl Secret {
    /// The flag by which an operator gives it from where its author expects it.
    #[must_use]
    pub fn flag(&self) -> String {
        self.from.flag(&self.name)
    }
}
