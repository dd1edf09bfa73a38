//! The first record of a run: what it began with.

use super::former_keys::FormerKeys;
use super::wire::{Damaged, Source, Wire, put_number, unknown};
use crate::process::{Grants, Limits, Payload, Timestamp};
use std::sync::Arc;

/// What a run began with.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Started {
    /// The id of the run.
    pub run: Arc<str>,
    /// The key of its random streams.
    pub seed: [u8; 32],
    /// When it began, in microseconds since 1970.
    pub at: Timestamp,
    /// The digest of the root's program.
    pub root: Arc<str>,
    /// Names and digests of the programs that its processes may spawn, in the order of the names.
    pub programs: Vec<(Arc<str>, Arc<str>)>,
    /// The root's entry point.
    pub entry: Arc<str>,
    /// The root's input.
    pub input: Payload,
    /// The root's limits.
    pub limits: Limits,
    /// The root's grants.
    pub grants: Grants,
    /// What all processes together may hold.
    pub bounds: Bounds,
    /// The run that it was made from, if it is a fork or a repetition.
    pub origin: Option<Origin>,
}

/// The run that another one was made from.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Origin {
    /// The id of that run.
    pub run: Arc<str>,
    /// The number of the last record that both runs have: the new run was forked there. 0 if the
    /// new run repeats the other from the beginning.
    pub record: u64,
    /// The beginning of the idempotency keys of calls that the new run makes by itself.
    pub keys: Arc<str>,
    /// The run id that the processes of the new run see.
    pub seen_as: Arc<str>,
    /// The numbers of records at which this run, or a run that it was forked from, was cut: in the
    /// new run the outcome of a call that was in flight there is unknown.
    pub held: Vec<u64>,
    /// Calls that retain the keys of another run, and are not in the records of this one.
    #[serde(default, skip_serializing_if = "FormerKeys::is_empty")]
    pub former_keys: FormerKeys,
}

impl Origin {
    /// `Some` if a run was cut after the record of this number: whether its calls in flight are
    /// held there (else they are sent again).
    #[must_use]
    pub fn cut(&self, record: u64) -> Option<bool> {
        let held = self.held.contains(&record);
        (held || self.record == record).then_some(held)
    }
}

impl Started {
    /// The beginning of the idempotency keys of calls that it makes by itself.
    #[must_use]
    pub fn keys(&self) -> &Arc<str> {
        self.origin.as_ref().map_or(&self.run, |origin| &origin.keys)
    }

    /// The run id that processes see.
    #[must_use]
    pub fn seen_as(&self) -> &Arc<str> {
        self.origin.as_ref().map_or(&self.run, |origin| &origin.seen_as)
    }
}

/// Bounds on what all processes of a run together hold in the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Bounds {
    /// Bytes of everything in queues, of commands without an answer, of names, and of answers that
    /// wait for the descendants of the process that gave them.
    pub bytes: u64,
    /// Links and monitors.
    pub ties: u64,
    /// Names of queries.
    pub exposed: u64,
    /// Bytes of the values that queries read.
    pub exposed_bytes: u64,
    /// Keys in the run's `kv`.
    pub kv_keys: u64,
    /// Bytes of keys and values in the run's `kv`.
    pub kv_bytes: u64,
    /// Signals that wait for a process to register their name.
    pub signals: u64,
    /// What an event, a command without an answer, or a name counts in [`Self::bytes`] beside what
    /// it carries. 0 if only payloads and topics count, as in runs begun by 0.1.0.
    pub item_bytes: u64,
}

/// Derived: an event of 40 bytes in a queue that grows by doubling, the box of its message, and the
/// memory of its topic and of its body.
const ITEM_BYTES: u64 = 384;

impl Default for Bounds {
    // All arbitrary but `item_bytes`.
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            ties: 1_000_000,
            exposed: 1_000,
            exposed_bytes: 64 << 20,
            kv_keys: 100_000,
            kv_bytes: 64 << 20,
            signals: 10_000,
            item_bytes: ITEM_BYTES,
        }
    }
}

/// Added to the number of a kind of origin if [`Bounds::item_bytes`] follows.
const ITEMS_COUNT: u8 = 3;
/// The number of an origin whose former keys have arguments; one more if [`Bounds::item_bytes`]
/// follows.
const ASKED: u8 = 6;

impl Wire for Started {
    fn put(&self, out: &mut Vec<u8>) {
        self.run.put(out);
        out.extend_from_slice(&self.seed);
        self.at.put(out);
        self.root.put(out);
        put_number(out, self.programs.len() as u64);
        for (name, digest) in &self.programs {
            name.put(out);
            digest.put(out);
        }
        self.entry.put(out);
        self.input.put(out);
        self.limits.put(out);
        self.grants.put(out);
        self.bounds.put(out);
        // Most runs have no former keys. The first records of this format had neither former keys
        // nor a count for items. What is absent is not written.
        let counts_items = self.bounds.item_bytes > 0;
        let mark = if counts_items { ITEMS_COUNT } else { 0 };
        match &self.origin {
            None => out.push(mark),
            Some(origin) if origin.former_keys.is_empty() => {
                out.push(1 + mark);
                origin.put(out);
            }
            Some(origin) if origin.former_keys.is_plain() => {
                out.push(2 + mark);
                origin.put(out);
                origin.former_keys.put_plain(out);
            }
            Some(origin) => {
                out.push(ASKED + u8::from(counts_items));
                origin.put(out);
                origin.former_keys.put(out);
            }
        }
        if counts_items {
            self.bounds.item_bytes.put(out);
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        let run = Wire::take(from)?;
        let seed = from.array()?;
        let (at, root) = (Wire::take(from)?, Wire::take(from)?);
        let length = from.number()?;
        let mut programs = Vec::new();
        for _ in 0..length {
            programs.push((Wire::take(from)?, Wire::take(from)?));
        }
        let mut started = Self {
            run,
            seed,
            at,
            root,
            programs,
            entry: Wire::take(from)?,
            input: Wire::take(from)?,
            limits: Wire::take(from)?,
            grants: Wire::take(from)?,
            bounds: Wire::take(from)?,
            origin: None,
        };
        let mark = from.byte()?;
        let (kind, counts_items) = match mark {
            0..ASKED => (mark % ITEMS_COUNT, mark >= ITEMS_COUNT),
            ASKED..=7 => (ASKED, mark > ASKED),
            _ => return Err(unknown("origin", mark)),
        };
        if kind > 0 {
            let origin: Origin = Wire::take(from)?;
            let former_keys = match kind {
                1 => FormerKeys::default(),
                2 => FormerKeys::take_plain(from)?,
                _ => Wire::take(from)?,
            };
            started.origin = Some(Origin { former_keys, ..origin });
        }
        if counts_items {
            started.bounds.item_bytes = Wire::take(from)?;
        }
        Ok(started)
    }
}

/// Without the former keys, which follow it.
impl Wire for Origin {
    fn put(&self, out: &mut Vec<u8>) {
        self.run.put(out);
        self.record.put(out);
        self.keys.put(out);
        self.seen_as.put(out);
        self.held.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self {
            run: Wire::take(from)?,
            record: Wire::take(from)?,
            keys: Wire::take(from)?,
            seen_as: Wire::take(from)?,
            held: Wire::take(from)?,
            former_keys: FormerKeys::default(),
        })
    }
}

/// Without `item_bytes`, which is written last of all.
impl Wire for Bounds {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { bytes, ties, exposed, exposed_bytes, kv_keys, kv_bytes, signals, item_bytes: _ } = self;
        for number in [bytes, ties, exposed, exposed_bytes, kv_keys, kv_bytes, signals] {
            number.put(out);
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self {
            bytes: Wire::take(from)?,
            ties: Wire::take(from)?,
            exposed: Wire::take(from)?,
            exposed_bytes: Wire::take(from)?,
            kv_keys: Wire::take(from)?,
            kv_bytes: Wire::take(from)?,
            signals: Wire::take(from)?,
            item_bytes: 0,
        })
    }
}
