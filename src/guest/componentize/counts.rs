//! What of a module new functions must know.

use wasmparser::{ExternalKind, Parser, Payload, TypeRef};

/// The export that starts a program.
pub(super) const START: &str = "_start";

/// How many of each a module has: what is added gets these as indices.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) types: u32,
    /// All functions, and those of them that are imported.
    pub(super) functions: u32,
    pub(super) imported: u32,
    pub(super) globals: u32,
    /// The function that is exported as [`START`].
    pub(super) start: u32,
}

impl Counts {
    pub(super) fn of(module: &[u8]) -> wasmtime::Result<Self> {
        let mut counts = Self::default();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    for group in section {
                        counts.types += group?.types().len() as u32;
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        match import?.ty {
                            TypeRef::Func(_) | TypeRef::FuncExact(_) => counts.imported += 1,
                            TypeRef::Global(_) => counts.globals += 1,
                            _ => {}
                        }
                    }
                    counts.functions = counts.imported;
                }
                Payload::FunctionSection(section) => counts.functions += section.count(),
                Payload::GlobalSection(section) => counts.globals += section.count(),
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        if export.name == START && export.kind == ExternalKind::Func {
                            counts.start = export.index;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(counts)
    }
}
