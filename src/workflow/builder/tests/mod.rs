//! Definitions and files side by side.

mod constructs;
mod examples;
mod mistakes;
mod properties;

use super::*;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::expression::{EngineConfig, Jq};
use crate::workflow::plan::{Environment, Handlers, Plan, ResolvedComponent, Unusable, load};
use crate::workflow::syntax::Source;
use std::sync::OnceLock;
use std::time::Duration;

fn jq() -> &'static Jq {
    static JQ: OnceLock<Jq> = OnceLock::new();
    JQ.get_or_init(|| Jq::new(EngineConfig::default()).unwrap())
}

/// Every component is there, and one other file.
struct Files;

impl Environment for Files {
    fn component(&self, _: &str) -> Result<ResolvedComponent, Unusable> {
        Ok(ResolvedComponent::default())
    }

    fn workflow(&self, path: &str) -> Result<Source, Unusable> {
        Ok(Source::new(path, "inputs: { to: string }\nsteps: [{ id: line, set: \"To ${ .inputs.to }\" }]"))
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        None
    }
}

fn read(text: &str) -> Result<Plan, Diagnostics> {
    load(&Source::new("order.yaml", text), jq(), &Files)
}

fn planned(definition: &Definition) -> Plan {
    let text = definition.to_string();
    read(&text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// Fails unless the definition has the plan of the file.
fn assert_same(definition: &Definition, file: &str) {
    let wanted = read(file).unwrap_or_else(|problems| panic!("{problems}"));
    let plan = planned(definition);
    assert_eq!(plan.view(), wanted.view(), "{definition}");
    assert_eq!(plan.to_json(), wanted.to_json(), "{definition}");
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
