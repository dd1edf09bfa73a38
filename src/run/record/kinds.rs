//! The records of a run: plain data, one log, one order.
//!
//! A record is written as the number of its format, the number of its kind, and its fields.
//! From a run's records alone each of its processes can be rebuilt.

pub use super::arrived::{ActId, Arrived, News};
pub use super::started::{Bounds, Origin, Started};
pub use super::upgraded::{RunVersion, Upgraded};
use super::wire::{Damaged, Source, Wire, put_number, unknown};
use crate::process::{Answer, Command, Ending, LogLine, Payload, Pid, Recalls, Status, Tag, Timestamp};
use bytes::Bytes;
use std::sync::Arc;

/// The format of the records that this release writes.
pub const FORMAT: u8 = 1;

/// One entry of a run's log.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// How the run began: the first record of every run.
    Started(Box<Started>),
    /// A step and everything that was decided for it.
    Stepped(Box<Stepped>),
    /// The end of a process that the process itself did not return. It is applied, never executed
    /// again.
    Died(Box<Died>),
    /// An arrival from outside a step, recorded when it reaches its queue.
    Arrived(Box<Arrived>),
    /// A call that is not safe to repeat is about to leave the host.
    Leaving {
        /// The process that made the call.
        pid: Pid,
        /// The call that is about to be sent.
        tag: Tag,
    },
    /// The run goes on with another version of its workflow.
    Upgraded(Box<Upgraded>),
}

/// A step that a process took.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Stepped {
    /// The process that took the step, or that died.
    pub pid: Pid,
    /// The number of the step, from 1.
    pub step: u64,
    /// The time of its batch, in microseconds since 1970.
    pub at: Timestamp,
    /// How many events it took from the front of its queue.
    pub took: u32,
    /// Fuel used. Not part of the digest.
    pub fuel: u64,
    /// The digest of status and commands.
    pub digest: Digest,
    /// The status that the step ended with.
    pub status: Status,
    /// Whether this is only a part of what the process gave: the next step is another part, and
    /// takes no events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owes: bool,
    /// Its commands in order, and what was decided for each.
    pub decided: Vec<Decided>,
    /// The lines that it wrote.
    pub log: Vec<LogLine>,
    /// Lines dropped beyond the limit.
    pub log_dropped: u64,
}

/// A command and its decision.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Decided {
    /// What the process asked for.
    pub command: Command,
    /// The one decision for it.
    pub decision: Decision,
}

/// What was decided for a command, once: a replay uses this decision.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// It is done, and there was nothing to decide.
    Done,
    /// The command has its answer at once.
    Answered(Answer),
    /// A sleep ends at this time.
    Due(Timestamp),
    /// The child has this pid.
    Spawned(Pid),
    /// The call goes to its handler under this key.
    Called(Arc<str>),
    /// The message is in this process's mailbox.
    Delivered(Pid),
    /// The target is this process, which lives.
    Meant(Pid),
    /// The target has ended. The pid is 0 if there never was a process of that name.
    Gone {
        /// The target, or 0.
        pid: Pid,
        /// How it ended.
        ending: Ending,
    },
    /// The call waits for a signal.
    Waits,
    /// The call has taken the oldest signal that was retained.
    Took(Answer),
}

/// The end of a process that the process did not return.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Died {
    /// The process that took the step, or that died.
    pub pid: Pid,
    /// The number of the step in which it died, or was about to begin when it was ended.
    pub step: u64,
    /// Microseconds since 1970.
    pub at: Timestamp,
    /// Fuel that the step had used.
    pub fuel: u64,
    /// Failed or cancelled.
    pub ending: Ending,
    /// The lines that the step wrote.
    pub log: Vec<LogLine>,
    /// Lines dropped beyond the limit.
    pub log_dropped: u64,
}

/// The digest of a step's status and commands: 128-bit XXH3 of their bytes in the record.
///
/// It detects a guest that behaves differently in a replay; it does not protect against anybody who
/// can write the records. BLAKE3 would cost more than the rest of a small step's commit, and XXH3's
/// definition is as fixed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Digest(pub u128);

impl Digest {
    pub(in crate::run) fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// The digest of what a step gave.
    #[must_use]
    pub fn of_step(status: &Status, commands: &[Command]) -> Self {
        let mut bytes = Vec::new();
        put_act(&mut bytes, status, commands);
        Self::of(&bytes)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Writes what a step gave: the bytes that the digest covers.
#[inline]
pub(in crate::run) fn put_act(out: &mut Vec<u8>, status: &Status, commands: &[Command]) {
    status.put(out);
    put_number(out, commands.len() as u64);
    for command in commands {
        command.put(out);
    }
}

/// The size in bytes of a step with all of its parts, as if written whole. Leaves `out` unchanged.
pub(in crate::run) fn whole_bytes(out: &mut Vec<u8>, status: &Status, parts: [&[Command]; 2]) -> usize {
    let end = out.len();
    let mut bytes = 0;
    let mut count = |put: &dyn Fn(&mut Vec<u8>)| {
        put(out);
        bytes += out.len() - end;
        out.truncate(end);
    };
    count(&|out| status.put(out));
    count(&|out| put_number(out, parts.iter().map(|part| part.len() as u64).sum()));
    for command in parts.into_iter().flatten() {
        count(&|out| command.put(out));
    }
    bytes
}

/// The start of a `stepped` record, before its act, its decisions and its log.
#[derive(Clone, Copy)]
pub(in crate::run) struct SteppedHead {
    pub(in crate::run) pid: Pid,
    pub(in crate::run) step: u64,
    pub(in crate::run) at: Timestamp,
    pub(in crate::run) took: u32,
    pub(in crate::run) fuel: u64,
    pub(in crate::run) digest: Digest,
    pub(in crate::run) owes: bool,
}

/// The kinds of `stepped` records: one that is whole or the last of its parts, and one that other
/// parts follow.
const STEPPED: u8 = 1;
const STEPPED_IN_PART: u8 = 5;

impl SteppedHead {
    /// Writes the head and the act, and puts the act's digest into the head. Returns the size of
    /// the act in bytes.
    pub(in crate::run) fn put_with_act(&self, out: &mut Vec<u8>, status: &Status, commands: &[Command]) -> usize {
        self.put(out);
        let act = out.len();
        put_act(out, status, commands);
        let digest = Digest::of(&out[act..]).0.to_le_bytes();
        out[2..18].copy_from_slice(&digest);
        out.len() - act
    }

    #[inline]
    pub(in crate::run) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[FORMAT, if self.owes { STEPPED_IN_PART } else { STEPPED }]);
        out.extend_from_slice(&self.digest.0.to_le_bytes());
        out.extend_from_slice(&self.at.0.to_le_bytes());
        self.pid.put(out);
        self.step.put(out);
        self.took.put(out);
        self.fuel.put(out);
    }

    fn take(from: &mut Source, owes: bool) -> Result<Self, Damaged> {
        let digest = u128::from_le_bytes(from.array()?);
        let at = u64::from_le_bytes(from.array()?);
        Ok(Self {
            pid: Wire::take(from)?,
            step: Wire::take(from)?,
            at: Timestamp(at),
            took: Wire::take(from)?,
            fuel: Wire::take(from)?,
            digest: Digest(digest),
            owes,
        })
    }
}

/// Writes the end of a record that has a log.
#[inline]
pub(in crate::run) fn put_log(out: &mut Vec<u8>, log: &[LogLine], dropped: u64) {
    put_number(out, log.len() as u64);
    for line in log {
        line.put(out);
    }
    put_number(out, dropped);
}

impl Record {
    /// What the run began with, if this is its first record.
    #[must_use]
    pub fn started(&self) -> Option<&Started> {
        match self {
            Self::Started(started) => Some(started),
            _ => None,
        }
    }

    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Started(started) => {
                out.extend_from_slice(&[FORMAT, 0]);
                started.put(out);
            }
            Self::Stepped(stepped) => stepped.put(out),
            Self::Died(died) => {
                out.extend_from_slice(&[FORMAT, 2]);
                died.put(out);
            }
            Self::Arrived(arrived) => {
                out.extend_from_slice(&[FORMAT, 3]);
                arrived.put(out);
            }
            Self::Leaving { pid, tag } => {
                out.extend_from_slice(&[FORMAT, 4]);
                pid.put(out);
                tag.put(out);
            }
            Self::Upgraded(upgraded) => {
                out.extend_from_slice(&[FORMAT, 6]);
                upgraded.put(out);
            }
        }
    }

    /// Reads a record that takes up all of `bytes`. Payloads share the memory of `bytes`.
    ///
    /// # Errors
    /// Fails if the bytes are no record of a format that this release knows.
    pub fn decode(bytes: Bytes) -> Result<Self, Damaged> {
        let mut from = Source(bytes);
        let format = from.byte()?;
        if format != FORMAT {
            return Err(Damaged::Format(format));
        }
        let record = match from.byte()? {
            0 => Self::Started(Wire::take(&mut from)?),
            kind @ (STEPPED | STEPPED_IN_PART) => {
                Self::Stepped(Box::new(Stepped::take(&mut from, kind == STEPPED_IN_PART)?))
            }
            2 => Self::Died(Wire::take(&mut from)?),
            3 => Self::Arrived(Wire::take(&mut from)?),
            4 => Self::Leaving { pid: Wire::take(&mut from)?, tag: Wire::take(&mut from)? },
            6 => Self::Upgraded(Wire::take(&mut from)?),
            other => return Err(unknown("kind of record", other)),
        };
        from.end()?;
        Ok(record)
    }

    /// Reads all records of a run, to go on with it. If the run was upgraded, its first record
    /// names the programs and the grants that the run has now, and not those that it began with.
    ///
    /// # Errors
    /// Fails if one of them cannot be read.
    pub fn decode_run(records: Vec<Bytes>) -> Result<Vec<Self>, DamagedRecord> {
        Self::decode_all(records).map(Self::as_now)
    }

    /// Makes records that were read as they are those of [`Self::decode_run`].
    #[must_use]
    pub fn as_now(mut records: Vec<Self>) -> Vec<Self> {
        super::upgraded::amend(&mut records);
        records
    }

    /// Gives these records the source of the answers that they do not write out.
    pub fn recall_from(records: &[Self], source: Option<Arc<dyn Recalls>>) {
        let Some(source) = source else { return };
        for record in records {
            if let Self::Arrived(arrived) = record
                && let News::Answered { answer: Ok(Payload::Recalled(recalled)), .. } = &arrived.news
            {
                recalled.recall_from(&source);
            }
        }
    }

    /// Reads the records of a run from the first on, each as [`Self::decode`] does.
    ///
    /// # Errors
    /// Fails if one of them cannot be read.
    pub fn decode_all(records: Vec<Bytes>) -> Result<Vec<Self>, DamagedRecord> {
        Self::decode_each(records).collect()
    }

    /// Like [`Self::decode_all`], one by one. A decoded record takes several times its bytes.
    pub fn decode_each(records: Vec<Bytes>) -> impl Iterator<Item = Result<Self, DamagedRecord>> {
        let numbered = (1..).zip(records);
        numbered.map(|(number, bytes)| Self::decode(bytes).map_err(|why| DamagedRecord { number, why }))
    }
}

/// A record of a run that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("record {number} of the run is damaged")]
pub struct DamagedRecord {
    /// The number of the record, from 1.
    pub number: u64,
    /// What is wrong with it.
    #[source]
    pub why: Damaged,
}

impl Stepped {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { pid, step, at, took, fuel, digest, status, owes, decided, log, log_dropped } = self;
        SteppedHead { pid: *pid, step: *step, at: *at, took: *took, fuel: *fuel, digest: *digest, owes: *owes }
            .put(out);
        status.put(out);
        put_number(out, decided.len() as u64);
        for Decided { command, .. } in decided {
            command.put(out);
        }
        for Decided { decision, .. } in decided {
            decision.put(out);
        }
        put_log(out, log, *log_dropped);
    }

    fn take(from: &mut Source, owes: bool) -> Result<Self, Damaged> {
        let head = SteppedHead::take(from, owes)?;
        let status = Wire::take(from)?;
        let commands: Vec<Command> = Wire::take(from)?;
        let decided = commands
            .into_iter()
            .map(|command| Ok(Decided { command, decision: Wire::take(from)? }))
            .collect::<Result<_, Damaged>>()?;
        Ok(Self {
            pid: head.pid,
            step: head.step,
            at: head.at,
            took: head.took,
            fuel: head.fuel,
            digest: head.digest,
            status,
            owes: head.owes,
            decided,
            log: Wire::take(from)?,
            log_dropped: Wire::take(from)?,
        })
    }
}

impl Wire for Decision {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Done => out.push(0),
            Self::Answered(answer) => {
                out.push(1);
                answer.put(out);
            }
            Self::Due(due) => {
                out.push(2);
                due.put(out);
            }
            Self::Spawned(pid) => {
                out.push(3);
                pid.put(out);
            }
            Self::Called(key) => {
                out.push(4);
                key.put(out);
            }
            Self::Delivered(pid) => {
                out.push(5);
                pid.put(out);
            }
            Self::Meant(pid) => {
                out.push(6);
                pid.put(out);
            }
            Self::Gone { pid, ending } => {
                out.push(7);
                pid.put(out);
                ending.put(out);
            }
            Self::Waits => out.push(8),
            Self::Took(answer) => {
                out.push(9);
                answer.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(match from.byte()? {
            0 => Self::Done,
            1 => Self::Answered(Wire::take(from)?),
            2 => Self::Due(Wire::take(from)?),
            3 => Self::Spawned(Wire::take(from)?),
            4 => Self::Called(Wire::take(from)?),
            5 => Self::Delivered(Wire::take(from)?),
            6 => Self::Meant(Wire::take(from)?),
            7 => Self::Gone { pid: Wire::take(from)?, ending: Wire::take(from)? },
            8 => Self::Waits,
            9 => Self::Took(Wire::take(from)?),
            other => return Err(unknown("decision", other)),
        })
    }
}

impl Wire for Died {
    fn put(&self, out: &mut Vec<u8>) {
        self.pid.put(out);
        self.step.put(out);
        self.at.put(out);
        self.fuel.put(out);
        self.ending.put(out);
        put_log(out, &self.log, self.log_dropped);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self {
            pid: Wire::take(from)?,
            step: Wire::take(from)?,
            at: Wire::take(from)?,
            fuel: Wire::take(from)?,
            ending: Wire::take(from)?,
            log: Wire::take(from)?,
            log_dropped: Wire::take(from)?,
        })
    }
}
