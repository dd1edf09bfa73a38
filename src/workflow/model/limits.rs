//! `limits:` of a component, a step or the defaults.

use super::durations::millis;
use super::fields::{Fields, KnownKeys};
use super::foreign_keys;
use super::values::{Unit, quantity};
use crate::process::{Limits, Micros};
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::syntax::Node;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The limits that one `limits:` sets, by their keys in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LimitsPatch(pub BTreeMap<&'static str, u64>);

/// A limit that a file can set.
pub struct Limit {
    /// The key under `limits:`.
    pub key: &'static str,
    pub(crate) unit: Unit,
    get: fn(&Limits) -> u64,
    set: fn(&mut Limits, u64),
}

/// Every limit that a file can set, in the order in which they are listed.
pub const LIMITS: &[Limit] = &[
    limit("memory", Unit::Bytes, |all| all.memory_bytes, |all, value| all.memory_bytes = value),
    limit("fuel-per-step", Unit::Amount, |all| all.fuel_per_step, |all, value| all.fuel_per_step = value),
    limit("fuel", Unit::Amount, |all| all.fuel_total, |all, value| all.fuel_total = value),
    limit("table-elements", Unit::Amount, |all| all.table_elements, |all, value| all.table_elements = value),
    limit(
        "commands-per-step",
        Unit::Amount,
        |all| all.commands_per_step.into(),
        |all, n| all.commands_per_step = small(n),
    ),
    limit("outstanding", Unit::Amount, |all| all.outstanding.into(), |all, value| all.outstanding = small(value)),
    limit("mailbox", Unit::Amount, |all| all.mailbox.into(), |all, value| all.mailbox = small(value)),
    limit("payload", Unit::Bytes, |all| all.payload_bytes, |all, value| all.payload_bytes = value),
    limit("output", Unit::Bytes, |all| all.output_bytes, |all, value| all.output_bytes = value),
    limit("spawn-depth", Unit::Amount, |all| all.spawn_depth.into(), |all, value| all.spawn_depth = small(value)),
    limit("processes", Unit::Amount, |all| all.processes.into(), |all, value| all.processes = small(value)),
    limit("links", Unit::Amount, |all| all.links.into(), |all, value| all.links = small(value)),
    limit("log-per-step", Unit::Bytes, |all| all.log_bytes_per_step.into(), |all, n| all.log_bytes_per_step = small(n)),
    limit("grace", Unit::Time, |all| all.grace.0, |all, value| all.grace = Micros(value)),
];

const fn limit(key: &'static str, unit: Unit, get: fn(&Limits) -> u64, set: fn(&mut Limits, u64)) -> Limit {
    Limit { key, unit, get, set }
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

const KEYS: &[&str] = &{
    let mut keys = [""; LIMITS.len()];
    let mut index = 0;
    while index < keys.len() {
        keys[index] = LIMITS[index].key;
        index += 1;
    }
    keys
};

pub(super) const LIMIT_KEYS: KnownKeys =
    KnownKeys { what: "`limits`", known: KEYS, later: &[], foreign: foreign_keys::LIMITS };

impl Limit {
    /// Its value as written in a file: `64MiB`, `500M`, `5s`. `None` if there is no bound.
    #[must_use]
    pub fn text(&self, limits: &Limits) -> Option<String> {
        let value = (self.get)(limits);
        (value != u64::MAX).then(|| self.unit.write(value))
    }

    /// Its name with its unit, and its value in that unit: `memory-bytes`, `grace-ms`. Null if
    /// there is no bound.
    #[must_use]
    pub fn number(&self, limits: &Limits) -> (String, Value) {
        let value = (self.get)(limits);
        let (name, number) = match self.unit {
            Unit::Bytes => (format!("{}-bytes", self.key), json!(value)),
            Unit::Amount => (self.key.to_owned(), json!(value)),
            Unit::Time => (format!("{}-ms", self.key), millis(Micros(value))),
        };
        (name, if value == u64::MAX { Value::Null } else { number })
    }

    /// Returns whether it differs from what a step without `limits` has.
    #[must_use]
    pub fn is_set(&self, limits: &Limits) -> bool {
        (self.get)(limits) != (self.get)(&Limits::default())
    }
}

impl LimitsPatch {
    /// Reads `limits:`.
    pub(super) fn read(node: &Node, problems: &mut Diagnostics) -> Self {
        let mut patch = Self::default();
        let Some(fields) = Fields::read(node, &LIMIT_KEYS, problems) else { return patch };
        for limit in LIMITS {
            let value = fields.get(limit.key).and_then(|node| quantity(node, limit.unit, limit.key, problems));
            if let Some(value) = value {
                patch.0.insert(limit.key, value);
            }
        }
        patch
    }

    /// Overrides the given limits with these.
    pub fn apply(&self, limits: &mut Limits) {
        for limit in LIMITS {
            if let Some(value) = self.0.get(limit.key) {
                (limit.set)(limits, *value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_sets_what_it_reads() {
        for limit in LIMITS {
            let mut limits = Limits::default();
            assert!(!limit.is_set(&limits), "{}", limit.key);
            LimitsPatch(BTreeMap::from([(limit.key, 7_000)])).apply(&mut limits);
            let changed: Vec<&str> = LIMITS.iter().filter(|limit| limit.is_set(&limits)).map(|one| one.key).collect();
            assert_eq!(changed, [limit.key]);
            assert_eq!((limit.get)(&limits), 7_000);
        }
    }

    #[test]
    fn limits_are_written_in_their_units() {
        let limits = Limits { memory_bytes: 4 << 20, ..Limits::default() };
        let texts: Vec<_> = LIMITS.iter().filter(|one| one.is_set(&limits)).map(|one| one.text(&limits)).collect();
        assert_eq!(texts, [Some("4MiB".to_owned())]);
        let numbers: serde_json::Map<String, Value> = LIMITS.iter().map(|limit| limit.number(&limits)).collect();
        assert_eq!((&numbers["memory-bytes"], &numbers["fuel"]), (&json!(4 << 20), &Value::Null));
        assert_eq!((&numbers["grace-ms"], &numbers["fuel-per-step"]), (&json!(5000), &json!(1_000_000_000)));
    }
}
