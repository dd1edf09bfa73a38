//! Programs in Go. Go's heap takes for its own whatever follows the memory that it has, also the
//! pages that the adapter asks for in between, and writes over them. So such a program reserves its
//! memory before anything else runs: half of what it can get, or a bit more, up to 1 GiB. Its
//! `memory.grow` gives out the reserve, and what the adapter asks for comes after it.

use super::counts::{Counts, START};
use super::sections::rewrite;
use wasm_encoder::reencode::{self, Reencode, RoundtripReencoder};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType,
    Instruction, TypeSection, ValType,
};
use wasmparser::{FunctionBody, Operator, Parser, Payload};

/// The section in which Go's linker identifies its output.
const BUILD_ID: &str = "go:buildid";

/// The pages that are tried first: 1 GiB. Then half as many, and so on.
const RESERVE_PAGES: i32 = 16_384;

/// Whether Go has made the module, as a program whose memory nothing but Go manages.
pub(super) fn is_go(module: &[u8]) -> bool {
    let mut is_go = false;
    for payload in Parser::new(0).parse_all(module) {
        match payload {
            Ok(Payload::CustomSection(section)) if section.name() == BUILD_ID => is_go = true,
            Ok(Payload::ExportSection(exports)) => {
                if exports.into_iter().flatten().any(|export| export.name == "cabi_realloc") {
                    return false;
                }
            }
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    is_go
}

impl Counts {
    /// The type of `memory.grow`.
    fn grow_type(self) -> u32 {
        self.types
    }

    /// The type of `_start`.
    fn start_type(self) -> u32 {
        self.types + 1
    }

    fn grow(self) -> u32 {
        self.functions
    }

    fn new_start(self) -> u32 {
        self.functions + 1
    }

    /// The pages that are in use, as Go counts them.
    fn used(self) -> u32 {
        self.globals
    }

    /// The pages in use and reserved; 0 before anything is.
    fn end(self) -> u32 {
        self.globals + 1
    }

    /// Takes pages from the reserve, which the first call makes.
    fn grow_function(self) -> Function {
        let (pages, tried) = (0, 1);
        let mut body = Function::new([(1, ValType::I32)]);
        let mut code = body.instructions();
        code.global_get(self.end()).i32_eqz().if_(BlockType::Empty);
        code.memory_size(0).global_set(self.used()).memory_size(0).global_set(self.end());
        code.i32_const(RESERVE_PAGES).local_set(tried);
        code.block(BlockType::Empty).loop_(BlockType::Empty);
        code.local_get(tried).i32_eqz().br_if(1);
        code.local_get(tried).memory_grow(0).i32_const(-1).i32_ne().if_(BlockType::Empty);
        code.global_get(self.end()).local_get(tried).i32_add().global_set(self.end()).br(2).end();
        code.local_get(tried).i32_const(1).i32_shr_u().local_set(tried).br(0).end().end().end();
        code.local_get(pages).global_get(self.end()).global_get(self.used()).i32_sub().i32_gt_u();
        code.if_(BlockType::Empty).i32_const(-1).return_().end();
        code.global_get(self.used()).global_get(self.used()).local_get(pages).i32_add().global_set(self.used()).end();
        body
    }

    fn start_function(self) -> Function {
        let mut body = Function::new([]);
        body.instructions().i32_const(0).call(self.grow()).drop().call(self.start).end();
        body
    }
}

/// Encodes function bodies anew, with calls in the place of `memory.grow`.
struct Growing(Counts);

impl Reencode for Growing {
    type Error = std::convert::Infallible;

    fn instruction<'a>(&mut self, operator: Operator<'a>) -> Result<Instruction<'a>, reencode::Error<Self::Error>> {
        match operator {
            Operator::MemoryGrow { .. } => Ok(Instruction::Call(self.0.grow())),
            other => reencode::utils::instruction(self, other),
        }
    }
}

/// The same program with a reserve.
pub(super) fn with_reserve(module: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let counts = Counts::of(module)?;
    rewrite(module, |payload, made| {
        match payload {
            Payload::TypeSection(section) => {
                let mut types = TypeSection::new();
                RoundtripReencoder.parse_type_section(&mut types, section.clone())?;
                types.ty().function([ValType::I32], [ValType::I32]);
                types.ty().function([], []);
                made.section(&types);
            }
            Payload::FunctionSection(section) => {
                let mut functions = FunctionSection::new();
                RoundtripReencoder.parse_function_section(&mut functions, section.clone())?;
                functions.function(counts.grow_type()).function(counts.start_type());
                made.section(&functions);
            }
            Payload::GlobalSection(section) => {
                let mut globals = GlobalSection::new();
                RoundtripReencoder.parse_global_section(&mut globals, section.clone())?;
                let of = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
                globals.global(of, &ConstExpr::i32_const(0)).global(of, &ConstExpr::i32_const(0));
                made.section(&globals);
            }
            Payload::ExportSection(section) => {
                let mut exports = ExportSection::new();
                for export in section.clone() {
                    let export = export?;
                    if export.name == START {
                        exports.export(START, ExportKind::Func, counts.new_start());
                    } else {
                        RoundtripReencoder.parse_export(&mut exports, export)?;
                    }
                }
                made.section(&exports);
            }
            Payload::CodeSectionStart { range, .. } => {
                let mut code = CodeSection::new();
                let reader = wasmparser::BinaryReader::new(&module[range.clone()], range.start);
                for body in wasmparser::CodeSectionReader::new(reader)? {
                    let body: FunctionBody<'_> = body?;
                    Growing(counts).parse_function_body(&mut code, body)?;
                }
                code.function(&counts.grow_function()).function(&counts.start_function());
                made.section(&code);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })
}
