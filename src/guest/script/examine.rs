//! What is learned about a script in throw-away instances: whether its engine accepts it, what it
//! says about itself, and the state after loading.

use super::birth::load;
use super::{Refusal, SOURCE_BYTES_MAX, Script, ScriptError, ScriptSource};
use crate::guest::binding::{Binding, Returned};
use crate::guest::compiler::Cancellation;
use crate::guest::context::{Context, prepare};
use crate::guest::death::{Phase, lost_problem};
use crate::guest::metering::{INSTANTIATE_FUEL, LOAD_FUEL};
use crate::guest::poll::{block_on, block_until};
use crate::guest::sandbox::Sandbox;
use crate::guest::snapshot::{Search, Template};
use crate::process::{Json, Problem, Timestamp, problem::kind};
use wasmtime::Store;

/// What an examination finds.
pub(in crate::guest) struct Findings {
    /// The script's description of itself.
    pub(in crate::guest) description: Result<Option<Json>, Problem>,
    /// Fuel that loading took.
    pub(in crate::guest) fuel: u64,
}

/// Loads the script once, and asks it for its description.
///
/// # Errors
/// Fails if the engine refuses the sources, dies of them, or the caller cancels.
pub(in crate::guest) fn examine(
    sandbox: &Sandbox<'_>,
    script: &Script,
    cancellation: &Cancellation,
) -> Result<Findings, ScriptError> {
    let (store, binding) = instance(sandbox).map_err(ScriptError::Wrong)?;
    let loading = load(&*binding, store, &script.sources);
    let (store, result) = block_until(loading, cancellation).ok_or(ScriptError::Cancelled)?;
    match result {
        Ok(Ok(())) => {}
        Ok(Err(Refusal::Missing(paths))) => return Err(ScriptError::Missing(paths)),
        Ok(Err(Refusal::Wrong(problem))) => return Err(ScriptError::Wrong(problem)),
        Err(error) => {
            let why = lost_problem(&error, store.data(), Phase::Step);
            return Err(ScriptError::Wrong(died(&why)));
        }
    }
    let fuel = LOAD_FUEL.saturating_sub(store.get_fuel().unwrap_or(0));
    Ok(Findings { description: Sandbox::describe_in(store, &*binding), fuel })
}

/// The problem of a script whose engine has died of it.
fn died(why: &Problem) -> Problem {
    if why.kind == kind::BAD_SCRIPT {
        return why.clone();
    }
    Problem::new(kind::BAD_SCRIPT, "The script fails while it is loaded").with_detail(why.to_string())
}

/// Translates a source in a throw-away instance, with the fuel that is left for this.
///
/// # Errors
/// Returns the problem that the engine finds in it, or of which it dies.
pub(in crate::guest) fn translate(
    sandbox: &Sandbox<'_>,
    source: ScriptSource,
    fuel: &mut u64,
) -> Result<String, Problem> {
    let (mut store, binding) = instance(sandbox)?;
    prepare(&mut store, Timestamp(0), *fuel);
    // What comes back is about as long as what went in.
    store.set_hostcall_fuel(2 * SOURCE_BYTES_MAX);
    let _ = store.data_mut().begin_load();
    let call = binding.translate(store, source);
    let Returned { store, result } = block_on(call.expect("invariant: the component is a script engine"));
    *fuel = store.get_fuel().unwrap_or(0);
    result.unwrap_or_else(|error| Err(died(&lost_problem(&error, store.data(), Phase::Step))))
}

/// Learns the state after loading.
///
/// # Errors
/// Says why the script's instances have no common state, or it cannot be known.
pub(in crate::guest) fn template(
    sandbox: &Sandbox<'_>,
    script: &Script,
    component: [u8; 32],
) -> Result<Template, String> {
    let engine = script.engine.template().ok_or("the engine's instances have no images")?;
    let once = || -> Result<_, String> {
        let (store, binding) = instance(sandbox).map_err(|problem| problem.to_string())?;
        let (mut store, result) = block_on(load(&*binding, store, &script.sources));
        if !matches!(result, Ok(Ok(()))) || !store.data_mut().holds_no_state() {
            return Err("the engine does not load it twice".to_owned());
        }
        let handles = engine.bind(&mut store).map_err(|error| error.to_string())?;
        let birth = engine.take(&mut store, &handles, Search::Compare).map_err(|error| error.to_string())?;
        Ok((store, handles, birth))
    };
    let ((mut store, handles, birth), (_, _, other)) = (once()?, once()?);
    if birth.digest() != other.digest() {
        return Err("two instances differ after loading".to_owned());
    }
    let template = engine.after(&mut store, &handles, component).map_err(|error| error.to_string())?;
    // A template is only used once both are there.
    let _ = script.birth.set(birth);
    Ok(template)
}

/// A throw-away instance of the engine.
fn instance(sandbox: &Sandbox<'_>) -> Result<(Store<Context>, Box<dyn Binding>), Problem> {
    let mut store = sandbox.store();
    prepare(&mut store, Timestamp(0), INSTANTIATE_FUEL);
    match block_on(sandbox.linked().instantiate(&mut store)) {
        Ok(binding) => Ok((store, binding)),
        Err(error) => Err(lost_problem(&error, store.data(), Phase::Instantiation)),
    }
}
