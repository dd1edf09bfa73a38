//! Bounds on what one process may use. All are on by default; each has its own kind of problem.

use super::Micros;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What one process may use.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of all linear memories together.
    pub memory_bytes: u64,
    /// Elements of all tables together.
    pub table_elements: u64,
    /// Fuel of one step; about one unit an instruction.
    pub fuel_per_step: u64,
    /// Fuel of all steps together.
    pub fuel_total: u64,
    /// Commands of one step.
    pub commands_per_step: u32,
    /// Commands without an answer at one time.
    pub outstanding: u32,
    /// Bytes of the inputs and arguments of all commands without an answer.
    pub outstanding_bytes: u64,
    /// Messages that wait in the mailbox.
    pub mailbox: u32,
    /// Bytes of all messages that wait in the mailbox.
    pub mailbox_bytes: u64,
    /// Bytes of one payload.
    pub payload_bytes: u64,
    /// Bytes of the whole output of one step: commands, payloads, names, log lines. In one call a
    /// guest passes at most 3 MiB beside its largest payload, or that payload alone if its text is
    /// in UTF-16.
    pub output_bytes: u64,
    /// How deep below the root a process may be.
    pub spawn_depth: u32,
    /// Living processes of the run.
    pub processes: u32,
    /// Links, monitors and names that a process may have.
    pub links: u32,
    /// Bytes of log that a step may write; the rest is dropped and counted.
    pub log_bytes_per_step: u32,
    /// How long a process may go on after a cancel.
    pub grace: Micros,
}

impl Default for Limits {
    // All arbitrary but `payload_bytes`, which is what a host without a blob store carries.
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            table_elements: 100_000,
            fuel_per_step: 1_000_000_000,
            fuel_total: u64::MAX,
            commands_per_step: 10_000,
            outstanding: 10_000,
            outstanding_bytes: 64 << 20,
            mailbox: 10_000,
            mailbox_bytes: 64 << 20,
            payload_bytes: 1 << 20,
            output_bytes: 16 << 20,
            spawn_depth: 64,
            processes: 100_000,
            links: 10_000,
            log_bytes_per_step: 64 << 10,
            grace: Micros(5_000_000),
        }
    }
}

/// What a process may ask of handlers: for each capability a list of patterns that the capability's
/// handlers understand. Nothing else is granted.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Grants(pub Arc<BTreeMap<String, Vec<String>>>);

impl Grants {
    /// The patterns of a capability; none if it is not granted at all.
    #[must_use]
    pub fn of(&self, capability: &str) -> Option<&[String]> {
        self.0.get(capability).map(Vec::as_slice)
    }
}

/// Where an instance is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Allocation {
    /// In a slot of the pool.
    #[default]
    Pool,
    /// Outside the pool, in memory of its own.
    OnDemand,
}

/// What an instance takes: pooled resources if it lives in the pool, memory if it lives outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permit {
    /// Instances: 1 for a guest, 0 for a native process.
    pub instances: u32,
    /// Core instances within it.
    pub core_instances: u32,
    /// Linear memories.
    pub memories: u32,
    /// Tables.
    pub tables: u32,
    /// Bytes that it takes at most, outside the pool.
    pub bytes: u64,
}

/// Bytes of an element of a table.
const TABLE_ELEMENT_BYTES: u64 = 8;

/// Bytes that an instance outside the pool counts beside its memories and tables: its stack and the
/// engine's structures. Arbitrary, and large enough that a budget of gigabytes does not need more
/// kernel maps than the machine gives.
const INSTANCE_BYTES: u64 = 4 << 20;

impl Permit {
    /// What a native process takes: nothing.
    pub const NONE: Self = Self { instances: 0, core_instances: 0, memories: 0, tables: 0, bytes: 0 };

    /// Whether it takes nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// The same for a process of these limits, which say what it takes outside the pool.
    #[must_use]
    pub fn within(self, limits: &Limits) -> Self {
        if self.is_none() {
            return self;
        }
        let tables = limits.table_elements.saturating_mul(TABLE_ELEMENT_BYTES);
        Self { bytes: limits.memory_bytes.saturating_add(tables).saturating_add(INSTANCE_BYTES), ..self }
    }
}
