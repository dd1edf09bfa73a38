//! What is read from a component's bytes before anything is validated or compiled: its size in
//! every respect, and its names.
//!
//! Validating and compiling take more than linear time and memory in some respects: nested
//! instances are all made one by one, and the cost of a function grows with its locals times its
//! branches. So each of these is bounded first, in one pass over the bytes. The bounds are about
//! ten times what the largest known guests have (JavaScript and Python), and do not limit what a
//! guest does when it runs.

mod body;
mod tree;

use super::problem::LoadError;
use body::{Module, Totals};
use tree::Tree;
use wasmparser::{Encoding, Parser, Payload};

/// Bytes of a component. The largest known guests have 48 MiB.
pub const BYTES_MAX: usize = 64 << 20;

/// Bounds on the compiler's input. Python guests have 38 modules and 13,500 functions; 200,000
/// empty functions take a gigabyte.
const FUNCTIONS_MAX: u64 = 100_000;
const MODULES_MAX: u64 = 256;

/// What a component consists of.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Survey {
    /// The component's size in bytes.
    pub bytes: u64,
    /// Core modules, at any depth.
    pub modules: u64,
    /// Core instances that an instance of the component makes; those of a nested component count
    /// once for each of its instantiations.
    pub core_instances: u64,
    /// Functions with a body.
    pub functions: u64,
    /// Bytes of the largest body.
    pub function_bytes_max: u64,
    /// Whether it passes text in UTF-16, which the host converts character by character.
    pub transcodes: bool,
    /// Names of its imports, with their versions.
    pub imports: Vec<String>,
    /// Names of its exports, with their versions.
    pub exports: Vec<String>,
}

impl Survey {
    /// Reads a component.
    ///
    /// # Errors
    /// Fails if it is malformed, not a component, or larger than allowed in any respect.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, LoadError> {
        let mut survey = Self { bytes: bytes.len() as u64, ..Self::default() };
        let (mut tree, mut totals) = (Tree::default(), Totals::new(bytes.len() as u64));
        // The core module being read; core modules do not nest.
        let mut module = None;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(malformed)?;
            match (&mut module, &payload) {
                (None, Payload::Version { encoding: Encoding::Module, .. }) => return Err(LoadError::CoreModule),
                (None, Payload::ModuleSection { .. }) => {
                    module = Some(Module::new(survey.modules));
                    survey.modules += 1;
                    at_most("core modules", survey.modules, MODULES_MAX)?;
                }
                (None, payload) => {
                    survey.names(payload, &tree)?;
                    tree.payload(payload)?;
                }
                (Some(_), Payload::End(_)) => module = None,
                (Some(module), Payload::CodeSectionEntry(body)) => {
                    survey.functions += 1;
                    at_most("functions", survey.functions, FUNCTIONS_MAX)?;
                    survey.function_bytes_max = survey.function_bytes_max.max(body.range().len() as u64);
                    module.body(body, &mut totals)?;
                }
                (Some(module), payload) => module.payload(payload)?,
            }
        }
        survey.core_instances = tree.core_instances();
        survey.transcodes = tree.transcodes();
        Ok(survey)
    }

    /// Records the names of the component itself, not those of a nested one.
    fn names(&mut self, payload: &Payload<'_>, tree: &Tree) -> Result<(), LoadError> {
        match payload {
            Payload::ComponentImportSection(section) if tree.is_at_root() => {
                for import in section.clone() {
                    self.imports.push(import.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if tree.is_at_root() => {
                for export in section.clone() {
                    self.exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn at_most(what: &'static str, count: u64, count_max: u64) -> Result<(), LoadError> {
    if count <= count_max { Ok(()) } else { Err(LoadError::TooMany { what, count, count_max, function: None }) }
}

fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Malformed(error.to_string())
}
