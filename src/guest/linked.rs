//! A component in one engine: resolved against its linker, ready to be instantiated.

use super::binding::{self, Binding, Exports};
use super::context::Context;
use super::inspect::Misfit;
use super::metering::INSTANTIATE_FUEL;
use super::offers;
use super::options::EngineOptions;
use super::problem::LoadError;
use super::survey::Survey;
use crate::process::ProcessInit;
use std::sync::Arc;
use wasmtime::Store;
use wasmtime::component::{InstancePre, Linker};

/// A component in one engine, ready to be instantiated.
pub(crate) struct Linked {
    pub(crate) pre: InstancePre<Context>,
    exports: Box<dyn Exports>,
    /// The name of the contract's interface.
    contract: &'static str,
    /// Whether the component passes text in UTF-16.
    transcodes: bool,
}

impl Linked {
    pub(crate) fn new(
        linker: &Linker<Context>,
        component: &wasmtime::component::Component,
        survey: &Survey,
    ) -> Result<Self, LoadError> {
        let pre = instantiate_pre(linker, component, survey)?;
        let contract = binding::contract_of(component)
            .ok_or_else(|| LoadError::Misfit(vec![Misfit::export_missing(binding::CONTRACTS[0].interface(), "")]))?;
        let exports = contract.resolve(&pre).map_err(LoadError::Misfit)?;
        Ok(Self { pre, exports, contract: contract.interface(), transcodes: survey.transcodes })
    }

    /// The name of the interface by which its instances are stepped.
    pub(crate) fn contract(&self) -> &'static str {
        self.contract
    }

    /// Whether the component exports `snapshot`.
    pub(crate) fn exports_snapshot(&self) -> bool {
        self.exports.has_snapshot()
    }

    /// Whether the component exports `script`.
    pub(crate) fn is_script_engine(&self) -> bool {
        self.exports.has_script()
    }

    /// A store for a guest with that init, with all its limits.
    pub(crate) fn store(&self, options: &EngineOptions, init: &Arc<ProcessInit>) -> Store<Context> {
        new_store(self.pre.engine(), options, init, self.transcodes)
    }

    /// Gives the store of an instance that is as good as fresh to the next guest. Its bounds stay:
    /// they derive from the same limits.
    pub(crate) fn renew(&self, store: &mut Store<Context>, options: &EngineOptions, init: &Arc<ProcessInit>) {
        store.data_mut().renew(Arc::clone(init), options, self.transcodes);
    }

    /// Makes the instance, the first thing in its store.
    pub(crate) async fn instantiate(&self, store: &mut Store<Context>) -> wasmtime::Result<Box<dyn Binding>> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        store.data_mut().instantiated();
        self.exports.bind(store, &instance)
    }
}

/// Refuses a component that cannot fit, by the names of its imports and exports: compiling it would
/// take long, and be of no use. Their types are known once it is compiled.
pub(super) fn check_names(survey: &Survey) -> Result<(), LoadError> {
    let unknown = survey.imports.iter().filter(|import| !offers::is_offered_to(import, &survey.exports));
    let mut misfits: Vec<_> = unknown.map(|import| Misfit::import_missing(import)).collect();
    let has = |contract: &&dyn binding::Contract| survey.exports.iter().any(|export| export == contract.interface());
    if !binding::CONTRACTS.iter().any(has) {
        misfits.push(Misfit::export_missing(binding::CONTRACTS[0].interface(), ""));
    }
    if misfits.is_empty() { Ok(()) } else { Err(LoadError::Misfit(misfits)) }
}

/// Resolves a component's imports.
fn instantiate_pre(
    linker: &Linker<Context>,
    component: &wasmtime::component::Component,
    survey: &Survey,
) -> Result<InstancePre<Context>, LoadError> {
    // Cached code may be from a time when other names were offered.
    check_names(survey)?;
    linker.instantiate_pre(component).map_err(|error| LoadError::Misfit(vec![Misfit::import_type(&error)]))
}

/// A store with all its limits set.
pub(super) fn new_store(
    engine: &wasmtime::Engine,
    options: &EngineOptions,
    init: &Arc<ProcessInit>,
    transcodes: bool,
) -> Store<Context> {
    let mut store = Store::new(engine, Context::new(Arc::clone(init), options, transcodes));
    store.limiter(|context| &mut context.limiter);
    store.set_hostcall_fuel(store.data().hostcall_bytes_max());
    store.set_fuel(INSTANTIATE_FUEL).expect("invariant: engines of guests count fuel");
    store.fuel_async_yield_interval(Some(options.slice_fuel.max(1))).expect("invariant: not zero");
    store
}
