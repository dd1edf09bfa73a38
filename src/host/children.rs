//! The workflow files that steps of a workflow run: read from its folder, or from where they were
//! stored with a run or a version.

use super::Workflow;
use super::script::Folder;
use crate::workflow::plan::{Environment, Handlers, ResolvedComponent, Unusable};
use crate::workflow::syntax::{SOURCE_BYTES_MAX, Source};
use std::collections::BTreeMap;
use std::path::Path;

/// What the name of such a file among those of a run begins with; its path below the workflow's
/// folder follows.
pub(crate) const CHILD: &str = "workflow:";

/// Reads a file.
///
/// # Errors
/// Says why it cannot be read.
pub(super) fn read(folder: &Path, path: &str) -> Result<String, String> {
    let folder = Folder::new(folder)?;
    let bytes = folder.bytes(path, SOURCE_BYTES_MAX).map_err(|why| match other_ending(&folder, path) {
        Some(meant) => format!("{why}; there is {meant}"),
        None => why,
    })?;
    text(bytes)
}

/// The file that is there if a path ends otherwise.
fn other_ending(folder: &Folder, path: &str) -> Option<String> {
    let stem = path.strip_suffix(".yaml").or_else(|| path.strip_suffix(".yml")).unwrap_or(path);
    let endings = ["yaml", "yml"].into_iter().map(|ending| format!("{stem}.{ending}"));
    endings.into_iter().find(|meant| meant != path && folder.has(meant))
}

/// The text of a file. Of one that is too large there is as much as lets the parser refuse it.
///
/// # Errors
/// Says why it is no text.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() > SOURCE_BYTES_MAX {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let line = before.matches('\n').count() + 1;
        format!("it is not UTF-8, in line {line}: save it as UTF-8")
    })
}

/// A file as diagnostics name it: by its path from where the workflow's own file was named.
pub(super) fn source(own: &str, path: &str, text: &str) -> Source {
    let folder = Path::new(own).parent().unwrap_or(Path::new(""));
    Source::new(&folder.join(path).to_string_lossy(), text)
}

/// The files that were stored with a run or a version, for a plan without its components.
pub(super) struct StoredFiles<'a> {
    /// The name of the workflow's own file.
    pub(super) own: &'a str,
    /// By their paths.
    pub(super) texts: BTreeMap<String, Result<String, String>>,
}

impl<'a> StoredFiles<'a> {
    /// Those among what was stored, each by its name and digest; `load` returns the bytes of a
    /// digest.
    pub(super) fn read(
        own: &'a str,
        stored: &BTreeMap<String, String>,
        load: impl Fn(&str) -> Result<bytes::Bytes, String>,
    ) -> Self {
        let read = |(name, digest): (&String, &String)| {
            let path = name.strip_prefix(CHILD)?;
            Some((path.to_owned(), load(digest).and_then(|bytes| text(bytes.into()))))
        };
        Self { own, texts: stored.iter().filter_map(read).collect() }
    }
}

impl Environment for StoredFiles<'_> {
    fn component(&self, _: &str) -> Result<ResolvedComponent, Unusable> {
        Ok(ResolvedComponent::default())
    }

    fn workflow(&self, path: &str) -> Result<Source, Unusable> {
        let unusable = |why: &str| Unusable::from((why.to_owned(), None));
        match self.texts.get(path) {
            Some(Ok(text)) => Ok(source(self.own, path, text)),
            Some(Err(why)) => Err(unusable(why)),
            None => Err(unusable("it is not stored")),
        }
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        None
    }
}

impl Workflow {
    /// Returns the file that a JSON Pointer of the plan leads into, and the pointer there.
    pub fn file_of<'p>(&self, pointer: &'p str) -> (&Source, &'p str) {
        let other = pointer.split_once('#').filter(|_| !pointer.starts_with('/'));
        let other = other.and_then(|(path, rest)| Some((self.children.get(path)?, rest)));
        other.unwrap_or((self.source(), pointer))
    }

    /// Returns the files that its steps run, by their paths below its folder.
    pub fn children(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.children.iter().map(|(path, source)| (path.as_str(), source))
    }

    /// Returns the names of those of its files, its own first, that are no longer as they were when
    /// it was loaded, or stored. A file that cannot be read is not among them.
    pub fn changed_files(&self) -> impl Iterator<Item = &str> {
        let all = std::iter::once(self.source()).chain(self.children.values());
        let is_other = |source: &&Source| {
            Self::read(source.name()).is_ok_and(|text| Source::new("", &text).text() != source.text())
        };
        all.filter(is_other).map(Source::name)
    }
}
