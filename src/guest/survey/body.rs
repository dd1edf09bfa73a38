//! What compiling a function costs beyond its number of bytes.
//!
//! The value of a local is carried along each branch to where it may be another, and through each
//! loop. So the cost of a function grows with its locals times its branches, and with its locals
//! times the loops around them; and the cost of each branch grows with the other branches to the
//! same place. The cost of a call or a block grows with the values that it takes and returns,
//! however few bytes it has.

use super::{at_most, malformed};
use crate::guest::problem::{FunctionLocation, LoadError};
use wasmparser::{BlockType, CompositeInnerType, FunctionBody, Operator, Payload, TypeRef};

/// Bytes of one function's body: compiling takes more than linear time in it. Python guests have
/// 430,000 in one.
const BYTES_MAX: u64 = 1 << 20;

/// Locals of a function times its depth of loops. Measured: 100 locals in 100 loops take 0.1 s, 200
/// in 200 take 5 s. The largest known has 813.
const LOOP_LOCALS_MAX: u64 = 32_768;

/// Locals times branches of a function. Measured: 5 million take up to 12 s, in 12 KB. A guest of
/// 48 MiB has 9.4 million (Yosys, with a branch after each call in the place of exceptions), all
/// others at most 350,000. So a larger component may have more, as it may be compiled for longer.
const BRANCH_LOCALS_MAX: u64 = 4_000_000;
const BRANCH_LOCALS_PER_MIB: u64 = 150_000;

/// Values that the calls and blocks of a function take and return. Measured: 10 million take
/// minutes. The largest known has 8,000.
const VALUES_MAX: u64 = 100_000;

/// Parameters and locals of all functions together: each costs something, and 50,000 of them are
/// declared in 4 bytes. JavaScript guests have 52,000.
const LOCALS_MAX: u64 = 1_000_000;

/// The squares of the numbers of branches of each function, added up. Measured: 20,000 branches to
/// one place take 6 s, four times as long as half of them. Python guests have 340 million, most of
/// it in one function with 15,900 branches.
const BRANCHES_SQUARED_MAX: u64 = 4_000_000_000;

/// Sums over all functions of a component.
pub(super) struct Totals {
    /// The most locals times branches of a function.
    branch_locals_max: u64,
    locals: u64,
    branches_squared: u64,
}

impl Totals {
    /// For a component of so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let branch_locals_max = BRANCH_LOCALS_MAX + (bytes >> 20) * BRANCH_LOCALS_PER_MIB;
        Self { branch_locals_max, locals: 0, branches_squared: 0 }
    }

    fn add(&mut self, locals: u64, branches: u64) -> Result<(), LoadError> {
        self.locals = self.locals.saturating_add(locals);
        self.branches_squared = self.branches_squared.saturating_add(branches.saturating_mul(branches));
        at_most("locals of all functions together", self.locals, LOCALS_MAX)?;
        at_most(
            "branches and targets of branch tables, squared for each function and added up",
            self.branches_squared,
            BRANCHES_SQUARED_MAX,
        )
    }
}

/// The core module being read.
pub(super) struct Module {
    index: u64,
    /// Values that a function of each type takes and returns.
    types: Vec<Values>,
    /// The types of its functions, imported ones first.
    functions: Vec<u32>,
    /// The number of its functions whose body has been read.
    bodies: usize,
    /// The number of imported functions.
    imported: usize,
}

#[derive(Clone, Copy, Default)]
struct Values {
    params: u64,
    all: u64,
}

impl Module {
    pub(super) fn new(index: u64) -> Self {
        Self { index, types: Vec::new(), functions: Vec::new(), bodies: 0, imported: 0 }
    }

    /// Reads a section that comes before the bodies.
    pub(super) fn payload(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section.clone() {
                    for ty in group.map_err(malformed)?.into_types() {
                        let values = match &ty.composite_type.inner {
                            CompositeInnerType::Func(ty) => {
                                let params = ty.params().len() as u64;
                                Values { params, all: params + ty.results().len() as u64 }
                            }
                            _ => Values::default(),
                        };
                        self.types.push(values);
                    }
                }
            }
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    if let TypeRef::Func(ty) | TypeRef::FuncExact(ty) = import.map_err(malformed)?.ty {
                        self.functions.push(ty);
                        self.imported += 1;
                    }
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section.clone() {
                    self.functions.push(ty.map_err(malformed)?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the next body.
    pub(super) fn body(&mut self, body: &FunctionBody<'_>, totals: &mut Totals) -> Result<(), LoadError> {
        let function = self.imported + self.bodies;
        self.bodies += 1;
        let location = FunctionLocation { module: self.index, function: function as u64 };
        let here = |what: &'static str, count: u64, count_max: u64| {
            at_most(what, count, count_max).map_err(|error| error.at(location))
        };
        here("bytes", body.range().len() as u64, BYTES_MAX)?;
        let mut locals = self.of_function(function as u32).params;
        for group in body.get_locals_reader().map_err(malformed)? {
            locals = locals.saturating_add(group.map_err(malformed)?.0.into());
        }
        let cost = self.cost(body)?;
        here("values that its calls and blocks take and return", cost.values, VALUES_MAX)?;
        here("locals times levels of loops", locals.saturating_mul(cost.loops_deep), LOOP_LOCALS_MAX)?;
        here("locals times branches", locals.saturating_mul(cost.branches), totals.branch_locals_max)?;
        totals.add(locals, cost.branches)
    }

    fn cost(&self, body: &FunctionBody<'_>) -> Result<Cost, LoadError> {
        let mut cost = Cost::default();
        // The open blocks: whether each is a loop.
        let mut open = Vec::new();
        let mut loops = 0;
        let mut operators = body.get_operators_reader().map_err(malformed)?;
        while !operators.eof() {
            let operator = operators.read().map_err(malformed)?;
            match &operator {
                Operator::Loop { .. } => {
                    loops += 1;
                    cost.loops_deep = cost.loops_deep.max(loops);
                    open.push(true);
                }
                Operator::Block { .. } | Operator::If { .. } | Operator::TryTable { .. } => open.push(false),
                Operator::End => loops -= u64::from(open.pop() == Some(true)),
                Operator::BrTable { targets } => cost.branches += u64::from(targets.len()) + 1,
                _ => {}
            }
            cost.branches += u64::from(branches(&operator));
            cost.values = cost.values.saturating_add(self.values(&operator));
        }
        Ok(cost)
    }

    /// Values that a call or a block takes and returns.
    fn values(&self, operator: &Operator<'_>) -> u64 {
        match operator {
            Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                self.of_function(*function_index).all
            }
            Operator::CallIndirect { type_index, .. }
            | Operator::ReturnCallIndirect { type_index, .. }
            | Operator::CallRef { type_index }
            | Operator::ReturnCallRef { type_index } => self.of_type(*type_index).all,
            Operator::Block { blockty: BlockType::FuncType(ty) }
            | Operator::Loop { blockty: BlockType::FuncType(ty) }
            | Operator::If { blockty: BlockType::FuncType(ty) } => self.of_type(*ty).all,
            Operator::TryTable { try_table } => match try_table.ty {
                BlockType::FuncType(ty) => self.of_type(ty).all,
                _ => 0,
            },
            _ => 0,
        }
    }

    fn of_function(&self, function: u32) -> Values {
        self.functions.get(function as usize).map_or_else(Values::default, |ty| self.of_type(*ty))
    }

    fn of_type(&self, ty: u32) -> Values {
        self.types.get(ty as usize).copied().unwrap_or_default()
    }
}

#[derive(Default)]
struct Cost {
    /// The deepest nesting of loops.
    loops_deep: u64,
    /// Branches, and targets of branch tables.
    branches: u64,
    values: u64,
}

/// Whether an instruction leads to a place other than the next instruction. Branch tables are
/// counted by their targets.
fn branches(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::TryTable { .. }
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrOnNull { .. }
            | Operator::BrOnNonNull { .. }
    )
}
