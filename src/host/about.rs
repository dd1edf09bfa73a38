//! What stands beside a durable run, so that it can be taken up by a host that knows nothing of it.

use super::Workflow;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a durable run was started with, beside its first record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct About {
    /// The workflow's file, as it was named.
    pub file: String,
    /// The workflow's name.
    pub name: String,
    /// The workflow's text.
    pub source: String,
    /// The components that it names, as written there, each with the BLAKE3 of its bytes in hexadecimal.
    pub components: BTreeMap<String, String>,
    /// The digest of the workflow, its components and the inputs: what was started, so that the same start can be told from another.
    pub start: String,
}

impl About {
    /// What stands beside a run of this workflow with these inputs.
    pub fn new(workflow: &Workflow, inputs: &Map<String, Value>) -> Self {
        let components: BTreeMap<String, String> =
            workflow.files.iter().map(|(source, file)| (source.clone(), file.hash.to_string())).collect();
        let mut start = blake3::Hasher::new();
        for part in [workflow.source().text().to_owned(), sorted(&Value::from(inputs.clone())).to_string()] {
            start.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        for (source, hash) in &components {
            start.update(&(source.len() as u64).to_le_bytes()).update(source.as_bytes()).update(hash.as_bytes());
        }
        Self {
            file: workflow.source().name().to_owned(),
            name: workflow.plan().name.to_string(),
            source: workflow.source().text().to_owned(),
            components,
            start: start.finalize().to_hex().to_string(),
        }
    }
}

/// The same value, whatever the order of its keys was.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let ordered: BTreeMap<&String, &Value> = fields.iter().collect();
            ordered.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>().into()
        }
        plain => plain.clone(),
    }
}
