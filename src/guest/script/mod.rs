//! Scripts: programs whose source is data to a component, the script engine.
//!
//! A script is a [`Component`](super::Component) made from an engine and sources. Its instances are
//! instances of the engine into which the sources were loaded (`script.load` of the contract)
//! before anything else is called. From then on they are guests like any other.
//!
//! - **I1** What loading leaves behind depends on the engine and the sources alone: meanwhile the
//!   time is 0, no log, identity or random number is given, and the limits are the default ones. A
//!   script that needs more memory than they allow is refused, so loading never depends on the
//!   limits of a process either.
//! - **I2** The state after loading is the template of the script's instances: snapshots are
//!   differences to it, and a reset goes back to it. It is learned from two instances that must be
//!   equal; until then, and where that is impossible, each instance loads the sources itself. By I1
//!   nobody can tell the difference.
//! - **I3** A script's digest covers its engine's bytes and all that `load` is given.

mod birth;
mod examine;

pub(super) use birth::give_birth;
pub(super) use examine::{examine, template, translate};

use super::loaded::Loaded;
use super::snapshot::Snapshot;
use crate::process::Problem;
use std::sync::{Arc, OnceLock};

/// Most sources of a script. Arbitrary: a program with more is bundled.
pub const MODULES_MAX: usize = 500;

/// Bytes of one source. Arbitrary: the largest bundles of one program have about one.
pub const SOURCE_BYTES_MAX: usize = 2 << 20;

/// Bytes of all sources of a script. Arbitrary.
pub const SOURCES_BYTES_MAX: usize = 8 << 20;

/// What a source is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptForm {
    /// A whole file.
    Module,
    /// The body of one entry, `run`, written in a workflow file.
    Body,
    /// A file that is imported and cannot be read; the text says why.
    Absent,
}

/// A source of a script.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ScriptSource {
    /// Its name in messages and imports, relative to the workflow's folder.
    pub path: String,
    /// The line of the text's first line in its file, from 1.
    pub line: u32,
    /// What it is.
    pub form: ScriptForm,
    /// The source.
    pub text: String,
}

/// Why an engine does not load sources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// It imports these, which are not among the sources.
    Missing(Vec<String>),
    /// Something is wrong with the script.
    Wrong(Problem),
}

/// Why a script cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// It imports these paths, which are not among the sources.
    #[error("it imports {}", .0.join(", "))]
    Missing(Vec<String>),
    /// Something is wrong with the script: a problem of the kind `bad-script`, with the place in
    /// `data.at` if the engine knows it.
    #[error("{0}")]
    Wrong(Problem),
    /// The component is no script engine.
    #[error("the component is no script engine: it does not export wfhost:process/script")]
    NoEngine,
    /// The caller cancelled it.
    #[error("loading the script was cancelled")]
    Cancelled,
}

/// What distinguishes a script from its engine.
pub(super) struct Script {
    engine: Arc<Loaded>,
    sources: Arc<[ScriptSource]>,
    /// How an instance that has loaded the sources differs from a fresh one of the engine. Learned
    /// with the template.
    birth: OnceLock<Snapshot>,
}

impl Script {
    pub(super) fn new(engine: Arc<Loaded>, sources: Arc<[ScriptSource]>) -> Self {
        Self { engine, sources, birth: OnceLock::new() }
    }

    pub(super) fn sources(&self) -> &Arc<[ScriptSource]> {
        &self.sources
    }
}

/// The digest of a script.
pub(super) fn hash(engine: [u8; 32], sources: &[ScriptSource]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"wfhost script 1\0").update(&engine).update(&(sources.len() as u64).to_le_bytes());
    for ScriptSource { path, line, form, text } in sources {
        let form = match form {
            ScriptForm::Module => 0,
            ScriptForm::Body => 1,
            ScriptForm::Absent => 2,
        };
        hasher.update(&line.to_le_bytes()).update(&[form]);
        for part in [path, text] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_differs_makes_another_digest() {
        let source =
            |path: &str, line, form, text: &str| ScriptSource { path: path.into(), line, form, text: text.into() };
        let all = [
            hash([0; 32], &[]),
            hash([1; 32], &[]),
            hash([0; 32], &[source("a", 1, ScriptForm::Module, "b")]),
            hash([0; 32], &[source("", 1, ScriptForm::Module, "ab")]),
            hash([0; 32], &[source("ab", 1, ScriptForm::Module, "")]),
            hash([0; 32], &[source("a", 2, ScriptForm::Module, "b")]),
            hash([0; 32], &[source("a", 1, ScriptForm::Body, "b")]),
            hash([0; 32], &[source("a", 1, ScriptForm::Module, "b"), source("a", 1, ScriptForm::Module, "b")]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == one), Some(at));
        }
    }
}
