//! From a fresh instance of the engine to one of the script.

use super::{Refusal, Script, ScriptSource};
use crate::guest::binding::{Binding, Returned};
use crate::guest::context::{Context, prepare};
use crate::guest::death::memory_exhausted;
use crate::guest::loaded::Loaded;
use crate::guest::metering::LOAD_FUEL;
use crate::guest::problem::Breach;
use crate::guest::stored;
use crate::process::{Problem, Timestamp, problem::kind};
use std::sync::Arc;
use wasmtime::Store;

/// Makes a fresh instance of the engine one of the script: by the image, or by loading.
pub(in crate::guest) async fn give_birth(
    loaded: &Loaded,
    script: &Script,
    binding: &dyn Binding,
    mut store: Store<Context>,
) -> (Store<Context>, wasmtime::Result<()>) {
    if let Some(birth) = script.birth.get().filter(|_| loaded.has_template()) {
        let fits = birth.memory_bytes() <= store.data().limits().memory_bytes;
        let result = if fits {
            stored::restore_image(&script.engine, &mut store, birth)
        } else {
            Err(Breach(memory_exhausted()).into())
        };
        return (store, result);
    }
    let (store, result) = load(binding, store, &script.sources).await;
    let result = result.and_then(|answer| answer.map_err(|refusal| Breach(problem_of(refusal)).into()));
    let fits = store.data().limiter.is_within_limits();
    (store, result.and_then(|()| if fits { Ok(()) } else { Err(Breach(memory_exhausted()).into()) }))
}

/// Loads the sources into a fresh instance of the engine.
pub(super) async fn load(
    binding: &dyn Binding,
    mut store: Store<Context>,
    sources: &Arc<[ScriptSource]>,
) -> (Store<Context>, wasmtime::Result<Result<(), Refusal>>) {
    prepare(&mut store, Timestamp(0), LOAD_FUEL);
    let own = store.data_mut().begin_load();
    let call = binding.load_script(store, Arc::clone(sources));
    let call = call.expect("invariant: a script is made from a script engine");
    let Returned { mut store, result } = call.await;
    let refused = store.data().limiter.refused();
    store.data_mut().end_load(own);
    let result = match result {
        // What it did instead could differ under other limits.
        Ok(Ok(())) if refused => Ok(Err(Refusal::Wrong(too_much_memory()))),
        result => result,
    };
    (store, result)
}

fn too_much_memory() -> Problem {
    Problem::new(kind::BAD_SCRIPT, "The script needs too much memory to be loaded")
        .with_detail("until an entry point is called, the default limits hold")
}

/// What a refusal is where the sources were accepted before, or nobody can add any.
pub(super) fn problem_of(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Wrong(problem) => problem,
        Refusal::Missing(paths) => Problem::new(kind::BAD_SCRIPT, "The script imports what does not exist")
            .with_detail(format!("there is no {}", paths.join(", "))),
    }
}
