//! The versions of the contract, each behind one trait.
//!
//! The variants of the component model are closed: a variant with one more case is another type,
//! and a component built against the older one no longer instantiates. So each version that was
//! ever published has a binding of its own here, and a component selects it by the name of the
//! interface that it exports.

mod v0_1_0;

use super::context::Context;
use super::inspect::Misfit;
use super::script::{Refusal, ScriptSource};
use crate::process::{Command, Event, Payload, Problem, Status};
use std::pin::Pin;
use std::sync::Arc;
use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre, Linker};

/// All versions, the newest first.
pub(crate) const CONTRACTS: &[&dyn Contract] = &[&v0_1_0::V0_1_0];

/// One version of the contract.
pub(crate) trait Contract: Send + Sync {
    /// The name of the interface that a guest exports.
    fn interface(&self) -> &'static str;

    /// The names of the interfaces that the version offers to guests.
    fn imports(&self) -> &'static [&'static str];

    /// Adds the version's imports to a linker.
    fn link(&self, linker: &mut Linker<Context>) -> wasmtime::Result<()>;

    /// Finds the exports of a component and checks their types, once.
    ///
    /// # Errors
    /// Returns each export that is missing or has another type.
    fn resolve(&self, pre: &InstancePre<Context>) -> Result<Box<dyn Exports>, Vec<Misfit>>;

    /// The name of the interface that a script engine exports.
    fn script_interface(&self) -> &'static str;

    /// The name of the interface that is offered to script engines only.
    fn engine_interface(&self) -> &'static str;
}

/// The exports of one component, from which bindings are made.
pub(crate) trait Exports: Send + Sync {
    /// Binds the functions of an instance.
    fn bind(&self, store: &mut Store<Context>, instance: &Instance) -> wasmtime::Result<Box<dyn Binding>>;

    /// Whether the guest encodes its state itself: [`Binding::save`] and [`Binding::load`] exist.
    fn has_snapshot(&self) -> bool;

    /// Whether the component is a script engine: [`Binding::load_script`] and
    /// [`Binding::translate`] exist.
    fn has_script(&self) -> bool;
}

/// The result of a call. It returns the store, whatever happened.
pub(crate) struct Returned<T> {
    pub(crate) store: Store<Context>,
    pub(crate) result: wasmtime::Result<T>,
}

/// A call in flight. It owns the store, so it can be held from one slice to the next without
/// borrowing from its owner.
pub(crate) type Call<T> = Pin<Box<dyn Future<Output = Returned<T>> + Send>>;

/// What `step` returned, in the host's types.
pub(crate) struct Outcome {
    pub(crate) status: Status,
    pub(crate) commands: Vec<Command>,
}

/// The functions of one instance.
pub(crate) trait Binding: Send + Sync {
    /// Calls `describe`. `None` if the instance does not export it with the contract's type.
    fn describe(&self, store: Store<Context>) -> Option<Call<String>>;

    /// Calls `init`.
    fn init(&self, store: Store<Context>, entry: String, input: Payload) -> Call<Result<(), Problem>>;

    /// Calls `step`.
    fn step(&self, store: Store<Context>, events: Vec<Event>) -> Call<Outcome>;

    /// Calls `close`.
    fn close(&self, store: Store<Context>) -> Call<()>;

    /// Calls `save` of the optional interface `snapshot`. `None` if the guest does not export it.
    fn save(&self, store: Store<Context>) -> Option<Call<Result<Vec<u8>, Problem>>>;

    /// Calls `load` of the same interface.
    fn load(&self, store: Store<Context>, state: Vec<u8>) -> Option<Call<Result<(), Problem>>>;

    /// Calls `load` of the interface `script`. `None` if the guest is no script engine.
    fn load_script(&self, store: Store<Context>, sources: Arc<[ScriptSource]>) -> Option<Call<Result<(), Refusal>>>;

    /// Calls `translate` of the same interface.
    fn translate(&self, store: Store<Context>, source: ScriptSource) -> Option<Call<Result<String, Problem>>>;
}

/// The contract whose interface a component exports.
pub(crate) fn contract_of(component: &Component) -> Option<&'static dyn Contract> {
    CONTRACTS.iter().copied().find(|contract| component.get_export_index(None, contract.interface()).is_some())
}
