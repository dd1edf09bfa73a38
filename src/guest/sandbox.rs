//! Throw-away instances: for a component's own description, and for the state of its fresh
//! instances.
//!
//! They live outside the pool, so that they take none of its slots, in the engine that allocates on
//! demand and collects core dumps. It runs the very same compiled code.

use super::binding::{Binding, Returned};
use super::context::Context;
use super::death::{Phase, lost_problem};
use super::linked::Linked;
use super::metering::{DESCRIBE_FUEL, INSTANTIATE_FUEL};
use super::options::EngineOptions;
use super::poll::block_on;
use super::snapshot::{Template, Unfit};
use crate::process::{Grants, Json, Limits, Payload, Pid, Problem, ProcessInit, Tag, problem::kind};
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

    /// The component.
    pub(crate) fn linked(&self) -> &Linked {
        self.linked
    }

    /// A store for one more instance.
    pub(crate) fn store(&self) -> Store<Context> {
        self.linked.store(self.options, &Arc::new(throw_away_init()))
    }

    /// Learns what snapshots need to know.
    pub(crate) fn template(&self, component: [u8; 32]) -> Result<Template, Unfit> {
        Template::probe(&self.linked.pre, component, || Ok(self.store()))
    }

    /// The component's own description; `None` if it has no such export.
    pub(crate) fn describe(&self) -> Result<Option<Json>, Problem> {
        let mut store = self.store();
        store.set_fuel(INSTANTIATE_FUEL).expect("invariant: engines of guests count fuel");
        match block_on(self.linked.instantiate(&mut store)) {
            Ok(binding) => Self::describe_in(store, &*binding),
            Err(error) => Err(lost_problem(&error, store.data(), Phase::Instantiation)),
        }
    }

    /// The description that an instance gives.
    pub(crate) fn describe_in(mut store: Store<Context>, binding: &dyn Binding) -> Result<Option<Json>, Problem> {
        store.set_fuel(DESCRIBE_FUEL).expect("invariant: engines of guests count fuel");
        let Some(call) = binding.describe(store) else { return Ok(None) };
        let Returned { store, result } = block_on(call);
        let text = result.map_err(|error| lost_problem(&error, store.data(), Phase::Step))?;
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
        holder: "".into(),
        pid: Pid::ROOT,
        seed: [0; 32],
        entry: "".into(),
        input: Payload::NULL,
        limits: Arc::new(limits),
        grants: Grants::default(),
        next_tag: Tag(1),
        is_anonymous: false,
    }
}
