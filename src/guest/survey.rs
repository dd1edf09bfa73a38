//! What is read off a component's bytes before anything is compiled: its size in every respect, and its names.

use super::problem::LoadError;
use wasmparser::{Encoding, Parser, Payload};

/// Bytes of a component. The largest known guests have 18 MiB.
pub const BYTES_MAX: usize = 64 << 20;

/// Bounds on what the compiler is given. Estimated from Python guests, which have 38 modules; the rest is room.
const FUNCTIONS_MAX: u64 = 200_000;
const MODULES_MAX: u64 = 256;
const ITEMS_MAX: u64 = 100_000;

/// Bytes of one function's body: compiling takes more than linear time in it. Arbitrary: an interpreter's main loop is large.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// What a component consists of.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Survey {
    /// Bytes.
    pub bytes: u64,
    /// Core modules, at any depth.
    pub modules: u64,
    /// Core instances that it makes, at any depth, each nested component counted once.
    pub core_instances: u64,
    /// Functions with a body.
    pub functions: u64,
    /// Bytes of the largest body.
    pub function_bytes_max: u64,
    /// Names of its imports, with their versions.
    pub imports: Vec<String>,
    /// Names of its exports, with their versions.
    pub exports: Vec<String>,
}

impl Survey {
    /// Reads a component.
    ///
    /// # Errors
    /// Where it is malformed, no component, or larger than allowed in any respect.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, LoadError> {
        let mut survey = Self { bytes: bytes.len() as u64, ..Self::default() };
        let mut depth = 0_u32;
        let mut items = 0_u64;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(malformed)?;
            match &payload {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(LoadError::CoreModule),
                Payload::ModuleSection { .. } => {
                    depth += 1;
                    survey.modules += 1;
                    at_most("core modules", survey.modules, MODULES_MAX)?;
                }
                Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::CodeSectionEntry(body) => {
                    survey.functions += 1;
                    let bytes = body.range().len() as u64;
                    survey.function_bytes_max = survey.function_bytes_max.max(bytes);
                    at_most("functions", survey.functions, FUNCTIONS_MAX)?;
                    at_most("bytes in one function", bytes, FUNCTION_BYTES_MAX)?;
                }
                Payload::InstanceSection(section) => {
                    for instance in section.clone() {
                        if let wasmparser::Instance::Instantiate { .. } = instance.map_err(malformed)? {
                            survey.core_instances += 1;
                        }
                    }
                    items += u64::from(section.count());
                }
                Payload::ComponentInstanceSection(section) => items += u64::from(section.count()),
                Payload::ComponentTypeSection(section) => items += u64::from(section.count()),
                Payload::ComponentAliasSection(section) => items += u64::from(section.count()),
                Payload::ComponentCanonicalSection(section) => items += u64::from(section.count()),
                Payload::ComponentImportSection(section) => {
                    items += u64::from(section.count());
                    for import in section.clone() {
                        let import = import.map_err(malformed)?;
                        if depth == 0 {
                            survey.imports.push(import.name.name.to_owned());
                        }
                    }
                }
                Payload::ComponentExportSection(section) => {
                    items += u64::from(section.count());
                    for export in section.clone() {
                        let export = export.map_err(malformed)?;
                        if depth == 0 {
                            survey.exports.push(export.name.name.to_owned());
                        }
                    }
                }
                _ => {}
            }
            at_most("types, imports, exports and instances", items, ITEMS_MAX)?;
        }
        Ok(survey)
    }
}

fn at_most(what: &'static str, count: u64, count_max: u64) -> Result<(), LoadError> {
    if count <= count_max { Ok(()) } else { Err(LoadError::TooMany { what, count, count_max }) }
}

fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Malformed(error.to_string())
}
