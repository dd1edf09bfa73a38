//! Exceptions of C++, for an engine that has none: they would need its garbage collector.
//!
//! A function that throws sets a mark and returns. After each call of a function that may throw,
//! its caller looks at the mark: it goes to where the exception is caught, or returns too. A
//! program in C++ has one kind of exception, a pointer; so a reference to an exception is that
//! pointer.

mod body;

use super::counts::{Counts, START};
use super::sections::rewrite;
use crate::guest::survey::BYTES_MAX;
use body::Lowering;
use wasm_encoder::reencode::{self, Reencode as _, RoundtripReencoder};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType,
    Module, TypeSection, ValType,
};
use wasmparser::{
    BinaryReader, CodeSectionReader, CompositeInnerType, ExternalKind, FuncType, Operator, Parser, Payload, TypeRef,
};

/// What this does not know how to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unsupported(&'static str);

type Lowered<T> = Result<T, reencode::Error<Unsupported>>;

fn unsupported(what: &'static str) -> reencode::Error<Unsupported> {
    reencode::Error::UserError(Unsupported(what))
}

const OTHER_KIND: &str = "it has exceptions of another kind than those of C++";

/// What is known of the module.
#[derive(Default)]
struct Known {
    counts: Counts,
    types: Vec<Option<FuncType>>,
    /// The types of all functions, imported ones first.
    functions: Vec<u32>,
    has_globals: bool,
    /// Whether a function may throw: each that is not a leaf. Imported functions do not.
    throws: Vec<bool>,
}

impl Known {
    fn of(module: &[u8]) -> wasmtime::Result<Self> {
        let mut known = Self { counts: Counts::of(module)?, ..Self::default() };
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    for group in section {
                        known.types.extend(group?.into_types().map(|ty| match ty.composite_type.inner {
                            CompositeInnerType::Func(ty) => Some(ty),
                            _ => None,
                        }));
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        match import?.ty {
                            TypeRef::Func(ty) | TypeRef::FuncExact(ty) => known.functions.push(ty),
                            TypeRef::Tag(_) => return Err(Unsupported(OTHER_KIND).into()),
                            _ => {}
                        }
                    }
                    known.throws.resize(known.functions.len(), false);
                }
                Payload::FunctionSection(section) => {
                    for ty in section {
                        known.functions.push(ty?);
                    }
                }
                Payload::TagSection(section) => {
                    for tag in section.clone() {
                        let params = known.ty(tag?.func_type_idx).map(FuncType::params);
                        if section.count() != 1 || params != Some(&[wasmparser::ValType::I32]) {
                            return Err(Unsupported(OTHER_KIND).into());
                        }
                    }
                }
                Payload::GlobalSection(_) => known.has_globals = true,
                Payload::StartSection { .. } => return Err(Unsupported("it has a start function").into()),
                Payload::CodeSectionEntry(body) => {
                    let mut throws = false;
                    let mut operators = body.get_operators_reader()?;
                    while !throws && !operators.eof() {
                        throws = may_throw(&operators.read()?, known.counts.imported);
                    }
                    known.throws.push(throws);
                }
                _ => {}
            }
        }
        Ok(known)
    }

    fn ty(&self, index: u32) -> Option<&FuncType> {
        self.types.get(index as usize)?.as_ref()
    }

    fn of_function(&self, index: u32) -> Option<&FuncType> {
        self.ty(*self.functions.get(index as usize)?)
    }

    fn may_throw(&self, function: u32) -> bool {
        self.throws.get(function as usize).copied().unwrap_or_default()
    }

    /// The global that is 1 while an exception looks for who catches it.
    fn mark(&self) -> u32 {
        self.counts.globals
    }

    /// The global with the pointer that was thrown last.
    fn pointer(&self) -> u32 {
        self.counts.globals + 1
    }

    /// Starts the program. An exception that nothing catches is a trap.
    fn start_function(&self) -> Function {
        let mut start = Function::new([]);
        let mut code = start.instructions();
        code.call(self.counts.start).global_get(self.mark());
        code.if_(BlockType::Empty).unreachable().end().end();
        start
    }
}

/// Whether a function that has this instruction may throw.
fn may_throw(operator: &Operator<'_>, imported: u32) -> bool {
    match operator {
        Operator::Call { function_index } | Operator::ReturnCall { function_index } => *function_index >= imported,
        Operator::CallIndirect { .. }
        | Operator::ReturnCallIndirect { .. }
        | Operator::CallRef { .. }
        | Operator::ReturnCallRef { .. }
        | Operator::TryTable { .. }
        | Operator::Throw { .. }
        | Operator::ThrowRef
        | Operator::Try { .. } => true,
        _ => false,
    }
}

/// Whether a module declares exceptions.
pub(super) fn has_exceptions(module: &[u8]) -> bool {
    let payloads = Parser::new(0).parse_all(module);
    payloads.map_while(Result::ok).any(|payload| matches!(payload, Payload::TagSection(_)))
}

/// The same program without exceptions.
///
/// # Errors
/// Fails if the module is not valid, has exceptions of another kind, or becomes too large.
pub(super) fn lowered(module: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let known = Known::of(module)?;
    let counts = known.counts;
    rewrite(module, |payload, made| {
        match payload {
            Payload::TypeSection(section) => {
                let mut types = TypeSection::new();
                Lowering::new(&known).parse_type_section(&mut types, section.clone())?;
                types.ty().function([], []);
                made.section(&types);
            }
            Payload::FunctionSection(section) => {
                let mut functions = FunctionSection::new();
                RoundtripReencoder.parse_function_section(&mut functions, section.clone())?;
                functions.function(counts.types);
                made.section(&functions);
            }
            // The section of globals follows that of tags.
            Payload::TagSection(_) if known.has_globals => {}
            Payload::TagSection(_) => globals(None, made)?,
            Payload::GlobalSection(section) => globals(Some(section.clone()), made)?,
            Payload::ExportSection(section) => export(section.clone(), counts, made)?,
            Payload::CodeSectionStart { range, .. } => code(&module[range.clone()], &known, made)?,
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// The module's own globals, then those for exceptions.
fn globals(section: Option<wasmparser::GlobalSectionReader<'_>>, made: &mut Module) -> wasmtime::Result<()> {
    let mut globals = GlobalSection::new();
    if let Some(section) = section {
        RoundtripReencoder.parse_global_section(&mut globals, section)?;
    }
    let of = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
    globals.global(of, &ConstExpr::i32_const(0)).global(of, &ConstExpr::i32_const(0));
    made.section(&globals);
    Ok(())
}

fn export(section: wasmparser::ExportSectionReader<'_>, counts: Counts, made: &mut Module) -> wasmtime::Result<()> {
    let mut exports = ExportSection::new();
    for export in section {
        let export = export?;
        if export.name == START {
            exports.export(START, ExportKind::Func, counts.functions);
        } else if export.kind != ExternalKind::Tag {
            RoundtripReencoder.parse_export(&mut exports, export)?;
        }
    }
    made.section(&exports);
    Ok(())
}

fn code(section: &[u8], known: &Known, made: &mut Module) -> wasmtime::Result<()> {
    let mut code = CodeSection::new();
    let mut lowering = Lowering::new(known);
    for (index, body) in (known.counts.imported..).zip(CodeSectionReader::new(BinaryReader::new(section, 0))?) {
        code.function(&lowering.body(index, &body?)?);
        // A function of a few bytes may have many results.
        if code.byte_len() > BYTES_MAX {
            return Err(Unsupported("without exceptions it is too large").into());
        }
    }
    code.function(&known.start_function());
    made.section(&code);
    Ok(())
}

#[cfg(test)]
mod tests;
