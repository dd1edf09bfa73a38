//! What stands beside a durable run, so that it can be taken up by a host that knows nothing of it.

use super::Workflow;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a durable run was started with, beside its first record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunManifest {
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
    /// The addresses that its host permitted although they are not public. They are kept to be
    /// named to whoever resumes the run, and permit nothing by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

impl RunManifest {
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
            addresses: Vec::new(),
        }
    }

    /// As text, with a digest of it: [`Self::read`] tells when it was damaged.
    ///
    /// # Panics
    /// Never: texts and maps of texts are JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut all = serde_json::to_value(self).expect("invariant: texts and maps of texts are JSON");
        all[DIGEST] = digest(&all).into();
        all.to_string()
    }

    /// What [`Self::to_text`] gave. A text without a digest is of an earlier release, and is not compared.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let kept = all.as_object_mut().and_then(|all| all.shift_remove(DIGEST));
        if kept.is_some_and(|kept| kept != digest(&all)) {
            return Err("it is not what was written".to_owned());
        }
        serde_json::from_value(all).map_err(|error| error.to_string())
    }
}

/// The member of the text that has the digest of the others.
const DIGEST: &str = "digest";

/// The BLAKE3 of JSON text, in hexadecimal.
fn digest(all: &Value) -> String {
    blake3::hash(all.to_string().as_bytes()).to_hex().to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_is_seen_in_what_stands_beside_a_run() {
        let about = RunManifest {
            file: "a.yaml".to_owned(),
            name: "a".to_owned(),
            source: "steps: [{ id: a, set: \"1 \u{e9}\" }]".to_owned(),
            components: BTreeMap::from([("./x.wasm".to_owned(), "00ff".to_owned())]),
            start: "77".to_owned(),
            addresses: vec!["localhost".to_owned()],
        };
        let text = about.to_text();
        assert_eq!(RunManifest::read(&text).unwrap(), about);
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                // What is no text any more is found by who reads it.
                let Ok(changed) = String::from_utf8(bytes) else { continue };
                // Without its name the digest is a member as those of later releases are.
                let is_read = RunManifest::read(&changed).is_ok_and(|read| read != about);
                assert!(!is_read, "byte {at}: {changed}");
            }
        }
        // What was written without a digest is read as it is.
        let old = serde_json::to_string(&about).unwrap();
        assert_eq!(RunManifest::read(&old).unwrap(), about);
    }
}
