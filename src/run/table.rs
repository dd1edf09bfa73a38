//! The process table of a run: what the commit point keeps beside each process.

use super::outstanding::Outstanding;
use super::scope::Place;
use super::timers::TimerKey;
use crate::process::{Answer, Grants, Limits, Pid, Tag};
use crate::scheduler::Slot;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// What the commit point knows of one process.
pub(super) struct Entry {
    /// Where the scheduler has it: none until it was handed over, and none in a rebuild.
    pub(super) slot: Option<Slot>,
    /// Who spawned it, and by which command. None for the root.
    pub(super) parent: Option<(Pid, Tag)>,
    /// Whether it outlives its parent.
    pub(super) detached: bool,
    /// Whether the scheduler has begun it: what never began need not be asked to end.
    pub(super) begun: bool,
    /// How many spawns lie between it and the root.
    pub(super) depth: u32,
    /// The component under whose name it was spawned; none is the root's own program.
    pub(super) component: Option<Arc<str>>,
    /// Its entry point.
    pub(super) begins_at: Arc<str>,
    pub(super) limits: Arc<Limits>,
    pub(super) grants: Grants,
    /// Its place in idempotency keys.
    pub(super) place: Place,
    /// Committed steps.
    pub(super) steps: u64,
    /// Fuel of all committed steps.
    pub(super) fuel: u64,
    /// The greatest tag that it has used.
    pub(super) last_tag: Tag,
    pub(super) outstanding: Outstanding,
    /// Bytes of inputs and arguments of outstanding commands.
    pub(super) outstanding_bytes: u64,
    /// Messages posted and not yet taken by a committed step.
    pub(super) mail: u32,
    /// Bytes of those messages.
    pub(super) mail_bytes: u64,
    /// Other events posted and not yet taken by a committed step.
    pub(super) waking: u32,
    /// Bytes of all events posted and not yet taken by a committed step.
    pub(super) queued_bytes: u64,
    pub(super) family: Family,
    pub(super) ties: Ties,
    pub(super) phase: Phase,
    pub(super) waits: Waits,
    /// Set when its grace is over: the reason. Its worker ends it at the next slice's end.
    pub(super) killed: Option<Arc<str>>,
}

impl Entry {
    /// Whether it has not ended.
    pub(super) fn lives(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }
}

/// How far its life is.
pub(super) enum Phase {
    /// Nobody has asked it to end.
    Live,
    /// It has heard cancel, and is killed when this timer fires.
    Cancelling { reason: Arc<str>, deadline: TimerKey },
    /// It has ended, and its answer waits for its attached descendants.
    Ended(Answer),
}

/// What its last committed step said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// It is to be stepped whatever comes.
    Not,
    Blocked,
    Idle,
}

/// Attached children as a doubly linked list through their entries: no child costs its parent memory, and leaving takes no search.
/// Pid 0 stands for none.
#[derive(Default)]
pub(super) struct Family {
    /// Attached children in the table.
    pub(super) attached: u32,
    /// The youngest attached child.
    pub(super) youngest: u64,
    /// The next older child of the same parent.
    pub(super) older: u64,
    /// The next younger child of the same parent.
    pub(super) younger: u64,
}

/// Who wants to hear of whose end.
#[derive(Default)]
pub(super) struct Ties {
    /// What this process asked for: (the other, its own command), and whether it is a link.
    pub(super) watches: BTreeMap<(Pid, Tag), bool>,
    /// What others asked for: (the other, the other's command), and whether it is a link.
    pub(super) watchers: BTreeMap<(Pid, Tag), bool>,
    /// The names that it has registered.
    pub(super) names: Vec<Arc<str>>,
}

/// Multiplies by a large odd number: pids are given by the host, so nobody can choose them to collide.
#[derive(Default)]
pub(super) struct PidHasher(u64);

impl Hasher for PidHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("invariant: only pids are hashed by it");
    }
    fn write_u64(&mut self, number: u64) {
        // The golden ratio's fraction, as in Knuth's multiplicative hashing; hashbrown takes its bits from both ends.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20);
    }
}

/// All processes of a run that live or whose answer is held, by pid. Its order is never looked at.
pub(super) type Table = HashMap<Pid, Box<Entry>, BuildHasherDefault<PidHasher>>;
