//! Throw-away instances: for a component's own description, and for the state of its fresh
//! instances.
//!
//! They live outside the pool, so that they take none of its slots, in the engine that allocates on
//! demand and collects core dumps. It runs the very same compiled code.

use super::binding::{self, Returned};
use super::context::Context;
use super::death::{Phase, classify};
use super::linked::Linked;
use super::metering::{DESCRIBE_FUEL, INSTANTIATE_FUEL};
use super::options::EngineOptions;
use super::poll::block_on;
use super::snapshot::{Template, Unfit};
use crate::process::{Death, Grants, Json, Limits, Payload, Pid, Problem, ProcessInit, Tag, problem::kind};
use std::sync::Arc;
use wasmtime::Store;

/// Bytes of a description. Arbitrary.
const DESCRIPTION_BYTES_MAX: u64 = 256 << 10;

/// A component in the engine of throw-away instances.
pub(crate) struct Sandbox<'a> {
    linked: &'a Linked,
    options: &'a EngineOptions,
}

impl<'a> Sandbox<'a> {
    /// `linked` is the component in the engine without a pool.
    pub(crate) fn new(linked: &'a Linked, options: &'a EngineOptions) -> Self {
        Self { linked, options }
    }

    fn store(&self) -> Store<Context> {
        self.linked.store(self.options, &Arc::new(throw_away_init()))
    }

    /// Learns what snapshots need to know.
    pub(crate) fn template(&self, component: [u8; 32]) -> Result<Template, Unfit> {
        Template::probe(&self.linked.pre, component, || Ok(self.store()))
    }

    /// The component's own description; `None` if it has no such export.
    pub(crate) fn describe(&self) -> Result<Option<Json>, Problem> {
        let Some(contract) = binding::contract_of(self.linked.pre.component()) else { return Ok(None) };
        let mut store = self.store();
        store.set_fuel(INSTANTIATE_FUEL).expect("invariant: engines of guests count fuel");
        let died = |error, store: &Store<Context>, phase| match classify(&error, store.data(), phase) {
            Death::Guest(problem) | Death::Lost(problem) | Death::Host(problem) => problem,
        };
        let instance = match block_on(self.linked.pre.instantiate_async(&mut store)) {
            Ok(instance) => instance,
            Err(error) => return Err(died(error, &store, Phase::Instantiation)),
        };
        store.set_fuel(DESCRIBE_FUEL).expect("invariant: engines of guests count fuel");
        let Some(call) = contract.describe(store, &instance) else { return Ok(None) };
        let Returned { store, result } = block_on(call);
        let text = result.map_err(|error| died(error, &store, Phase::Step))?;
        Json::parse(text).map(Some).map_err(|error| {
            Problem::new(kind::BAD_JSON, "The component's description is not JSON").with_detail(error.to_string())
        })
    }
}

/// The init of a throw-away instance.
fn throw_away_init() -> ProcessInit {
    let limits = Limits { output_bytes: DESCRIPTION_BYTES_MAX, ..Limits::default() };
    ProcessInit {
        run: "sandbox".into(),
        pid: Pid::ROOT,
        seed: [0; 32],
        entry: "".into(),
        input: Payload::NULL,
        limits: Arc::new(limits),
        grants: Grants::default(),
        next_tag: Tag(1),
    }
}
