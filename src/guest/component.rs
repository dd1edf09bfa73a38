//! A component: from bytes to something that guests are made of.

use super::binding::{self, Binding, Exports};
use super::body::Guest;
use super::context::Context;
use super::engine::{EngineOptions, GuestEngine};
use super::inspect::Misfit;
use super::metering::INSTANTIATE_FUEL;
use super::offers;
use super::problem::LoadError;
use super::survey::{BYTES_MAX, Survey};
use crate::process::{Birth, Body, Permit, Problem, Program};
use std::sync::Arc;
use wasmtime::Store;
use wasmtime::component::{InstancePre, Linker};

/// A compiled component that fits the contract. Cloning it is cheap.
#[derive(Clone)]
pub struct Component {
    loaded: Arc<Loaded>,
}

/// What all guests of a component share.
pub(crate) struct Loaded {
    engine: Arc<GuestEngine>,
    digest: Arc<str>,
    pre: InstancePre<Context>,
    exports: Box<dyn Exports>,
    permit: Permit,
    survey: Survey,
}

impl Component {
    /// Checks and compiles a component, or takes its compiled code from the cache.
    ///
    /// It is slow where the code is not cached: not for a worker.
    ///
    /// # Errors
    /// Where it is too large, not valid, or does not fit the contract: every misfit is named.
    pub fn load(engine: &Arc<GuestEngine>, bytes: &[u8]) -> Result<Self, LoadError> {
        if bytes.len() > BYTES_MAX {
            return Err(LoadError::TooLarge { bytes: bytes.len(), bytes_max: BYTES_MAX });
        }
        let hash = blake3::hash(bytes);
        let survey = || Survey::of(bytes).map(|survey| survey.to_bytes());
        let (component, note) = engine.cache().load_or_compile(engine.engine(), bytes, &hash, survey)?;
        let survey = Survey::from_bytes(&note).map_or_else(|| Survey::of(bytes), Ok)?;
        let pre = instantiate_pre(engine.linker(), &component, &survey)?;
        let contract = binding::contract_of(&component)
            .ok_or_else(|| LoadError::Misfit(vec![Misfit::export_missing(binding::CONTRACTS[0].interface(), "")]))?;
        let exports = contract.resolve(&pre).map_err(LoadError::Misfit)?;
        let permit = permit(&component, &survey);
        let digest = format!("blake3:{}", hash.to_hex()).into();
        Ok(Self { loaded: Arc::new(Loaded { engine: Arc::clone(engine), digest, pre, exports, permit, survey }) })
    }
}

impl Component {
    /// What it consists of.
    pub fn survey(&self) -> &Survey {
        &self.loaded.survey
    }
}

impl Program for Component {
    fn permit(&self) -> Permit {
        self.loaded.permit
    }

    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.loaded.digest)
    }

    fn body(&self, birth: Birth) -> Result<Box<dyn Body>, Problem> {
        Ok(Box::new(Guest::new(Arc::clone(&self.loaded), birth)))
    }
}

impl Loaded {
    /// A store for a guest of that birth, with all its limits.
    pub(crate) fn store(&self, birth: &Arc<Birth>) -> Store<Context> {
        new_store(self.pre.engine(), self.engine.options(), birth)
    }

    /// Makes the instance, the first thing in its store.
    pub(crate) async fn instantiate(&self, store: &mut Store<Context>) -> wasmtime::Result<Box<dyn Binding>> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        self.exports.bind(store, &instance)
    }
}

/// Resolves a component's imports.
fn instantiate_pre(
    linker: &Linker<Context>,
    component: &wasmtime::component::Component,
    survey: &Survey,
) -> Result<InstancePre<Context>, LoadError> {
    let unknown: Vec<_> = survey
        .imports
        .iter()
        .filter(|import| !offers::is_offered(import))
        .map(|import| Misfit::import_missing(import))
        .collect();
    if !unknown.is_empty() {
        return Err(LoadError::Misfit(unknown));
    }
    linker.instantiate_pre(component).map_err(|error| LoadError::Misfit(vec![Misfit::import_type(&error)]))
}

/// What a guest takes of the pool.
fn permit(component: &wasmtime::component::Component, survey: &Survey) -> Permit {
    // Only components that import modules or components have no answer, and none such is ever linked.
    let resources = component.resources_required();
    let (memories, tables) = resources.map_or((0, 0), |resources| (resources.num_memories, resources.num_tables));
    Permit { instances: 1, core_instances: u32::try_from(survey.core_instances).unwrap_or(u32::MAX), memories, tables }
}

/// A store with all its limits set.
fn new_store(engine: &wasmtime::Engine, options: &EngineOptions, birth: &Arc<Birth>) -> Store<Context> {
    let output_bytes = usize::try_from(birth.limits.output_bytes).unwrap_or(usize::MAX);
    let mut store = Store::new(engine, Context::new(Arc::clone(birth), options));
    store.limiter(|context| &mut context.limiter);
    store.set_hostcall_fuel(output_bytes);
    store.set_fuel(INSTANTIATE_FUEL).expect("invariant: engines of guests count fuel");
    store.fuel_async_yield_interval(Some(options.slice_fuel.max(1))).expect("invariant: not zero");
    store
}
