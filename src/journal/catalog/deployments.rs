//! Deployed workflows and their versions.

use crate::journal::StoreError;
use crate::process::Timestamp;

/// A version of a workflow that is deployed. A version never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Its row in the journal: runs name it.
    pub row: u64,
    /// The name of the workflow.
    pub name: String,
    /// Its number among the versions of the workflow, from 1.
    pub number: u64,
    /// The BLAKE3 of its file's name, its text and its components, in hexadecimal.
    pub digest: String,
    /// What diagnostics call the file.
    pub file: String,
    /// The text of the workflow.
    pub source: String,
    /// The components as the text names them, with the BLAKE3 of their bytes: a JSON object.
    pub components: String,
    /// When it was deployed.
    pub created: Timestamp,
    /// Who deployed it.
    pub author: String,
    /// What they said of it.
    pub note: Option<String>,
}

/// A version to be deployed.
#[derive(Clone, Debug)]
pub struct NewVersion {
    /// As [`Version::name`].
    pub name: String,
    /// As [`Version::digest`].
    pub digest: String,
    /// As [`Version::file`].
    pub file: String,
    /// As [`Version::source`].
    pub source: String,
    /// As [`Version::components`].
    pub components: String,
    /// As [`Version::created`].
    pub created: Timestamp,
    /// As [`Version::author`].
    pub author: String,
    /// As [`Version::note`].
    pub note: Option<String>,
}

/// The version of a workflow that new runs get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActiveVersion {
    /// The name of the workflow.
    pub name: String,
    /// The number of the version.
    pub number: u64,
    /// Since when.
    pub since: Timestamp,
    /// Who activated it.
    pub author: String,
}

/// The outcome of an activation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Activated {
    /// The version is active.
    Done,
    /// Another version is active than was expected: this one, or none.
    Other(Option<u64>),
    /// There is no such version.
    Unknown,
}

/// Deployed workflows.
#[allow(clippy::missing_errors_doc, reason = "the errors of all are those of the store")]
pub trait Deployments {
    /// Adds a version. Returns it, and whether it is new: the same digest again is the same
    /// version.
    fn deploy(&self, new: &NewVersion) -> Result<(Version, bool), StoreError>;

    /// Makes a version the active one of its workflow, if the active one is the expected one:
    /// `None` expects nothing, `Some(0)` that none is.
    fn activate(&self, active: &ActiveVersion, expected: Option<u64>) -> Result<Activated, StoreError>;

    /// Returns the active versions of all workflows, by name.
    fn active_versions(&self) -> Result<Vec<ActiveVersion>, StoreError>;

    /// Returns the versions of a workflow, the newest first, with their texts.
    fn versions(&self, name: &str) -> Result<Vec<Version>, StoreError>;

    /// Returns the names of all workflows that have a version.
    fn workflow_names(&self) -> Result<Vec<String>, StoreError>;

    /// Returns a version; `None` if there is no such one.
    fn version(&self, name: &str, number: u64) -> Result<Option<Version>, StoreError>;

    /// Removes a version that is not active and that no run names. Returns whether it did; `None`
    /// if there is no such version. Its number is not given again.
    fn remove_version(&self, name: &str, number: u64) -> Result<Option<bool>, StoreError>;

    /// Returns the digests of the components that versions name, each with its workflow.
    fn deployed_components(&self) -> Result<Vec<(String, String)>, StoreError>;
}
