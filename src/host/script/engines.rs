//! The engines of scripts: that of JavaScript is part of the program, that of Python is a file.

use super::super::{Shared, component_file};
use super::bare;
use crate::guest::{Cancellation, Component};
use crate::workflow::model::ScriptLanguage;
use crate::workflow::plan::Unusable;
use bytes::Bytes;
use std::path::PathBuf;

/// The engine of JavaScript: `guests/script-js` says how it is built.
pub(crate) static JAVASCRIPT: &[u8] = include_bytes!("../../../guests/built/script-js.wasm");

/// The name of the file with the engine of Python.
pub(crate) const PYTHON: &str = "script-py.wasm";

/// What the names of engines among the files of a run begin with; the digest follows.
pub(crate) const ENGINE: &str = "engine:";

/// The command that gets the engine of Python.
const GET_PYTHON: &str = "wfhost engine python";

/// The usual folder with the engines that are not part of the program.
pub(crate) fn engines_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("WFHOST_ENGINES").or_else(|| {
        let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")))?;
        Some(data.join("wfhost/engines"))
    })
}

impl Shared {
    /// The engine of a language, and its bytes.
    pub(super) fn engine_of(
        &self,
        language: ScriptLanguage,
        cancellation: &Cancellation,
    ) -> Result<(Component, Bytes), Unusable> {
        let (name, bytes) = match language {
            ScriptLanguage::JavaScript | ScriptLanguage::TypeScript => {
                ("the engine of JavaScript", Bytes::from_static(JAVASCRIPT))
            }
            ScriptLanguage::Python => ("the engine of Python", self.python()?),
        };
        let (component, _) =
            self.component(name, &bytes, cancellation).map_err(|error| bare(format!("{name}: {error}")))?;
        if !component.is_script_engine() {
            return Err(Unusable {
                hint: Some(format!("to get another one: {GET_PYTHON}")),
                ..bare(format!("{name} is no script engine"))
            });
        }
        Ok((component, bytes))
    }

    /// The bytes of the engine of Python.
    fn python(&self) -> Result<Bytes, Unusable> {
        let missing = |where_: String| Unusable {
            hint: Some(format!("get it once: {GET_PYTHON}")),
            ..bare(format!("scripts in Python need an engine that is not part of wfhost, and is not {where_}"))
        };
        let path = self.engines.as_ref().ok_or_else(|| missing("installed".to_owned()))?.join(PYTHON);
        match component_file::read(&path) {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(missing(format!("at {}", path.display())))
            }
            Err(error) => Err(bare(format!("{}: {error}", path.display()))),
        }
    }
}

/// The bytes of an engine of this release, by their BLAKE3 in hexadecimal.
pub(crate) fn of_release(hash: &str) -> Option<Bytes> {
    let bytes = Bytes::from_static(JAVASCRIPT);
    (*blake3::hash(&bytes).to_hex() == *hash).then_some(bytes)
}
