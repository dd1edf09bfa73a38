//! The interface `host`: everything that a guest may ask of its host within a step. Nothing here
//! waits, and nothing reaches outside.

use crate::guest::context::{Context, settle};
use crate::guest::problem::Breach;
use crate::process::{self, Influences, Json, NUMBER_MAX, Problem, problem::kind};
use std::borrow::Cow;
use std::sync::Arc;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower, WasmStr};

pub(super) const HOST: &str = "wfhost:process/host@0.1.0";

/// For script engines only.
pub(super) const ENGINE: &str = "wfhost:process/engine@0.1.0";

/// Types only: there is nothing to call.
pub(super) const TYPES: &str = "wfhost:process/types@0.1.0";

/// Fuel for each byte of a text that is not in UTF-8, in addition to the cost of logging it.
/// Estimated: see `cargo bench --bench guests -- slices`.
const TRANSCODE_BYTE_FUEL: u64 = 6;

/// What a random byte costs.
const RANDOM_BYTE_FUEL: u64 = 40;

/// Bytes that one call of `random` returns at most, as the contract says.
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
    host.func_wrap_async("log", |store, params| Box::new(log(store, params)))?;
    host.func_wrap_async("random", |store, params| Box::new(random(store, params)))?;
    host.func_wrap_async("whoami", |store, (): ()| Box::new(whoami(store)))?;
    host.func_wrap_async("now", |store, (): ()| Box::new(now(store)))?;
    let mut engine = linker.instance(ENGINE)?;
    engine.func_wrap_async("fuel-left", |store, (): ()| Box::new(fuel_left(store)))?;
    Ok(())
}

/// Tells what is left after paying for the host's work so far.
async fn fuel_left(mut store: StoreContextMut<'_, Context>) -> wasmtime::Result<(u64,)> {
    store.data_mut().count_host_call();
    settle(&mut store).await?;
    let left = store.get_fuel()?.saturating_sub(store.data().work.owed());
    Ok((left.min(NUMBER_MAX),))
}

/// Refuses what would make the state of a loaded script depend on more than its sources.
fn refuse_while_loading(store: &StoreContextMut<'_, Context>, what: &str) -> wasmtime::Result<()> {
    if !store.data().is_loading() {
        return Ok(());
    }
    let problem = Problem::new(kind::BAD_SCRIPT, "The script cannot do this while it is loaded");
    Err(Breach(problem.with_detail(format!("it asks the host for {what}; do that in an entry point"))).into())
}

async fn whoami(mut store: StoreContextMut<'_, Context>) -> wasmtime::Result<(Identity,)> {
    refuse_while_loading(&store, "its identity")?;
    store.data_mut().count_host_call();
    settle(&mut store).await?;
    let context = store.data_mut();
    if context.init().is_anonymous {
        return Ok((Identity { run: Arc::default(), pid: 0, next_tag: context.next_tag().0 },));
    }
    context.influenced(Influences::IDENTITY);
    let (run, pid, next_tag) = (Arc::clone(&context.init().run), context.init().pid.0, context.next_tag().0);
    Ok((Identity { run, pid, next_tag },))
}

async fn now(mut store: StoreContextMut<'_, Context>) -> wasmtime::Result<(u64,)> {
    store.data_mut().count_host_call();
    settle(&mut store).await?;
    Ok((store.data_mut().now().0,))
}

/// Writes a line, or counts it as dropped if the step has no room for it.
async fn log(
    mut store: StoreContextMut<'_, Context>,
    (level, text, fields): (Level, WasmStr, Option<WasmStr>),
) -> wasmtime::Result<()> {
    refuse_while_loading(&store, "its log")?;
    let mut bytes = 0;
    // The engine limits both together to the size of a step's output before anything is read.
    for text in std::iter::once(&text).chain(&fields) {
        let text = text.to_str(&store)?;
        bytes += text.len();
        // A guest with UTF-16 has made the host transcode the text.
        let transcoded = matches!(text, Cow::Owned(_)).then_some(text.len() as u64);
        store.data_mut().work.charge(transcoded.unwrap_or(0) * TRANSCODE_BYTE_FUEL);
    }
    if store.data_mut().log_room(bytes) {
        let fields =
            fields.map(|fields| Ok::<_, wasmtime::Error>(parse_fields(&fields.to_str(&store)?)?)).transpose()?;
        let line = process::LogLine { level: level.into(), text: text.to_str(&store)?.into_owned(), fields };
        store.data_mut().log(line);
    }
    settle(&mut store).await
}

fn parse_fields(text: &str) -> Result<Json, Breach> {
    let bad = |detail: String| {
        Breach(Problem::new(kind::BAD_JSON, "The fields of a log line are not a JSON object").with_detail(detail))
    };
    let json = Json::parse(text.to_owned()).map_err(|error| bad(error.to_string()))?;
    if text.trim_start().starts_with('{') { Ok(json) } else { Err(bad("they must be an object".into())) }
}

async fn random(mut store: StoreContextMut<'_, Context>, (len,): (u32,)) -> wasmtime::Result<(Vec<u8>,)> {
    refuse_while_loading(&store, "random numbers")?;
    let mut bytes = vec![0; len.min(RANDOM_BYTES_MAX) as usize];
    store.data_mut().random(&mut bytes);
    store.data_mut().work.charge(bytes.len() as u64 * RANDOM_BYTE_FUEL);
    settle(&mut store).await?;
    Ok((bytes,))
}
