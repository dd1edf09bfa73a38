//! `wfhost.lock`: what the workflows of a folder consist of, as last accepted.
//!
//! Beside a workflow file there may be a lock. It has the digest of each component, script, folder
//! and other workflow file that the workflow consists of. While a workflow is loaded, each of them
//! is compared with the lock, so a difference is reported at the place that names it. A component
//! of a registry is pulled by the digest that the lock has for its tag.
//!
//! - **I1** A name in the lock is loaded with the digest that the lock has for it, or not at all.
//! - **I2** The text of a lock is a function of its content: sorted, one line an entry.
//! - **I3** A lock that cannot be read as a whole is refused: nothing in it is skipped.

mod text;

use super::replaced_file::ReplacedFile;
use super::{Host, LoadError, Workflow};
use crate::guest::Cancellation;
use crate::workflow::plan::Unusable;
use crate::workflow::syntax::Source;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of a lock, in the folder of the workflows that it is of.
pub const LOCK_FILE: &str = "wfhost.lock";

/// What is done with the lock beside a workflow file that is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Locking {
    /// It is not read.
    Ignored,
    /// Components of registries are those that it names; other differences do not matter.
    Pinned,
    /// What differs from it is refused. There may be none.
    #[default]
    Checked,
    /// What differs from it, and what it does not have, is refused.
    Required,
}

/// What a workflow consists of besides its own file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LockedKind {
    /// A component or program: of a file, BLAKE3; of a registry, the manifest's SHA-256.
    Component,
    /// The folders that a program reads.
    Folders,
    /// A file of a script.
    Script,
    /// A workflow file that a step runs.
    Workflow,
}

impl LockedKind {
    /// All of them, in the order of the text.
    pub const ALL: [Self; 4] = [Self::Component, Self::Folders, Self::Script, Self::Workflow];

    /// Its key in the text.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Component => "components",
            Self::Folders => "folders",
            Self::Script => "scripts",
            Self::Workflow => "workflows",
        }
    }
}

/// The parts of a workflow, each with its digest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LockedParts(pub BTreeMap<(LockedKind, String), String>);

/// How a part of a workflow differs from a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockDifference {
    /// What it is.
    pub kind: LockedKind,
    /// Its name in the workflow, or its path.
    pub name: String,
    /// Its digest in the lock. `None` if it is not there.
    pub locked: Option<String>,
    /// Its digest now. `None` if the workflow does not have it.
    pub found: Option<String>,
}

impl LockedParts {
    /// The digest of a part.
    #[must_use]
    pub fn get(&self, kind: LockedKind, name: &str) -> Option<&str> {
        self.0.get(&(kind, name.to_owned())).map(String::as_str)
    }

    /// How the parts that were found differ from these.
    #[must_use]
    pub fn differences(&self, found: &Self) -> Vec<LockDifference> {
        let mut all: Vec<&(LockedKind, String)> = self.0.keys().chain(found.0.keys()).collect();
        all.sort();
        all.dedup();
        let difference = |part: &(LockedKind, String)| {
            let (locked, found) = (self.0.get(part).cloned(), found.0.get(part).cloned());
            let (kind, name) = part.clone();
            (locked != found).then_some(LockDifference { kind, name, locked, found })
        };
        all.into_iter().filter_map(difference).collect()
    }
}

/// A lock: the parts of workflows, by the names of their files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LockFile {
    /// By the names of workflow files, without a folder.
    pub workflows: BTreeMap<String, LockedParts>,
}

impl LockFile {
    /// The path of the lock beside a workflow file.
    #[must_use]
    pub fn beside(workflow: &Path) -> PathBuf {
        workflow.with_file_name(LOCK_FILE)
    }

    /// Reads the lock of a path. `None` if there is none.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, LoadError> {
        match super::workflow_file::read(path) {
            Ok(text) => {
                Self::parse(&Source::new(&path.to_string_lossy(), &text)).map(Some).map_err(LoadError::Definition)
            }
            Err(LoadError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    let source = std::io::Error::other("it is a symbolic link to a file that is not there");
                    return Err(LoadError::Read { path: path.to_owned(), source });
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the parts of workflows, by the names of their files, into the lock of a path, as a
    /// whole or not at all. Other processes that do so wait, and each adds its own to what the lock
    /// has then. A lock that has all of it is not written.
    ///
    /// # Errors
    /// Fails if it cannot be read, is damaged, or cannot be written.
    pub fn add(path: &Path, workflows: BTreeMap<String, LockedParts>) -> Result<(), LoadError> {
        let unwritable = |source| LoadError::WriteLock { path: path.to_owned(), source };
        // A link that leads nowhere is refused as such.
        Self::read(path)?;
        let file = ReplacedFile::hold(path, "").map_err(unwritable)?;
        let before = Self::read(path)?;
        let mut lock = before.clone().unwrap_or_default();
        lock.workflows.extend(workflows);
        if before.as_ref() == Some(&lock) {
            return Ok(());
        }
        file.replace(&lock.to_text(), || Ok(())).map_err(unwritable)
    }
}

/// The lock as a loader uses it.
#[derive(Default)]
pub(super) struct LockInUse {
    /// What the lock has of the workflow.
    parts: LockedParts,
    locking: Locking,
    /// The workflow's file, as hints name it.
    file: String,
}

impl LockInUse {
    /// The lock beside a workflow file.
    ///
    /// # Errors
    /// Fails if it cannot be read, is damaged, or is required and not there.
    pub(super) fn of(workflow: &Path, locking: Locking) -> Result<Self, LoadError> {
        let file = workflow.display().to_string();
        if locking == Locking::Ignored {
            return Ok(Self { locking, file, ..Self::default() });
        }
        let path = LockFile::beside(workflow);
        let lock = LockFile::read(&path)?;
        if lock.is_none() && locking == Locking::Required {
            return Err(LoadError::NotLocked { lock: path, workflow: workflow.to_owned() });
        }
        let name = workflow.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parts = lock.and_then(|mut lock| lock.workflows.remove(&name)).unwrap_or_default();
        Ok(Self { parts, locking, file })
    }

    /// No lock: the parts come from where they were stored.
    pub(super) fn none() -> Self {
        Self { locking: Locking::Ignored, ..Self::default() }
    }

    /// The digest by which a component of a registry is pulled.
    pub(super) fn pinned(&self, source: &str) -> Option<String> {
        self.parts.get(LockedKind::Component, source).map(str::to_owned)
    }

    /// Compares a part that was found.
    ///
    /// # Errors
    /// Says how it differs.
    pub(super) fn check(&self, kind: LockedKind, name: &str, found: &str) -> Result<(), Unusable> {
        let refused = |message: String, hint: String| Err(Unusable::from((message, Some(hint))));
        let what = match kind {
            LockedKind::Folders => format!("the content of the folders of `{name}`"),
            _ => format!("`{name}`"),
        };
        match (self.locking, self.parts.get(kind, name)) {
            (Locking::Checked | Locking::Required, Some(locked)) if locked != found => refused(
                format!("{what} is not what {LOCK_FILE} has: it is {found}, and was {locked}"),
                format!("if the change is wanted, accept it: wfhost lock {}", self.file),
            ),
            (Locking::Required, None) => refused(
                format!("{what} is not in {LOCK_FILE}, which has to be complete: it is {found}"),
                format!("add it: wfhost lock {}", self.file),
            ),
            _ => Ok(()),
        }
    }
}

impl Host {
    /// Loads a workflow file as [`Host::load`] does, with another use of its lock than the host's.
    ///
    /// # Errors
    /// As [`Host::load`].
    pub fn load_locked(&self, path: impl AsRef<Path>, locking: Locking) -> Result<Workflow, LoadError> {
        self.load_by(path.as_ref(), locking, &Cancellation::new())
    }
}

impl Workflow {
    /// Returns what it consists of besides its own file, each part with its digest.
    pub fn parts(&self) -> &LockedParts {
        &self.parts
    }
}

#[cfg(test)]
mod tests;
