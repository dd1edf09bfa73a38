//! Finds state that memories and globals do not hold, in the bytes of a component, without running
//! it.
//!
//! The rule for instructions is an allow-list, by proposal, so an instruction that nobody thought
//! of is refused. A start function does the same to tables and segments at every instantiation, so
//! what it does is allowed if nothing else can run that function: it is not exported, not
//! referenced and not called.

use super::verdict::{Reason, Refusal, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentDefinedType, ComponentType, ComponentTypeDeclaration,
    ComponentTypeRef, CompositeInnerType, ConstExpr, Element, ElementItems, Encoding, ExternalKind, FunctionBody,
    GlobalType, InstanceTypeDeclaration, MemoryType, Operator, OperatorsReader, Parser, Payload, RecGroup, TableInit,
    TableType, TypeBounds, TypeRef, ValType,
};

/// Why bytes cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The bytes cannot be parsed.
    #[error("the component is malformed: {0}")]
    Malformed(#[from] wasmparser::BinaryReaderError),
    /// The bytes are a core module alone.
    #[error("these are the bytes of a core module, not of a component")]
    CoreModule,
    /// Types are nested too deep.
    #[error("the types of the component may nest too deep")]
    TooDeep,
}

/// The most bytes in one section of types that may open a nested type. The parser recurses once for
/// each level of nesting, and has no bound of its own. Arbitrary: far beyond real components, far
/// below what fits a stack of 2 MiB.
const NESTING_BYTES_MAX: usize = 1_000;

/// Decides whether memories and globals are all the state of this component's instances.
///
/// The verdict is meaningful for bytes that the engine accepts as a component. For any others it is
/// an error or meaningless.
///
/// # Errors
/// Fails if the bytes cannot be parsed as a component.
pub fn check(bytes: &[u8]) -> Result<Verdict, CheckError> {
    let mut scan = Scan::default();
    for payload in Parser::new(0).parse_all(bytes) {
        scan.payload(payload?, bytes)?;
    }
    Ok(scan.verdict())
}

/// Reasons so far, each with its number of occurrences and the first module that has it.
#[derive(Default)]
struct Findings(BTreeMap<Reason, (u32, Option<u32>)>);

impl Findings {
    fn add(&mut self, reason: Reason, module: Option<u32>) {
        let (count, _) = self.0.entry(reason).or_insert((0, module));
        *count = count.saturating_add(1);
    }
}

#[derive(Default)]
struct Scan {
    findings: Findings,
    counts: Verdict,
    module: Option<ModuleScan>,
    begun: bool,
}

/// The core module being read.
#[derive(Default)]
struct ModuleScan {
    index: u32,
    functions: u32,
    start: Option<u32>,
    /// Functions that are exported or referenced.
    reachable: BTreeSet<u32>,
    start_called: bool,
    /// What only the start function may do.
    of_start: Vec<Reason>,
}

impl Scan {
    fn payload(&mut self, payload: Payload<'_>, bytes: &[u8]) -> Result<(), CheckError> {
        match payload {
            Payload::Version { encoding, .. } if !self.begun => {
                self.begun = true;
                if encoding != Encoding::Component {
                    return Err(CheckError::CoreModule);
                }
            }
            Payload::ModuleSection { .. } => {
                self.module = Some(ModuleScan { index: self.counts.modules, ..ModuleScan::default() });
                self.counts.modules += 1;
            }
            Payload::End(_) => self.end_module(),
            Payload::ComponentTypeSection(section) => {
                let range = section.range();
                let opening = bytes.get(range).unwrap_or_default().iter().filter(|byte| matches!(byte, 0x41 | 0x42));
                if opening.count() > NESTING_BYTES_MAX {
                    return Err(CheckError::TooDeep);
                }
                for ty in section {
                    self.component_type(&ty?);
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import?;
                    self.component_extern(import.name.name, import.ty);
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section {
                    self.canonical(&function?);
                }
            }
            Payload::ComponentStartSection { .. } => self.found(Reason::Builtin("start".into())),
            other => self.module_payload(other)?,
        }
        Ok(())
    }

    fn module_payload(&mut self, payload: Payload<'_>) -> Result<(), CheckError> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    self.types(group?);
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    self.import(import?.ty);
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    let table = table?;
                    self.counts.tables += 1;
                    self.table(table.ty);
                    if let TableInit::Expr(expression) = table.init {
                        self.constant(&expression)?;
                    }
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    self.counts.memories += 1;
                    self.memory(memory?);
                }
            }
            Payload::TagSection(section) => {
                for tag in section {
                    tag?;
                    self.found(Reason::ExceptionTag);
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let global = global?;
                    self.counts.mutable_globals += u32::from(global.ty.mutable);
                    self.global(global.ty);
                    self.constant(&global.init_expr)?;
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    if matches!(export.kind, ExternalKind::Func | ExternalKind::FuncExact) {
                        self.reach(export.index);
                    }
                }
            }
            Payload::StartSection { func, .. } => {
                self.counts.start_functions += 1;
                if let Some(module) = &mut self.module {
                    module.start = Some(func);
                }
            }
            Payload::ElementSection(section) => {
                for element in section {
                    self.element(element?)?;
                }
            }
            Payload::CodeSectionEntry(body) => self.body(&body)?,
            // Everything else has no state: data, names, aliases, instances, exports of the
            // component.
            _ => {}
        }
        Ok(())
    }

    fn found(&mut self, reason: Reason) {
        let module = self.module.as_ref().map(|module| module.index);
        self.findings.add(reason, module);
    }

    fn reach(&mut self, function: u32) {
        if let Some(module) = &mut self.module {
            module.reachable.insert(function);
        }
    }

    fn end_module(&mut self) {
        let Some(module) = self.module.take() else { return };
        let only_started = !module.start_called && module.start.is_some_and(|start| !module.reachable.contains(&start));
        if !only_started {
            for reason in module.of_start {
                self.findings.add(reason, Some(module.index));
            }
        }
    }

    fn verdict(mut self) -> Verdict {
        // Bytes that end within a module are a parser error. This keeps the verdict safe without
        // relying on that.
        self.end_module();
        let refusals = self.findings.0.into_iter();
        let refusals = refusals.map(|(reason, (count, module))| Refusal { reason, count, module }).collect();
        Verdict { refusals, ..self.counts }
    }

    fn types(&mut self, group: RecGroup) {
        for ty in group.into_types() {
            if !matches!(ty.composite_type.inner, CompositeInnerType::Func(_)) {
                self.found(Reason::HeapType);
            }
            if ty.composite_type.shared {
                self.found(Reason::Shared);
            }
        }
    }

    fn import(&mut self, ty: TypeRef) {
        match ty {
            TypeRef::Func(_) | TypeRef::FuncExact(_) => {
                if let Some(module) = &mut self.module {
                    module.functions = module.functions.saturating_add(1);
                }
            }
            TypeRef::Table(ty) => self.table(ty),
            TypeRef::Memory(ty) => self.memory(ty),
            TypeRef::Global(ty) => self.global(ty),
            TypeRef::Tag(_) => self.found(Reason::ExceptionTag),
        }
    }

    fn table(&mut self, ty: TableType) {
        if !ty.element_type.is_func_ref() {
            self.found(Reason::ReferenceTable);
        }
        if ty.shared {
            self.found(Reason::Shared);
        }
    }

    fn memory(&mut self, ty: MemoryType) {
        if ty.shared {
            self.found(Reason::Shared);
        }
        if ty.page_size_log2.is_some_and(|log2| log2 != 16) {
            self.found(Reason::PageSize);
        }
    }

    fn global(&mut self, ty: GlobalType) {
        if ty.mutable && matches!(ty.content_type, ValType::Ref(_)) {
            self.found(Reason::ReferenceGlobal);
        }
        if ty.shared {
            self.found(Reason::Shared);
        }
    }

    fn element(&mut self, element: Element<'_>) -> Result<(), CheckError> {
        match element.items {
            ElementItems::Functions(functions) => {
                for function in functions {
                    self.reach(function?);
                }
            }
            ElementItems::Expressions(_, expressions) => {
                for expression in expressions {
                    self.constant(&expression?)?;
                }
            }
        }
        Ok(())
    }

    fn constant(&mut self, expression: &ConstExpr<'_>) -> Result<(), CheckError> {
        self.operators(expression.get_operators_reader(), false)
    }

    fn body(&mut self, body: &FunctionBody<'_>) -> Result<(), CheckError> {
        let Some(module) = &mut self.module else { return Ok(()) };
        let function = module.functions;
        module.functions = module.functions.saturating_add(1);
        let is_start = module.start == Some(function);
        self.operators(body.get_operators_reader()?, is_start)
    }

    fn operators(&mut self, mut operators: OperatorsReader<'_>, is_start: bool) -> Result<(), CheckError> {
        while !operators.eof() {
            let operator = operators.read()?;
            match operator {
                Operator::RefFunc { function_index } => self.reach(function_index),
                Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                    if let Some(module) = &mut self.module {
                        module.start_called |= module.start == Some(function_index);
                    }
                }
                _ => {}
            }
            if let Some(name) = changes_hidden_state(&operator) {
                let reason = Reason::Instruction(name.into());
                match &mut self.module {
                    // Whether a table grows depends on the limits of the guest.
                    Some(module) if is_start && !matches!(operator, Operator::TableGrow { .. }) => {
                        module.of_start.push(reason);
                    }
                    _ => self.found(reason),
                }
            } else if let Some(proposal) = proposal_refused(&operator) {
                self.found(Reason::Proposal(proposal.into()));
            }
        }
        Ok(())
    }

    fn canonical(&mut self, function: &CanonicalFunction) {
        match function {
            CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
                for option in options {
                    match option {
                        CanonicalOption::Async | CanonicalOption::Callback(_) => self.found(Reason::Asynchronous),
                        CanonicalOption::Gc => self.found(Reason::HeapType),
                        _ => {}
                    }
                }
            }
            other => {
                // The reader needs only the name of the variant.
                let name = format!("{other:?}");
                let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
                self.found(Reason::Builtin(name.into()));
            }
        }
    }

    fn component_type(&mut self, ty: &ComponentType<'_>) {
        match ty {
            ComponentType::Resource { .. } => self.found(Reason::Resource("of its own".into())),
            ComponentType::Func(function) if function.async_ => self.found(Reason::Asynchronous),
            ComponentType::Func(_) => {}
            ComponentType::Defined(ComponentDefinedType::Future(_) | ComponentDefinedType::Stream(_)) => {
                self.found(Reason::Stream);
            }
            ComponentType::Defined(_) => {}
            ComponentType::Component(declarations) => {
                for declaration in declarations {
                    match declaration {
                        ComponentTypeDeclaration::Type(ty) => self.component_type(ty),
                        ComponentTypeDeclaration::Export { name, ty } => self.component_extern(name.name, *ty),
                        ComponentTypeDeclaration::Import(import) => self.component_extern(import.name.name, import.ty),
                        ComponentTypeDeclaration::CoreType(_) | ComponentTypeDeclaration::Alias(_) => {}
                    }
                }
            }
            ComponentType::Instance(declarations) => {
                for declaration in declarations {
                    match declaration {
                        InstanceTypeDeclaration::Type(ty) => self.component_type(ty),
                        InstanceTypeDeclaration::Export { name, ty } => self.component_extern(name.name, *ty),
                        InstanceTypeDeclaration::CoreType(_) | InstanceTypeDeclaration::Alias(_) => {}
                    }
                }
            }
        }
    }

    fn component_extern(&mut self, name: &str, ty: ComponentTypeRef) {
        match ty {
            ComponentTypeRef::Type(TypeBounds::SubResource) => self.found(Reason::Resource(bounded(name))),
            ComponentTypeRef::Module(_) | ComponentTypeRef::Component(_) => self.found(Reason::ImportedCode),
            _ => {}
        }
    }
}

/// Bytes of a name in a reason: names come from hostile bytes. Arbitrary.
const NAME_BYTES_MAX: usize = 100;

fn bounded(name: &str) -> String {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].into()
}

/// The name of an instruction that changes a table or drops a segment: neither can be read from
/// outside.
///
/// `memory.init` is not among them: it changes only memory.
fn changes_hidden_state(operator: &Operator<'_>) -> Option<&'static str> {
    Some(match operator {
        Operator::TableSet { .. } => "table.set",
        Operator::TableGrow { .. } => "table.grow",
        Operator::TableFill { .. } => "table.fill",
        Operator::TableCopy { .. } => "table.copy",
        Operator::TableInit { .. } => "table.init",
        Operator::ElemDrop { .. } => "elem.drop",
        Operator::DataDrop { .. } => "data.drop",
        Operator::MemoryAtomicWait32 { .. } => "memory.atomic.wait32",
        Operator::MemoryAtomicWait64 { .. } => "memory.atomic.wait64",
        Operator::MemoryAtomicNotify { .. } => "memory.atomic.notify",
        _ => return None,
    })
}

/// Whether the instructions of a proposal work on the stack, memories and numeric globals only,
/// apart from those of [`changes_hidden_state`].
macro_rules! is_allowed {
    (mvp) => {
        true
    };
    (sign_extension) => {
        true
    };
    (saturating_float_to_int) => {
        true
    };
    (bulk_memory) => {
        true
    };
    (reference_types) => {
        true
    };
    (tail_call) => {
        true
    };
    (threads) => {
        true
    };
    (simd) => {
        true
    };
    (relaxed_simd) => {
        true
    };
    (function_references) => {
        true
    };
    (wide_arithmetic) => {
        true
    };
    ($other:ident) => {
        false
    };
}

fn proposal_refused(operator: &Operator<'_>) -> Option<&'static str> {
    macro_rules! refused {
        ($(@$proposal:ident $op:ident $({ $($arg:ident: $argty:ty),* })? => $visit:ident ($($ann:tt)*))*) => {
            match operator {
                $(Operator::$op { .. } => if is_allowed!($proposal) { None } else { Some(stringify!($proposal)) },)*
                // The enumeration may grow.
                _ => Some("unknown"),
            }
        };
    }
    wasmparser::for_each_operator!(refused)
}
