//! The plan: what a run does, checked and complete, without a trace of YAML.
//!
//! [`load`] reads a file and returns a [`Plan`], or every problem of the file. A plan is data: it
//! can be written as JSON and read back, and its [`digest`](Plan::digest) identifies what a run was
//! started with. It names the sources of components; the host loads them and passes their digests
//! to the plan through [`Environment`].
//!
//! The digest covers the JSON of [`Plan::to_json`], so the names of its fields and variants are
//! data: a rename needs `#[serde(rename = "…")]`.
//!
//! - **I1** The dependencies of the nodes form no cycle; [`Plan::order`] is an order in which each
//!   node follows its dependencies.
//! - **I2** Every node that an expression of a node reads is among its dependencies.
//! - **I3** Every expression compiles, and reads only what can exist at its site.
//! - **I4** Limits, timeouts and retries of a node are final: defaults and declarations are merged
//!   into them.

mod action;
mod after;
mod arguments;
mod build;
mod cache;
mod calls;
mod children;
mod components;
mod concurrency;
mod edges;
mod environment;
mod expressions;
mod graph;
mod handlers;
mod hints;
mod load;
mod paths;
mod references;
mod schedules;
mod secret_checks;
mod secrets;
mod template;
#[cfg(test)]
mod tests;
mod view;
mod waits;
mod warnings;

pub use super::model::SecretOrigin;
use super::model::{Durability, HandlerBounds, Inputs, Occasion, Retry, When};
use crate::process::{Grants, Limits, Micros};
use crate::run::KV;
use crate::workflow::schedule::ScheduleSpec;
pub use action::{Action, Part};
pub use cache::Cache;
pub use children::{WORKFLOW_FILES_BYTES_MAX, WORKFLOW_FILES_MAX, WORKFLOW_FILES_STEPS_MAX};
pub use concurrency::Concurrency;
pub use environment::{CallRequirements, Environment, Handlers, ResolvedComponent, ScriptPlace, Unchecked, Unusable};
pub use graph::GraphStyle;
#[cfg(feature = "cli")]
pub(crate) use hints::FUNCTIONS;
pub use load::load;
pub use secrets::Secret;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub use template::{Reads, Template, Text};
pub use warnings::Warning;
#[cfg(feature = "cli")]
pub(crate) use warnings::{ERROR_FIELDS, RESPONSE_FIELDS};

/// The version of the plan's JSON.
pub const PLAN_VERSION: u32 = 1;

/// A validated workflow.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plan {
    /// [`PLAN_VERSION`] of the release that made it.
    pub version: u32,
    /// `name:`, or the file's name without its extension.
    pub name: Arc<str>,
    /// The declared inputs.
    pub inputs: Inputs,
    /// The components that nodes run, by name.
    pub components: Vec<Component>,
    /// The steps, in file order.
    pub nodes: Vec<Arc<Node>>,
    /// The indexes of the nodes, each after its dependencies, and otherwise in file order.
    pub order: Vec<usize>,
    /// The outputs of the run, by name.
    pub outputs: Vec<(String, Template)>,
    /// How much of a run survives its host.
    pub durability: Durability,
    /// When a service starts it by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedule: Option<ScheduleSpec>,
    /// How many of its runs are stepped at one time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub concurrency: Option<Concurrency>,
    /// Bounds on the calls of its runs, by the name of their handler.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub handlers: BTreeMap<Arc<str>, HandlerBounds>,
    /// The workflows that steps run, each once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub workflows: Vec<Arc<ChildWorkflow>>,
    /// What runs after the steps.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub on: Vec<(Occasion, Arc<Block>)>,
    /// How long a cancelled run has to end, if the file says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grace: Option<Micros>,
    /// The secrets that the file declares.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub secrets: Vec<Arc<Secret>>,
}

/// A workflow that steps of another one run. Its components are among those of the plan.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ChildWorkflow {
    /// Its file, below the folder of the workflow: `stock/label.yaml`. JSON Pointers into it begin
    /// with that and `#`.
    pub file: String,
    /// `name:`, or the file's name without its extension.
    pub name: Arc<str>,
    /// The declared inputs.
    pub inputs: Inputs,
    /// Its steps and outputs.
    pub block: Arc<Block>,
    /// Keys of the file that have no effect in a workflow that another one runs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ignored: Vec<String>,
    /// The secrets that the file declares.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub secrets: Vec<Arc<Secret>>,
}

/// A component that nodes run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Component {
    /// The name that spawns use: a name under `components:`, or the path in a step.
    pub name: Arc<str>,
    /// A path, relative to the workflow's folder.
    pub source: String,
    /// The digest of its bytes, if it was loaded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// The digest of a script without its place in the file, by which a retry compares it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<String>,
}

/// Steps within a step: they begin and end as one.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Block {
    /// JSON Pointer to the mapping that has its `steps` and `outputs`.
    pub pointer: String,
    /// The steps, in file order.
    pub nodes: Vec<Arc<Node>>,
    /// As [`Plan::order`].
    pub order: Vec<usize>,
    /// What they give, by name.
    pub outputs: Vec<(String, Template)>,
}

/// How often a step runs, each turn after the one before it.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Repeat {
    /// It ends after a turn where this is true.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Template>,
    /// It ends after a turn where this is not true.
    #[serde(rename = "while", skip_serializing_if = "Option::is_none", default)]
    pub while_true: Option<Template>,
    /// The most turns.
    pub max: u32,
    /// The time between two turns.
    pub delay: Micros,
}

/// A case of a `switch`.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Case {
    /// Whether it applies; `None` for the default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub condition: Option<Template>,
    /// What runs then.
    pub block: Arc<Block>,
}

/// A step of the workflow.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    /// The name of the step in references.
    pub id: Arc<str>,
    /// JSON Pointer to the step in the file.
    pub pointer: String,
    /// What the step does.
    pub action: Action,
    /// The nodes that it depends on, declared or read by an expression: indexes, ascending.
    pub needs: Vec<usize>,
    /// `if`: the node is skipped unless it is true.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub condition: Option<Template>,
    /// Which outcomes of its dependencies let it start.
    pub when: When,
    /// The list whose items it runs for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub for_each: Option<Template>,
    /// How many items run at a time.
    pub max_parallel: u32,
    /// How transient failures are retried.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry: Option<Retry>,
    /// How often it runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeat: Option<Repeat>,
    /// Which of its outcomes are used again by others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<Cache>,
    /// Time limit of one attempt at one item.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout: Option<Micros>,
    /// Whether its failure counts as success for other nodes.
    pub continue_on_error: bool,
    /// Limits of its guest; they bound a call too.
    pub limits: Arc<Limits>,
    /// What it may ask of handlers.
    pub grants: Grants,
    /// What undoes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compensate: Option<Compensation>,
    /// The secrets that it may use, as its file declares them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub secrets: Vec<Arc<Secret>>,
}

/// What undoes a step that succeeded, if the run fails or is cancelled.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Compensation {
    /// The one step that undoes it.
    pub block: Arc<Block>,
    /// The steps whose results it reads, which are recorded when the step succeeds. `None`: any of
    /// those that the step needs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reads: Option<Vec<Arc<str>>>,
}

/// How long a cancelled run with steps for that has to end, if the file does not say. Arbitrary.
pub const GRACE_DEFAULT: Micros = Micros(300_000_000);

impl Node {
    /// Returns whether it, or a step within it, may use the run's store `kv`: by its own call, or
    /// by a grant to its guest.
    #[must_use]
    pub fn uses_store(&self) -> bool {
        let calls = match &self.action {
            Action::Call { handler, .. } => **handler == *KV,
            Action::Workflow { stores, .. } => *stores,
            _ => false,
        };
        let within = || self.action.blocks().flat_map(|block| &block.nodes).any(|node| node.uses_store());
        calls || self.grants.of(KV).is_some() || within()
    }

    /// The lists of steps within it that are in the same file, and what undoes it.
    fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.action.blocks().chain(self.compensate.as_ref().map(|undo| &undo.block))
    }

    /// The inputs of the workflow that it and the steps within it read.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        self.add_reads(&mut reads);
        reads
    }

    fn add_reads(&self, reads: &mut Reads) {
        self.templates().for_each(|template| template.add_reads(reads));
        for block in self.action.blocks() {
            block.nodes.iter().for_each(|node| node.add_reads(reads));
            block.outputs.iter().for_each(|(_, template)| template.add_reads(reads));
        }
    }

    /// Its templates, without those of steps within it.
    pub(in crate::workflow) fn templates(&self) -> impl Iterator<Item = &Template> {
        let repeat = self.repeat.iter().flat_map(|repeat| repeat.until.iter().chain(&repeat.while_true));
        let cache = self.cache.iter().filter_map(Cache::key);
        self.condition.iter().chain(&self.for_each).chain(repeat).chain(cache).chain(self.action.templates())
    }
}

/// Adds nodes and all that are within them, each before those within it.
fn add_all<'a>(nodes: &'a [Arc<Node>], all: &mut Vec<&'a Node>) {
    for node in nodes {
        all.push(node);
        node.blocks().for_each(|block| add_all(&block.nodes, all));
    }
}

/// Checks I1 for nodes from an unknown writer.
fn check_order(nodes: &[Arc<Node>], order: &[usize]) -> Result<(), String> {
    let mut done = vec![false; nodes.len()];
    for &index in order {
        let node = nodes.get(index).ok_or_else(|| format!("the plan orders node {index}, which does not exist"))?;
        if std::mem::replace(&mut done[index], true) {
            return Err(format!("the plan orders node {index} twice"));
        }
        // A later node, or one that does not exist, is not done.
        if !node.needs.iter().all(|need| done.get(*need) == Some(&true) && *need != index) || !node.needs.is_sorted() {
            return Err(format!("the plan orders node {index} before what it needs"));
        }
        for block in node.blocks() {
            check_order(&block.nodes, &block.order)?;
        }
    }
    done.iter().position(|done| !done).map_or(Ok(()), |index| Err(format!("the plan does not order node {index}")))
}

impl Plan {
    /// A digest of the whole plan: `blake3:` and 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        format!("blake3:{}", blake3::hash(self.to_json().as_bytes()).to_hex())
    }

    /// Writes the plan as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: a plan has string keys only")
    }

    /// Reads a plan from JSON.
    ///
    /// # Errors
    /// Fails if the text is not a plan of this version whose order respects its dependencies.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let plan: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if plan.version != PLAN_VERSION {
            return Err(format!("the plan has version {}; this release runs version {PLAN_VERSION}", plan.version));
        }
        check_order(&plan.nodes, &plan.order)?;
        for (_, block) in &plan.on {
            check_order(&block.nodes, &block.order)?;
        }
        for child in &plan.workflows {
            check_order(&child.block.nodes, &child.block.order)?;
        }
        let is_there = |node: &Node| match node.action {
            Action::Workflow { workflow, .. } => workflow < plan.workflows.len(),
            _ => true,
        };
        if let Some(node) = plan.all_nodes().find(|node| !is_there(node)) {
            return Err(format!("the step `{}` runs a workflow that the plan does not have", node.id));
        }
        Ok(plan)
    }

    /// All nodes: each before those within it, otherwise in file order; those of other files after
    /// those of the workflow's own.
    pub fn all_nodes(&self) -> impl Iterator<Item = &Node> {
        let mut all = Vec::new();
        add_all(&self.nodes, &mut all);
        self.on.iter().for_each(|(_, block)| add_all(&block.nodes, &mut all));
        self.workflows.iter().for_each(|child| add_all(&child.block.nodes, &mut all));
        all.into_iter()
    }

    /// The workflow that an action runs.
    #[must_use]
    pub fn workflow_of(&self, action: &Action) -> Option<&Arc<ChildWorkflow>> {
        if let Action::Workflow { workflow, .. } = action { self.workflows.get(*workflow) } else { None }
    }

    /// The lists of steps within an action, that of the workflow that it runs too.
    pub fn blocks_of<'a>(&'a self, action: &'a Action) -> impl Iterator<Item = &'a Arc<Block>> {
        action.blocks().chain(self.workflow_of(action).map(|child| &child.block))
    }

    /// How long a cancelled run has to end. `None`: as long as any process.
    #[must_use]
    pub fn grace(&self) -> Option<Micros> {
        self.grace.or_else(|| self.ends_by_steps().then_some(GRACE_DEFAULT))
    }

    /// Returns whether something may run after the steps.
    #[must_use]
    pub fn ends_by_steps(&self) -> bool {
        !self.on.is_empty() || self.all_nodes().any(|node| node.compensate.is_some())
    }

    /// How much of a run survives its host.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The node with an id, or the first one with a path: `deploy.build`, `deploy[3].build`.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<&Node> {
        let mut lists = vec![&self.nodes];
        let mut found = None;
        let after = self
            .on
            .iter()
            .find_map(|(occasion, block)| Some((block, path.strip_prefix(&*occasion.path())?.strip_prefix('.')?)));
        let (first, path) = after.map_or((None, path), |(block, path)| (Some(block), path));
        if let Some(block) = first {
            lists = vec![&block.nodes];
        }
        for part in path.split('.') {
            let id = part.split('[').next()?;
            let node = lists.into_iter().flatten().find(|node| *node.id == *id)?;
            let undo = node.compensate.iter().map(|undo| &undo.block);
            lists = self.blocks_of(&node.action).chain(undo).map(|block| &block.nodes).collect();
            found = Some(&**node);
        }
        found
    }

    /// Returns whether the node with a path runs for each item of a list.
    #[must_use]
    pub fn is_list(&self, path: &str) -> bool {
        self.node(path).is_some_and(|node| node.for_each.is_some())
    }

    /// Returns whether a node waits, or may wait, for signals of this name. Of a name with
    /// expressions only the text before the first one is known.
    #[must_use]
    pub fn waits_for_signal(&self, name: &str) -> bool {
        self.all_nodes().flat_map(|node| node.action.signals()).any(|waited| match waited {
            Template::Literal(waited) => waited == name,
            Template::Text(waited) => {
                let waited = String::from(waited.clone());
                name.starts_with(waited.split("${").next().unwrap_or_default())
            }
            _ => false,
        })
    }

    /// The names of signals that nodes wait for, those without expressions.
    pub(crate) fn signals(&self) -> BTreeSet<&str> {
        let waited = self.all_nodes().flat_map(|node| node.action.signals());
        let literal = waited.filter_map(|waited| match waited {
            Template::Literal(waited) => waited.as_str(),
            _ => None,
        });
        literal.collect()
    }

    /// The grants of all nodes together: what a run of the plan can ask for.
    #[must_use]
    pub fn grants(&self) -> Grants {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (capability, patterns) in self.all_nodes().flat_map(|node| node.grants.0.iter()) {
            let list = all.entry(capability.clone()).or_default();
            for pattern in patterns {
                if !list.contains(pattern) {
                    list.push(pattern.clone());
                }
            }
        }
        Grants(Arc::new(all))
    }

    /// The handlers that nodes call directly.
    pub fn handlers(&self) -> impl Iterator<Item = &str> {
        self.all_nodes().filter_map(|node| match &node.action {
            Action::Call { handler, .. } => Some(&**handler),
            _ => None,
        })
    }

    /// Draws the plan.
    #[must_use]
    pub fn graph(&self, style: GraphStyle) -> String {
        graph::draw(self, style)
    }
}
