//! Servers of tests of executions: answers follow from the place of a call in the workflow, and
//! from how often it was made; and a cache of steps that has what it was given.

use super::{SeenCall, Stage};
use crate::process::{Answer, Json, Payload};
use crate::run::{CachedOutcome, Origin, OutgoingCall, RunSpec};
use crate::testing::faults::{Fault, Faults};
use crate::workflow::interpreter::RETRY;
use crate::workflow::interpreter::tests::reference::place;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What stands in for the answers of a case.
#[derive(Clone)]
pub(in crate::testing) struct Oracle {
    /// The answer to the call of a place, by how many were made there before.
    pub(in crate::testing) answer: fn(place: &str, time: u32) -> Answer,
    /// The run that this one retries.
    pub(in crate::testing) former: Option<Former>,
}

/// A run that another one retries.
#[derive(Clone)]
pub(in crate::testing) struct Former {
    pub(in crate::testing) input: Payload,
    pub(in crate::testing) origin: Origin,
    /// The calls that reached servers.
    pub(in crate::testing) calls: Vec<SeenCall>,
}

impl Stage {
    /// Makes the start of a run that of a retry, if it is one.
    pub(super) fn begins(&self, spec: RunSpec) -> RunSpec {
        let Some(former) = self.oracle.as_ref().and_then(|oracle| oracle.former.clone()) else { return spec };
        RunSpec { entry: RETRY.into(), input: former.input, origin: Some(former.origin), ..spec }
    }
}

/// The scope of a call, which its key ends with.
pub(in crate::testing) fn scope_of(key: &str) -> &str {
    let mut at = key.match_indices('/').map(|(at, _)| at + 1);
    let begins = |at: &usize| key[*at..].starts_with("on.") || key[*at..].starts_with('s');
    &key[at.find(begins).unwrap_or_else(|| panic!("{key}"))..]
}

/// The answer to a call that is new to these.
pub(super) fn answer(oracle: &Oracle, call: &OutgoingCall, calls: &[SeenCall]) -> Answer {
    let at = place(scope_of(&call.idempotency_key));
    let time = calls.iter().filter(|seen| place(scope_of(&seen.key)) == at).count();
    (oracle.answer)(&at, time as u32)
}

/// Whether the host dies. The cache finds nothing then, since what a run has may be lost to it.
pub(in crate::testing) fn may_die(faults: &Faults) -> bool {
    faults.0.iter().any(|fault| matches!(fault, Fault::Crash { .. } | Fault::Lost { .. }))
}

/// Outcomes by their keys.
#[derive(Default)]
pub(super) struct Cache(BTreeMap<Arc<str>, Payload>);

impl Cache {
    pub(super) fn keep(&mut self, outcome: &CachedOutcome) {
        self.0.insert(Arc::clone(&outcome.key.key), outcome.output.clone());
    }

    /// The answer to a question.
    pub(super) fn find(&self, args: &Payload) -> Payload {
        let Payload::Json(args) = args else { return Payload::NULL };
        let args = args.to_value();
        let Some(Payload::Json(output)) = args["key"].as_str().and_then(|key| self.0.get(key)) else {
            return Payload::NULL;
        };
        Payload::Json(Json::from_value(&json!({ "from": { "run": "r0", "at": 1 }, "output": output.to_value() })))
    }
}
