//! `limits:` of a component, a step or the defaults.

use super::fields::{Fields, Keys};
use super::meant;
use super::values::{Unit, quantity};
use crate::process::{Limits, Micros};
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::syntax::Node;
use std::collections::BTreeMap;

/// Some limits, by their keys in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LimitsPatch(pub BTreeMap<&'static str, u64>);

const KEYS: &[&str] = &[
    "memory",
    "fuel-per-step",
    "fuel",
    "table-elements",
    "commands-per-step",
    "outstanding",
    "mailbox",
    "payload",
    "output",
    "spawn-depth",
    "processes",
    "links",
    "log-per-step",
    "grace",
];

impl LimitsPatch {
    /// Reads `limits:`.
    pub(super) fn read(node: &Node, problems: &mut Diagnostics) -> Self {
        let mut patch = Self::default();
        let Some(fields) =
            Fields::read(node, &Keys { what: "`limits`", known: KEYS, later: &[], meant: meant::LIMITS }, problems)
        else {
            return patch;
        };
        for key in KEYS {
            let unit = match *key {
                "memory" | "payload" | "output" | "log-per-step" => Unit::Bytes,
                "grace" => Unit::Time,
                _ => Unit::Amount,
            };
            if let Some(value) = fields.get(key).and_then(|node| quantity(node, unit, key, problems)) {
                patch.0.insert(key, value);
            }
        }
        patch
    }

    /// Writes these limits over others.
    pub fn apply(&self, limits: &mut Limits) {
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        for (key, value) in &self.0 {
            let value = *value;
            match *key {
                "memory" => limits.memory_bytes = value,
                "fuel-per-step" => limits.fuel_per_step = value,
                "fuel" => limits.fuel_total = value,
                "table-elements" => limits.table_elements = value,
                "commands-per-step" => limits.commands_per_step = small(value),
                "outstanding" => limits.outstanding = small(value),
                "mailbox" => limits.mailbox = small(value),
                "payload" => limits.payload_bytes = value,
                "output" => limits.output_bytes = value,
                "spawn-depth" => limits.spawn_depth = small(value),
                "processes" => limits.processes = small(value),
                "links" => limits.links = small(value),
                "log-per-step" => limits.log_bytes_per_step = small(value),
                "grace" => limits.grace = Micros(value),
                _ => unreachable!("invariant: only known keys are read"),
            }
        }
    }
}
