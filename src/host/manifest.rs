//! The manifest of a durable run, with which any host can recover it.

use super::Workflow;
use super::children::CHILD;
use crate::dispatch::http::HttpConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a durable run was started with, besides its first record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunManifest {
    /// The workflow's file, as the caller named it.
    pub file: String,
    /// The workflow's name.
    pub name: String,
    /// The workflow's text.
    pub source: String,
    /// The components that it names, as written there, each with the BLAKE3 of its bytes in
    /// hexadecimal.
    pub components: BTreeMap<String, String>,
    /// The digest of the workflow, its components and the inputs: it tells the same start from
    /// another.
    pub start: String,
    /// The addresses that its host permitted although they are not public. They are stored to be
    /// named when the run is recovered, and permit nothing by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whether its host sent secrets without TLS to loopback addresses, and it has secrets. Stored
    /// for the same reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_secrets: bool,
    /// What else is noted of the start.
    #[serde(default, skip_serializing_if = "StartNotes::is_empty")]
    pub notes: StartNotes,
}

/// What `http` may do beyond what is always permitted.
#[derive(Clone, Debug)]
pub(super) struct Permitted {
    /// The addresses that it may reach though they are not public.
    pub(super) addresses: Vec<String>,
    /// Whether it sends secrets without TLS to loopback addresses.
    pub(super) plain_secrets: bool,
}

impl Permitted {
    pub(super) fn of(http: &HttpConfig) -> Self {
        let addresses = http.permissions.iter().map(ToString::to_string).collect();
        Self { addresses, plain_secrets: http.plain_secrets_to_loopback }
    }
}

/// What is noted of a start beside the workflow and the inputs. Nothing that a run does depends on
/// it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct StartNotes {
    /// By what the run is found in lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The version of the workflow, if it was deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<DeployedVersion>,
    /// What started it: such as `api`, `schedule` or `webhook`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<String>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// A digest of the request, which tells the same request again from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The place of the start in its caller's trace: the header `traceparent` of W3C Trace Context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl StartNotes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Names a version of a deployed workflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeployedVersion {
    /// Its row in the journal.
    pub row: u64,
    /// Its number among the versions of the workflow.
    pub number: u64,
}

impl RunManifest {
    /// Makes the manifest of a run of this workflow with these inputs.
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
            plain_secrets: false,
            notes: StartNotes::default(),
        }
    }

    /// What the manifest of a run becomes when the run goes on with another version of its
    /// workflow.
    #[must_use]
    pub fn upgraded(&self, workflow: &Workflow, version: Option<DeployedVersion>) -> Self {
        let hash = |(source, file): (&String, &super::load::ComponentFile)| (source.clone(), file.hash.to_string());
        Self {
            file: workflow.source().name().to_owned(),
            source: workflow.source().text().to_owned(),
            components: workflow.files.iter().map(hash).collect(),
            notes: StartNotes { version, ..self.notes.clone() },
            ..self.clone()
        }
    }

    /// Returns whether a workflow with this text and these components has the same steps: its text,
    /// and those of the files that its steps run, are the same.
    #[must_use]
    pub fn has_text(&self, source: &str, components: &BTreeMap<String, String>) -> bool {
        fn files(all: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, &String)> {
            all.iter().filter(|(name, _)| name.starts_with(CHILD))
        }
        self.source == source && files(&self.components).eq(files(components))
    }

    /// Writes it as text with a digest, by which [`Self::read`] finds damage.
    ///
    /// # Panics
    /// Never: texts and maps of texts are JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut all = serde_json::to_value(self).expect("invariant: texts and maps of texts are JSON");
        all[DIGEST] = digest(&all).into();
        all.to_string()
    }

    /// Reads a text of [`Self::to_text`]. A text without a digest is of an earlier release, and is
    /// not compared.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let stored = all.as_object_mut().and_then(|all| all.shift_remove(DIGEST));
        if stored.is_some_and(|stored| stored != digest(&all)) {
            return Err("it is not what was written".to_owned());
        }
        serde_json::from_value(all).map_err(|error| error.to_string())
    }
}

/// The member of the text with the digest of the others.
const DIGEST: &str = "digest";

/// The BLAKE3 of JSON text, in hexadecimal.
fn digest(all: &Value) -> String {
    blake3::hash(all.to_string().as_bytes()).to_hex().to_string()
}

/// Returns the same value with its keys in order.
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
    fn a_changed_bit_of_a_manifest_is_found() {
        let manifest = RunManifest {
            file: "a.yaml".to_owned(),
            name: "a".to_owned(),
            source: "steps: [{ id: a, set: \"1 \u{e9}\" }]".to_owned(),
            components: BTreeMap::from([("./x.wasm".to_owned(), "00ff".to_owned())]),
            start: "77".to_owned(),
            addresses: vec!["localhost".to_owned()],
            plain_secrets: true,
            notes: StartNotes::default(),
        };
        let text = manifest.to_text();
        assert_eq!(RunManifest::read(&text).unwrap(), manifest);
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                // A reader finds by itself that this is no text.
                let Ok(changed) = String::from_utf8(bytes) else { continue };
                // Without its name the digest is a member as those of later releases are.
                let is_read = RunManifest::read(&changed).is_ok_and(|read| read != manifest);
                assert!(!is_read, "byte {at}: {changed}");
            }
        }
        // A text without a digest is read as it is.
        let old = serde_json::to_string(&manifest).unwrap();
        assert_eq!(RunManifest::read(&old).unwrap(), manifest);
    }
}
