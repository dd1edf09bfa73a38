//! The first record of a run: what it began with.

use super::former_keys::FormerKeys;
use super::wire::{Damaged, Source, Wire, put_number, unknown};
use crate::process::{Grants, Limits, Payload, Timestamp};
use std::sync::Arc;

/// How a run began.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Started {
    /// The run's id.
    pub run: Arc<str>,
    /// What its random streams are keyed by.
    pub seed: [u8; 32],
    /// When.
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
    /// What it was made from; none: it is the first of its kind.
    pub origin: Option<Origin>,
}

/// The run that another one was made from.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Origin {
    /// Its id.
    pub run: Arc<str>,
    /// The number of its last record that the new run has too: it was forked there. 0: the new run repeats it, and begins anew.
    pub record: u64,
    /// Where the idempotency keys of what the new run does by itself begin.
    pub keys: Arc<str>,
    /// The id that the processes of the new run see.
    pub seen_as: Arc<str>,
    /// The numbers of records behind which it was cut, it or what it was forked from: nobody knows in the new run of a call that was in flight
    /// there whether it happens.
    pub held: Vec<u64>,
    /// Calls that keep the keys that they had, of which the records of the new run do not tell.
    #[serde(default, skip_serializing_if = "FormerKeys::is_empty")]
    pub former_keys: FormerKeys,
}

impl Origin {
    /// Whether a run was cut behind the record of this number, and its calls in flight are held there; else they are sent again.
    #[must_use]
    pub fn cut(&self, record: u64) -> Option<bool> {
        let held = self.held.contains(&record);
        (held || self.record == record).then_some(held)
    }
}

impl Started {
    /// Where the idempotency keys of what it does by itself begin.
    #[must_use]
    pub fn keys(&self) -> &Arc<str> {
        self.origin.as_ref().map_or(&self.run, |origin| &origin.keys)
    }

    /// The id that processes see.
    #[must_use]
    pub fn seen_as(&self) -> &Arc<str> {
        self.origin.as_ref().map_or(&self.run, |origin| &origin.seen_as)
    }
}

/// Bounds on what all processes of a run together hold in the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Bounds {
    /// Bytes of everything that waits in queues or belongs to commands without an answer, of names, and of answers that wait for the
    /// descendants of who gave them.
    pub bytes: u64,
    /// Links and monitors.
    pub ties: u64,
    /// Names of queries.
    pub exposed: u64,
    /// Bytes of what queries read.
    pub exposed_bytes: u64,
    /// Keys in the run's `kv`.
    pub kv_keys: u64,
    /// Bytes of keys and values in the run's `kv`.
    pub kv_bytes: u64,
    /// Signals that wait for a process to register their name.
    pub signals: u64,
    /// What an event, a command without an answer, or a name counts among [`Self::bytes`] beside what it carries. 0: nothing is counted but
    /// payloads and topics, as in runs that 0.1.0 has begun.
    pub item_bytes: u64,
}

/// Derived: an event of 40 bytes in a queue that grows by doubling, the box of its message, and the memory of its topic and of its body.
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

/// What the number of a kind of origin is raised by where [`Bounds::item_bytes`] follows.
const ITEMS_COUNT: u8 = 3;
/// The number of an origin whose former keys have arguments; one more where [`Bounds::item_bytes`] follows.
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
        // Most have no former keys, and the first records of this format could have none, nor did items count in them: what is not there is
        // not written.
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

/// But for the former keys, which follow it.
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

/// But for what an item counts, which is written last of all.
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
