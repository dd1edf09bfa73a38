//! The sources of a script as one file, for the store of components.

use super::{ENGINE, Folder};
use crate::guest::{ScriptForm, ScriptSource};
use serde::{Deserialize, Serialize};

/// The version of the file.
const VERSION: u32 = 1;

/// The sources of a script, and its engine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Bundle {
    #[serde(rename = "wfhost-script")]
    version: u32,
    /// The digest of the engine's bytes.
    pub(crate) engine: String,
    /// The script itself first.
    sources: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Entry {
    /// As the engine is given it.
    #[serde(flatten)]
    source: ScriptSource,
    /// As people wrote it, if it was translated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    written: Option<String>,
}

impl Bundle {
    pub(crate) fn new(engine: &str) -> Self {
        Self { version: VERSION, engine: engine.to_owned(), sources: Vec::new() }
    }

    /// Adds a source as it was written, and its translation.
    pub(crate) fn add(&mut self, source: ScriptSource, translation: Option<String>) {
        let (text, written) = match translation {
            Some(translation) => (translation, Some(source.text)),
            None => (source.text, None),
        };
        self.sources.push(Entry { source: ScriptSource { text, ..source }, written });
    }

    /// The name of its engine among the files of a run.
    pub(crate) fn engine_file(&self) -> String {
        format!("{ENGINE}{}", self.engine)
    }

    /// The sources for the engine.
    pub(crate) fn sources(&self) -> Vec<ScriptSource> {
        self.sources.iter().map(|entry| entry.source.clone()).collect()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|entry| entry.source.path.as_str())
    }

    /// The files that it consists of, with their texts as people wrote them.
    pub(crate) fn modules(&self) -> impl Iterator<Item = (&str, &str)> {
        let modules = self.sources.iter().filter(|entry| entry.source.form == ScriptForm::Module);
        modules.map(|entry| (entry.source.path.as_str(), entry.written.as_deref().unwrap_or(&entry.source.text)))
    }

    /// Bytes of all sources.
    pub(crate) fn bytes(&self) -> usize {
        self.sources.iter().map(|entry| entry.source.text.len()).sum()
    }

    /// The source that has a line, and its text as it was written.
    pub(crate) fn find(&self, path: &str, line: usize) -> Option<(&ScriptSource, &str)> {
        let entry = self.sources.iter().find(|entry| {
            let source = &entry.source;
            let first = source.line as usize;
            let within = match source.form {
                ScriptForm::Module => true,
                // Others may be in the same file.
                ScriptForm::Body => (first..=first + source.text.matches('\n').count()).contains(&line),
                ScriptForm::Absent => false,
            };
            within && source.path == path
        })?;
        Some((&entry.source, entry.written.as_deref().unwrap_or(&entry.source.text)))
    }

    /// The first file of it that is another one now, or gone.
    pub(crate) fn changed(&self, folder: &Folder) -> Option<&str> {
        let modules = self.sources.iter().filter(|entry| entry.source.form == ScriptForm::Module);
        let is_other = |entry: &&Entry| {
            let written = entry.written.as_ref().unwrap_or(&entry.source.text);
            folder.read(&entry.source.path).ok().as_ref() != Some(written)
        };
        modules.filter(is_other).map(|entry| entry.source.path.as_str()).next()
    }

    /// A digest of what it does, without its place in a workflow file.
    pub(crate) fn content(&self) -> String {
        let mut placeless = self.clone();
        for entry in &mut placeless.sources {
            if entry.source.form == ScriptForm::Body {
                entry.source.line = 1;
                entry.source.path.clear();
            }
        }
        format!("blake3:{}", blake3::hash(&placeless.to_bytes()).to_hex())
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("invariant: texts and numbers are JSON")
    }

    /// # Errors
    /// Says why the bytes are no bundle.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let bundle: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match bundle.version {
            VERSION => Ok(bundle),
            other => Err(format!("it has version {other}; this release reads version {VERSION}")),
        }
    }
}
