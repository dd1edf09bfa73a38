//! From core modules to components.

mod counts;
mod exit;
mod go;
mod sections;
mod throws;

pub(crate) use sections::rewrite;

use super::problem::LoadError;
use super::survey::{BYTES_MAX, Survey};
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};
use wasm_encoder::{Component, ComponentSectionId, RawSection};
use wit_component::ComponentEncoder;

/// Bytes of the file of a program. What is beyond the bound on components can be names of functions
/// and what debuggers read: Yosys has 20 MiB of these.
pub const PROGRAM_BYTES_MAX: usize = 128 << 20;

/// What makes components of modules. When it changes, so do they.
const MAKER: [&str; 7] = [
    include_str!("mod.rs"),
    include_str!("counts.rs"),
    include_str!("exit.rs"),
    include_str!("go.rs"),
    include_str!("sections.rs"),
    include_str!("throws/mod.rs"),
    include_str!("throws/body.rs"),
];

/// The name in the cache of the compiled code of what [`command`] makes of this module. So a module
/// that is there need not be adapted: that takes a second for the largest.
pub(super) fn key(module: &[u8]) -> blake3::Hash {
    let mut key = blake3::Hasher::new();
    key.update(env!("CARGO_PKG_VERSION").as_bytes()).update(WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER);
    for source in MAKER {
        key.update(source.as_bytes());
    }
    key.update(blake3::hash(module).as_bytes()).finalize()
}

/// Makes the component of a program for WASI preview 1: a core module that exports `_start`.
///
/// # Errors
/// Fails if the module is too large, not valid, or imports something else.
pub(super) fn command(module: &[u8]) -> Result<Vec<u8>, LoadError> {
    if module.len() > PROGRAM_BYTES_MAX {
        return Err(LoadError::TooLarge { bytes: module.len(), bytes_max: PROGRAM_BYTES_MAX });
    }
    let module = if module.len() > BYTES_MAX { stripped(module)? } else { Cow::from(module) };
    // What is bounded in components is bounded here too, before anything else reads the module.
    let mut wrapped = Component::new();
    wrapped.section(&RawSection { id: ComponentSectionId::CoreModule as u8, data: &module });
    Survey::of(&wrapped.finish())?;
    guarded(|| {
        let (module, exit) = prepared(&module).map_err(|error| format!("{error:#}"))?;
        let encoder = ComponentEncoder::default()
            .module(&module)
            .and_then(|encoder| {
                encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER)
            })
            .and_then(|encoder| encoder.adapter(exit::ADAPTER, &exit));
        encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| format!("{error:#}"))
    })
}

/// A large module without what does not run.
fn stripped(module: &[u8]) -> Result<Cow<'_, [u8]>, LoadError> {
    let stripped = sections::without_custom(module).map_err(|error| LoadError::Malformed(format!("{error:#}")))?;
    if stripped.len() > BYTES_MAX {
        return Err(LoadError::TooLarge { bytes: stripped.len(), bytes_max: BYTES_MAX });
    }
    Ok(Cow::from(stripped))
}

/// The module as it is adapted, and the adapter of its exit code.
fn prepared(module: &[u8]) -> wasmtime::Result<(Cow<'_, [u8]>, Vec<u8>)> {
    let module = exit::redirected(module)?;
    let module = if throws::has_exceptions(&module) { Cow::from(throws::lowered(&module)?) } else { module };
    let module = if go::is_go(&module) { Cow::from(go::with_reserve(&module)?) } else { module };
    Ok((module, exit::adapter()?))
}

/// The encoder is made for the output of tool chains: what it does not foresee in a hostile module
/// may be a panic, which is caught.
fn guarded(encode: impl FnOnce() -> Result<Vec<u8>, String>) -> Result<Vec<u8>, LoadError> {
    match std::panic::catch_unwind(AssertUnwindSafe(encode)) {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(error)) => Err(LoadError::Malformed(error)),
        Err(_) => Err(LoadError::Malformed("no component can be made of the module".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PROGRAM: &str = r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (func (export "_start") (call $exit (i32.const 3))))"#;

    const CATCHES: &str = r#"(module
        (memory (export "memory") 1) (tag $e (param i32))
        (func $f (param i32) (result i64) (if (local.get 0) (then (local.get 0) (throw $e))) (i64.const 1))
        (func (export "_start") (local exnref)
            (block $caught (result i32 exnref)
                (try_table (catch_ref $e $caught) (drop (call $f (i32.const 2))))
                return)
            (local.set 0) drop (throw_ref (local.get 0))))"#;

    fn module(text: &str) -> Vec<u8> {
        wat::parse_str(text).expect("a module")
    }

    #[test]
    fn a_program_calls_our_own_adapter_to_exit() {
        let component = command(&module(PROGRAM)).unwrap();
        let survey = Survey::of(&component).unwrap();
        assert!(survey.exports.iter().any(|export| export.starts_with("wasi:cli/run@0.2")), "{:?}", survey.exports);
        assert!(survey.imports.iter().any(|import| import == exit::EXIT), "{:?}", survey.imports);
        assert_eq!(component, command(&module(PROGRAM)).unwrap());
        let catches = command(&module(CATCHES)).unwrap();
        assert!(wasmtime::component::Component::new(&wasmtime::Engine::default(), catches).is_ok());
    }

    #[test]
    fn what_is_imported_from_elsewhere_is_refused() {
        for text in [
            r#"(module (import "env" "f" (func)) (memory (export "memory") 1) (func (export "_start")))"#,
            r#"(module (import "wasi_snapshot_preview1" "f" (func)) (memory (export "memory") 1) (func (export "_start")))"#,
        ] {
            assert!(matches!(command(&module(text)), Err(LoadError::Malformed(_))));
        }
    }

    /// Descriptions of components are for tool chains: nothing decodes those of a program.
    #[test]
    fn a_description_that_a_module_brings_is_not_read() {
        let mut described = module(PROGRAM);
        let section = wasm_encoder::CustomSection { name: "component-type:x".into(), data: b"none"[..].into() };
        wasm_encoder::Section::append_to(&section, &mut described);
        assert_eq!(command(&described).unwrap(), command(&module(PROGRAM)).unwrap());
    }

    /// What does not run is not counted.
    #[test]
    fn a_large_module_is_adapted_without_its_names() {
        let mut named = module(PROGRAM);
        let large = vec![0; BYTES_MAX];
        let section = wasm_encoder::CustomSection { name: ".debug_info".into(), data: large.as_slice().into() };
        wasm_encoder::Section::append_to(&section, &mut named);
        let bare = sections::without_custom(&module(PROGRAM)).unwrap();
        assert!(command(&named).unwrap() == command(&bare).unwrap());
        let mut data = wasm_encoder::DataSection::new();
        data.passive(large);
        let mut large = module(PROGRAM);
        wasm_encoder::Section::append_to(&data, &mut large);
        assert!(matches!(command(&large), Err(LoadError::TooLarge { bytes_max: BYTES_MAX, .. })));
        named.resize(PROGRAM_BYTES_MAX + 1, 0);
        assert!(matches!(command(&named), Err(LoadError::TooLarge { bytes_max: PROGRAM_BYTES_MAX, .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn damaged_modules_are_survived(
            at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(), throws in any::<bool>()
        ) {
            let mut bytes = module(if throws { CATCHES } else { PROGRAM });
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if cut {
                bytes.truncate(at);
            }
            let _ = command(&bytes);
        }
    }
}
