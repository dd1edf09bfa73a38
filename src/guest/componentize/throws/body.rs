//! Functions without exceptions.
//!
//! ```text
//! block              a function: what is thrown leads to the end of this block
//!   …
//!   return
//! end
//! 0                  for each result: nothing reads it
//!
//! block (type)       a `try_table`
//!   block            what is thrown leads to the end of this block
//!     …
//!     br 1
//!   end
//!   …                takes the mark away, and branches as its first clause says
//! end
//! ```

use super::{Known, Lowered, OTHER_KIND, Unsupported, unsupported};
use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{BlockType, Function, Instruction, InstructionSink, ValType};
use wasmparser::{AbstractHeapType, Catch, FunctionBody, HeapType, Operator, RefType, TryTable};

/// An open block of the function that is read.
struct Open {
    /// The first clause of a `try_table`, which is two blocks here.
    clause: Option<Catch>,
    /// The labels that this block and those around it have here.
    labels: u32,
}

/// Encodes types and functions anew.
pub(super) struct Lowering<'a> {
    known: &'a Known,
    open: Vec<Open>,
    /// How many blocks were open when each `try_table` that is open began.
    tries: Vec<usize>,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(known: &'a Known) -> Self {
        Self { known, open: Vec::new(), tries: Vec::new() }
    }

    /// A function, by its index among all.
    pub(super) fn body(&mut self, index: u32, body: &FunctionBody<'_>) -> Lowered<Function> {
        self.open.clear();
        self.tries.clear();
        let mut made = self.new_function_with_parsed_locals(body)?;
        let mut operators = body.get_operators_reader()?;
        if !self.known.may_throw(index) {
            while !operators.eof() {
                made.instruction(&self.parse_instruction(&mut operators)?);
            }
            return Ok(made);
        }
        made.instructions().block(BlockType::Empty);
        while !operators.eof() {
            let operator = operators.read()?;
            if operators.eof() {
                made.instructions().return_().end();
                self.zeros(index, &mut made.instructions())?;
            }
            self.operator(operator, &mut made)?;
        }
        Ok(made)
    }

    fn zeros(&mut self, index: u32, code: &mut InstructionSink<'_>) -> Lowered<()> {
        let known = self.known;
        let ty = known.of_function(index).ok_or_else(|| unsupported("a function has no type"))?;
        for result in ty.results() {
            match self.val_type(*result)? {
                ValType::I32 => code.i32_const(0),
                ValType::I64 => code.i64_const(0),
                ValType::F32 => code.f32_const(0.0.into()),
                ValType::F64 => code.f64_const(0.0.into()),
                ValType::V128 => code.v128_const(0),
                ValType::Ref(of) if of.nullable => code.ref_null(of.heap_type),
                ValType::Ref(_) => return Err(unsupported("a function that throws returns a reference")),
            };
        }
        Ok(())
    }

    fn operator(&mut self, operator: Operator<'_>, made: &mut Function) -> Lowered<()> {
        match operator {
            Operator::Throw { tag_index: 0 } | Operator::ThrowRef => {
                let (mark, pointer, label) = (self.known.mark(), self.known.pointer(), self.catching());
                made.instructions().global_set(pointer).i32_const(1).global_set(mark).br(label);
                return Ok(());
            }
            Operator::TryTable { try_table } => return self.try_table(&try_table, made),
            Operator::End => {
                self.end(made);
                return Ok(());
            }
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                let opening = self.instruction(operator)?;
                made.instruction(&opening);
                self.push(None);
                return Ok(());
            }
            Operator::Throw { .. }
            | Operator::Try { .. }
            | Operator::Catch { .. }
            | Operator::CatchAll
            | Operator::Rethrow { .. }
            | Operator::Delegate { .. } => return Err(unsupported(OTHER_KIND)),
            _ => {}
        }
        let may_throw = match &operator {
            Operator::Call { function_index } => self.known.may_throw(*function_index),
            Operator::CallIndirect { .. } | Operator::CallRef { .. } => true,
            _ => false,
        };
        let instruction = match self.instruction(operator)? {
            Instruction::Br(label) => Instruction::Br(self.label(label)),
            Instruction::BrIf(label) => Instruction::BrIf(self.label(label)),
            Instruction::BrOnNull(label) => Instruction::BrOnNull(self.label(label)),
            Instruction::BrOnNonNull(label) => Instruction::BrOnNonNull(self.label(label)),
            Instruction::BrTable(labels, other) => {
                Instruction::BrTable(labels.iter().map(|label| self.label(*label)).collect(), self.label(other))
            }
            other => other,
        };
        made.instruction(&instruction);
        if may_throw {
            let label = self.catching();
            made.instructions().global_get(self.known.mark()).br_if(label);
        }
        Ok(())
    }

    fn try_table(&mut self, table: &TryTable, made: &mut Function) -> Lowered<()> {
        if let wasmparser::BlockType::FuncType(ty) = table.ty
            && self.known.ty(ty).is_none_or(|ty| !ty.params().is_empty())
        {
            return Err(unsupported("a block that catches has parameters"));
        }
        let ty = self.block_type(table.ty)?;
        made.instructions().block(ty);
        // There is one kind of exception: the first clause fits.
        let clause = table.catches.first().copied();
        match clause {
            Some(Catch::One { tag: 1.., .. } | Catch::OneRef { tag: 1.., .. }) => return Err(unsupported(OTHER_KIND)),
            Some(_) => {
                made.instructions().block(BlockType::Empty);
            }
            None => {}
        }
        self.push(clause);
        Ok(())
    }

    fn end(&mut self, made: &mut Function) {
        let mut code = made.instructions();
        if let Some(Open { clause: Some(clause), .. }) = self.open.pop() {
            self.tries.pop();
            let (mark, pointer) = (self.known.mark(), self.known.pointer());
            code.br(1).end().i32_const(0).global_set(mark);
            let label = match clause {
                Catch::One { label, .. } | Catch::AllRef { label } => {
                    code.global_get(pointer);
                    label
                }
                Catch::OneRef { label, .. } => {
                    code.global_get(pointer).global_get(pointer);
                    label
                }
                Catch::All { label } => label,
            };
            // The block of the `try_table` is still open.
            code.br(self.label(label) + 1);
        }
        code.end();
    }

    fn push(&mut self, clause: Option<Catch>) {
        let labels = self.labels(self.open.len()) + if clause.is_some() { 2 } else { 1 };
        if clause.is_some() {
            self.tries.push(self.open.len());
        }
        self.open.push(Open { clause, labels });
    }

    /// The labels that so many blocks have here, from the outermost on.
    fn labels(&self, blocks: usize) -> u32 {
        blocks.checked_sub(1).map_or(0, |last| self.open[last].labels)
    }

    /// The label of a block that is so many blocks outwards in what is read; that of the function
    /// itself if all are.
    fn label(&self, outwards: u32) -> u32 {
        let around = self.open.len().saturating_sub(outwards as usize);
        let within = self.labels(self.open.len()) - self.labels(around);
        match around.checked_sub(1) {
            Some(at) => within + u32::from(self.open[at].clause.is_some()),
            None => within + 1,
        }
    }

    /// The label to which what is thrown here leads.
    fn catching(&self) -> u32 {
        self.labels(self.open.len()) - self.tries.last().map_or(0, |blocks| self.labels(blocks + 1))
    }
}

fn is_exception(of: RefType) -> bool {
    matches!(of.heap_type(), HeapType::Abstract { ty: AbstractHeapType::Exn | AbstractHeapType::NoExn, .. })
}

impl Reencode for Lowering<'_> {
    type Error = Unsupported;

    fn val_type(&mut self, ty: wasmparser::ValType) -> Lowered<ValType> {
        match ty {
            wasmparser::ValType::Ref(of) if is_exception(of) => Ok(ValType::I32),
            other => utils::val_type(self, other),
        }
    }

    fn instruction<'b>(&mut self, operator: Operator<'b>) -> Lowered<Instruction<'b>> {
        match operator {
            Operator::RefNull {
                hty: HeapType::Abstract { ty: AbstractHeapType::Exn | AbstractHeapType::NoExn, .. },
            } => Ok(Instruction::I32Const(0)),
            other => utils::instruction(self, other),
        }
    }
}
