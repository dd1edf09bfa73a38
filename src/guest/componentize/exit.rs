//! Exit codes. The adapter of WASI tells a program's host only whether it has failed. So programs
//! call `proc_exit` of an adapter of our own, which passes the code on.

use super::sections::rewrite;
use std::borrow::Cow;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};
use wasm_encoder::reencode::{Reencode as _, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, CustomSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, ImportSection,
    Module, TypeSection, ValType,
};
use wasmparser::Payload;
use wit_component::{StringEncoding, metadata};

/// The name under which modules import from it.
pub(super) const ADAPTER: &str = "wfhost_exit";

const PROC_EXIT: &str = "proc_exit";

/// The interface of WASI, in the version of the other adapter.
pub(super) const EXIT: &str = "wasi:cli/exit@0.2.12";

/// The largest code of a process. A larger one stands for it: none becomes a success.
const CODE_MAX: i32 = 255;

/// The module, with `proc_exit` imported from [`ADAPTER`], and without descriptions of components.
pub(super) fn redirected(module: &[u8]) -> wasmtime::Result<Cow<'_, [u8]>> {
    let mut found = false;
    let redirected = rewrite(module, |payload, made| {
        if is_description(payload) {
            found = true;
            return Ok(true);
        }
        let Payload::ImportSection(section) = payload else { return Ok(false) };
        let mut imports = ImportSection::new();
        for import in section.clone().into_imports() {
            let mut import = import?;
            if (import.module, import.name) == (WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, PROC_EXIT) {
                import.module = ADAPTER;
                found = true;
            }
            RoundtripReencoder.parse_import(&mut imports, import)?;
        }
        made.section(&imports);
        Ok(true)
    })?;
    Ok(if found { Cow::from(redirected) } else { Cow::from(module) })
}

/// Whether a section describes components. A program needs none, and a hostile one could make the
/// encoder read anything.
fn is_description(payload: &Payload<'_>) -> bool {
    matches!(payload, Payload::CustomSection(section) if section.name().starts_with("component-type"))
}

/// The adapter: a module, with the world of the other adapter, of which it uses one function.
pub(super) fn adapter() -> wasmtime::Result<Vec<u8>> {
    let described = metadata::decode(WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER);
    let (_, mut described) = described.map_err(|error| wasmtime::format_err!("{error:#}"))?;
    described.resolve.worlds[described.world].exports.clear();
    let world = metadata::encode(&described.resolve, described.world, StringEncoding::UTF8, None);
    let world = world.map_err(|error| wasmtime::format_err!("{error:#}"))?;

    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], []);
    let mut imports = ImportSection::new();
    imports.import(EXIT, "exit-with-code", EntityType::Function(0));
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut exports = ExportSection::new();
    exports.export(PROC_EXIT, ExportKind::Func, 1);
    let mut body = Function::new([]);
    body.instructions()
        .local_get(0)
        .i32_const(CODE_MAX)
        .local_get(0)
        .i32_const(CODE_MAX)
        .i32_le_u()
        .select()
        .call(0)
        .unreachable()
        .end();
    let mut code = CodeSection::new();
    code.function(&body);
    let mut adapter = Module::new();
    adapter.section(&types).section(&imports).section(&functions).section(&exports).section(&code);
    adapter.section(&CustomSection { name: "component-type:exit".into(), data: world.into() });
    Ok(adapter.finish())
}
