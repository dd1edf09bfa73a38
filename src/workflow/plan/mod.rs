//! The plan: what a run does, checked and complete, without a trace of YAML.
//!
//! [`load`] reads a file and gives a [`Plan`], or every problem of the file. A plan is data: it can be written as JSON and read
//! back, and its [`digest`](Plan::digest) names what a run was started with. It says where components come from; loading them
//! is the host's part, which tells the plan their digests through [`Environment`].
//!
//! - **I1** The dependencies of the nodes form no cycle; [`Plan::order`] is an order in which each node follows its dependencies.
//! - **I2** Whatever an expression of a node reads of other nodes is among its dependencies.
//! - **I3** Every expression compiles, and reads only what can exist where it stands.
//! - **I4** Limits, timeouts and retries of a node are final: defaults and declarations are merged into them.

mod arguments;
mod build;
mod calls;
mod components;
mod edges;
mod environment;
mod expressions;
mod graph;
mod hints;
mod load;
mod references;
mod template;
#[cfg(test)]
mod tests;
mod view;
mod warnings;

use super::model::{Durability, Inputs, Retry, When};
use crate::process::{Grants, Limits, Micros};
use crate::run::KV;
pub use environment::{CallRequirements, Environment, Handlers, ResolvedComponent, Unchecked};
pub use graph::GraphStyle;
pub use load::load;
use std::collections::BTreeMap;
use std::sync::Arc;
pub use template::{Reads, Template, Text};
pub use warnings::Warning;

/// The version of the plan's JSON.
pub const PLAN_VERSION: u32 = 1;

/// A validated workflow.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plan {
    /// [`PLAN_VERSION`] of the release that made it.
    pub version: u32,
    /// What the workflow is called.
    pub name: Arc<str>,
    /// What a run is given.
    pub inputs: Inputs,
    /// What nodes run, by name.
    pub components: Vec<Component>,
    /// In the order of the file.
    pub nodes: Vec<Node>,
    /// The nodes' indexes, each after those it depends on, else in the order of the file.
    pub order: Vec<usize>,
    /// What the run gives.
    pub outputs: Vec<(String, Template)>,
    /// What of a run survives its host.
    pub durability: Durability,
}

/// A component that nodes run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Component {
    /// What spawns call it: a name under `components:`, or the path that a step gives.
    pub name: Arc<str>,
    /// A path, relative to the workflow's folder.
    pub source: String,
    /// The digest of its bytes, where it was loaded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
}

/// A step of the workflow.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    /// Its name in references.
    pub id: Arc<str>,
    /// A JSON Pointer to it in the file.
    pub pointer: String,
    /// What it does.
    pub action: Action,
    /// What it depends on, declared or read by an expression: indexes, ascending.
    pub needs: Vec<usize>,
    /// `if`: skipped unless it is true.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub condition: Option<Template>,
    /// Which endings of its dependencies let it start.
    pub when: When,
    /// The list whose items it runs for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub for_each: Option<Template>,
    /// How many items run at one time.
    pub max_parallel: u32,
    /// What follows a failure that may pass.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry: Option<Retry>,
    /// Of one attempt of one item.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout: Option<Micros>,
    /// Its failure counts as success for others.
    pub continue_on_error: bool,
    /// What its guest may use; a call keeps to them too.
    pub limits: Arc<Limits>,
    /// What it may ask of handlers.
    pub grants: Grants,
}

/// What a node does.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Runs a guest.
    Uses {
        /// The component's name.
        component: Arc<str>,
        /// The entry point.
        entry: Arc<str>,
        /// Its input.
        with: Template,
    },
    /// Calls a handler.
    Call {
        /// Its name.
        handler: Arc<str>,
        /// Its arguments.
        with: Template,
    },
    /// Waits: a duration as text.
    Wait(Template),
    /// Waits for a signal.
    Signal {
        /// Its name, a text.
        name: Template,
        /// How long at most: a duration as text.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        timeout: Option<Template>,
    },
    /// Is a value.
    Set(Template),
}

impl Action {
    /// The key that says in the file what a step does.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Self::Uses { .. } => "uses",
            Self::Call { .. } => "call",
            Self::Wait(_) | Self::Signal { .. } => "wait",
            Self::Set(_) => "set",
        }
    }
}

impl Node {
    /// Whether it may use the run's store `kv`: itself, or by what it grants its guest.
    #[must_use]
    pub fn uses_store(&self) -> bool {
        let calls = matches!(&self.action, Action::Call { handler, .. } if **handler == *KV);
        calls || self.grants.of(KV).is_some()
    }

    /// Which inputs of the workflow it reads.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        let action: [Option<&Template>; 2] = match &self.action {
            Action::Uses { with, .. } | Action::Call { with, .. } => [Some(with), None],
            Action::Wait(template) | Action::Set(template) => [Some(template), None],
            Action::Signal { name, timeout } => [Some(name), timeout.as_ref()],
        };
        let templates = action.into_iter().flatten().chain(&self.condition).chain(&self.for_each);
        templates.for_each(|template| template.add_reads(&mut reads));
        reads
    }
}

impl Plan {
    /// A digest of everything that the plan says: `blake3:` and 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        format!("blake3:{}", blake3::hash(self.to_json().as_bytes()).to_hex())
    }

    /// The plan as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: a plan has string keys only")
    }

    /// A plan of its JSON text.
    ///
    /// # Errors
    /// What is wrong with the text: for one, it is of another version.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let plan: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if plan.version != PLAN_VERSION {
            return Err(format!("the plan is of version {}; this release runs version {PLAN_VERSION}", plan.version));
        }
        plan.check_order()?;
        Ok(plan)
    }

    /// I1, of a plan that somebody else may have written.
    fn check_order(&self) -> Result<(), String> {
        let mut done = vec![false; self.nodes.len()];
        for &index in &self.order {
            let node = self.nodes.get(index).ok_or_else(|| format!("the plan orders node {index}, which is none"))?;
            if std::mem::replace(&mut done[index], true) {
                return Err(format!("the plan orders node {index} twice"));
            }
            // A node of a higher number, or a number of none, is not done.
            if !node.needs.iter().all(|need| done.get(*need) == Some(&true) && *need != index)
                || !node.needs.is_sorted()
            {
                return Err(format!("the plan orders node {index} before what it needs"));
            }
        }
        done.iter().position(|done| !done).map_or(Ok(()), |index| Err(format!("the plan does not order node {index}")))
    }

    /// What of a run survives its host.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The node of an id.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| &*node.id == id)
    }

    /// Whether a node waits for signals of this name, or may: of a name with expressions only the text before the first one is known.
    #[must_use]
    pub fn waits_for_signal(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| match &node.action {
            Action::Signal { name: Template::Literal(waited), .. } => waited == name,
            Action::Signal { name: Template::Text(waited), .. } => {
                let waited = String::from(waited.clone());
                name.starts_with(waited.split("${").next().unwrap_or_default())
            }
            _ => false,
        })
    }

    /// All grants of all nodes: what a run of the plan can ask for.
    #[must_use]
    pub fn grants(&self) -> Grants {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (capability, patterns) in self.nodes.iter().flat_map(|node| node.grants.0.iter()) {
            let list = all.entry(capability.clone()).or_default();
            for pattern in patterns {
                if !list.contains(pattern) {
                    list.push(pattern.clone());
                }
            }
        }
        Grants(Arc::new(all))
    }

    /// The handlers that nodes call themselves.
    pub fn handlers(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match &node.action {
            Action::Call { handler, .. } => Some(&**handler),
            _ => None,
        })
    }

    /// The plan as a drawing or a list.
    #[must_use]
    pub fn graph(&self, style: GraphStyle) -> String {
        graph::draw(self, style)
    }
}
