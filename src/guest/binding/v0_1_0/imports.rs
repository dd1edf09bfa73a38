//! The interface `host`: all that a guest may ask of its host within a step. Nothing here waits, and nothing reaches outside.

use crate::guest::context::Context;
use crate::process;
use std::sync::Arc;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

pub(super) const HOST: &str = "wfhost:process/host@0.1.0";

/// Types only: there is nothing to call.
pub(super) const TYPES: &str = "wfhost:process/types@0.1.0";

/// Bytes that one call of `random` gives at most: the contract says so.
const RANDOM_BYTES_MAX: u32 = 4096;

#[derive(ComponentType, Lift, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code)] // Its cases are made by the derived `Lift`, from their numbers.
enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

impl From<Level> for process::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::Trace,
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Identity {
    run: Arc<str>,
    pid: u64,
    #[component(name = "next-tag")]
    next_tag: u64,
}

pub(super) fn link(linker: &mut Linker<Context>) -> wasmtime::Result<()> {
    let mut host = linker.instance(HOST)?;
    host.func_wrap(
        "log",
        |mut store: StoreContextMut<'_, Context>, (level, text, fields): (Level, String, Option<String>)| {
            store.data_mut().log(level.into(), text, fields)
        },
    )?;
    host.func_wrap("whoami", |mut store: StoreContextMut<'_, Context>, (): ()| {
        let context = store.data_mut();
        context.count_host_call();
        let (run, pid, next_tag) = (Arc::clone(&context.birth().run), context.birth().pid.0, context.next_tag().0);
        Ok((Identity { run, pid, next_tag },))
    })?;
    host.func_wrap("now", |mut store: StoreContextMut<'_, Context>, (): ()| {
        let context = store.data_mut();
        context.count_host_call();
        Ok((context.now().0,))
    })?;
    host.func_wrap("random", |mut store: StoreContextMut<'_, Context>, (len,): (u32,)| {
        let mut bytes = vec![0; len.min(RANDOM_BYTES_MAX) as usize];
        store.data_mut().random(&mut bytes);
        Ok((bytes,))
    })?;
    Ok(())
}
