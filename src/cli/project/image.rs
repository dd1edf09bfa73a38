//! The image of a program after its start, as Wizer makes it (<https://github.com/bytecodealliance/wizer>):
//! the start runs once, when the program is built, and its memory and globals become the module's
//! own. A process of it begins where the start has ended.

use crate::guest::rewrite;
use wasm_encoder::reencode::{Reencode as _, RoundtripReencoder};
use wasm_encoder::{ConstExpr, DataCountSection, DataSection, ExportKind, ExportSection, GlobalSection, MemorySection};
use wasmparser::{DataKind, ExternalKind, Parser, Payload, TypeRef};
use wasmtime::error::Context as _;
use wasmtime::{Caller, Engine, Extern, Func, Instance, Result, Store, Val, bail, ensure};

/// What is called, in this order, and exported no longer. A module has the second if more of it can
/// be done in advance.
const STARTS: [&str; 2] = ["_initialize", "preinit"];

/// The names under which the globals of the module that runs are exported.
const GLOBAL: &str = "wfhost-image-global-";

/// Zeros that are worth another segment: what one takes, and some.
const GAP: usize = 16;

/// Segments that a module may have: the validator's bound is 100,000.
const SEGMENTS_MAX: usize = 50_000;

/// The module as it is after its start. `wasi` answers what it asks for meanwhile.
///
/// # Errors
/// Fails if the start traps, or asks for anything else, or leaves state that no module can begin
/// with.
pub(super) fn after_start(module: &[u8], wasi: &[u8]) -> Result<Vec<u8>> {
    let mutable = mutable_globals(module)?;
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let running = wasmtime::Module::new(&engine, &with_globals(module, &mutable)?)?;
    let instance = instantiate(&mut store, &running, &wasmtime::Module::new(&engine, wasi)?)?;
    for start in STARTS {
        if let Ok(start) = instance.get_typed_func::<(), ()>(&mut store, start) {
            start.call(&mut store, ())?;
        }
    }
    let memory = instance.get_memory(&mut store, "memory").context("there is no memory")?;
    let mut globals = Vec::new();
    for global in mutable {
        let held = instance.get_global(&mut store, &format!("{GLOBAL}{global}")).context("a global is gone")?;
        globals.push((global, constant(&held.get(&mut store))?));
    }
    with_state(module, memory.data(&store), &globals)
}

/// The globals that the module defines and can change.
fn mutable_globals(module: &[u8]) -> Result<Vec<u32>> {
    let mut mutable = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(section) => {
                let is_state = |ty: &TypeRef| !matches!(ty, TypeRef::Func(_) | TypeRef::FuncExact(_));
                for import in section.into_imports() {
                    ensure!(!is_state(&import?.ty), "it imports state");
                }
            }
            Payload::GlobalSection(section) => {
                for (at, global) in (0..).zip(section) {
                    mutable.extend(global?.ty.mutable.then_some(at));
                }
            }
            Payload::StartSection { .. } => bail!("it has a start function"),
            Payload::DataSection(section) => {
                for data in section {
                    ensure!(matches!(data?.kind, DataKind::Active { memory_index: 0, .. }), "it has passive data");
                }
            }
            _ => {}
        }
    }
    Ok(mutable)
}

/// The module with these globals exported.
fn with_globals(module: &[u8], globals: &[u32]) -> Result<Vec<u8>> {
    rewrite(module, |payload, made| {
        let Payload::ExportSection(section) = payload else { return Ok(false) };
        let mut exports = ExportSection::new();
        RoundtripReencoder.parse_export_section(&mut exports, section.clone())?;
        for global in globals {
            exports.export(&format!("{GLOBAL}{global}"), ExportKind::Global, *global);
        }
        made.section(&exports);
        Ok(true)
    })
}

/// An instance whose imports of WASI are answered by a module that works on its memory.
fn instantiate(store: &mut Store<()>, module: &wasmtime::Module, wasi: &wasmtime::Module) -> Result<Instance> {
    let answers = std::sync::Arc::new(std::sync::OnceLock::<Instance>::new());
    let mut imports = Vec::new();
    for import in module.imports() {
        let ty = import.ty().func().context("it imports state")?.clone();
        let (answers, name) = (std::sync::Arc::clone(&answers), import.name().to_owned());
        let is_wasi = import.module() == "wasi_snapshot_preview1";
        let answer = move |mut caller: Caller<'_, ()>, args: &[Val], results: &mut [Val]| {
            let answer = answers.get().filter(|_| is_wasi).and_then(|wasi| wasi.get_func(&mut caller, &name));
            match answer {
                Some(answer) => answer.call(&mut caller, args, results),
                None => Err(wasmtime::format_err!("its start calls `{name}`")),
            }
        };
        imports.push(Extern::from(Func::new(&mut *store, ty, answer)));
    }
    let instance = Instance::new(&mut *store, module, &imports)?;
    let mut imports = Vec::new();
    for import in wasi.imports() {
        let wanted = match import.ty().func() {
            None => instance.get_export(&mut *store, import.name()).context("there is no memory")?,
            Some(ty) => {
                let refused = format!("its start calls `{}`", import.name());
                let refuse = move |_: Caller<'_, ()>, _: &[Val], _: &mut [Val]| Err(wasmtime::format_err!("{refused}"));
                Func::new(&mut *store, ty.clone(), refuse).into()
            }
        };
        imports.push(wanted);
    }
    let _ = answers.set(Instance::new(&mut *store, wasi, &imports)?);
    Ok(instance)
}

fn constant(value: &Val) -> Result<ConstExpr> {
    Ok(match value {
        Val::I32(value) => ConstExpr::i32_const(*value),
        Val::I64(value) => ConstExpr::i64_const(*value),
        Val::F32(bits) => ConstExpr::f32_const(f32::from_bits(*bits).into()),
        Val::F64(bits) => ConstExpr::f64_const(f64::from_bits(*bits).into()),
        _ => bail!("a global holds a reference"),
    })
}

/// The module with that state in the place of its own, and without the functions of its start.
fn with_state(module: &[u8], memory: &[u8], globals: &[(u32, ConstExpr)]) -> Result<Vec<u8>> {
    let segments = segments(memory);
    ensure!(segments.len() <= SEGMENTS_MAX, "its memory has too many parts");
    rewrite(module, |payload, made| {
        match payload {
            Payload::MemorySection(section) => {
                let mut memories = MemorySection::new();
                for memory_type in section.clone() {
                    let mut memory_type = RoundtripReencoder.memory_type(memory_type?)?;
                    memory_type.minimum = memory.len() as u64 >> 16;
                    memories.memory(memory_type);
                }
                ensure!(memories.len() == 1, "it has {} memories", memories.len());
                made.section(&memories);
            }
            Payload::GlobalSection(section) => {
                let mut section_made = GlobalSection::new();
                for (at, global) in (0..).zip(section.clone()) {
                    match globals.iter().find(|(number, _)| *number == at) {
                        Some((_, value)) => {
                            section_made.global(RoundtripReencoder.global_type(global?.ty)?, value);
                        }
                        None => RoundtripReencoder.parse_global(&mut section_made, global?)?,
                    }
                }
                made.section(&section_made);
            }
            Payload::ExportSection(section) => {
                let mut exports = ExportSection::new();
                for export in section.clone() {
                    let export = export?;
                    if export.kind != ExternalKind::Func || !STARTS.contains(&export.name) {
                        RoundtripReencoder.parse_export(&mut exports, export)?;
                    }
                }
                made.section(&exports);
            }
            Payload::DataCountSection { .. } => {
                made.section(&DataCountSection { count: segments.len() as u32 });
            }
            Payload::DataSection(_) => {
                let mut data = DataSection::new();
                for (at, bytes) in &segments {
                    data.active(0, &ConstExpr::i32_const((*at as u32).cast_signed()), bytes.iter().copied());
                }
                made.section(&data);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// The parts of a memory that are not zero, with their addresses.
fn segments(memory: &[u8]) -> Vec<(usize, &[u8])> {
    let mut segments = Vec::new();
    let mut at = 0;
    while let Some(start) = memory[at..].iter().position(|byte| *byte != 0).map(|more| at + more) {
        let mut end = start;
        while let Some(more) = memory[end..].iter().take(GAP).position(|byte| *byte != 0) {
            end += more + 1;
        }
        segments.push((start, &memory[start..end]));
        at = end;
    }
    segments
}
