//! The process table of a run: what the commit point knows of each process.

use super::idempotency::KeyPath;
use super::outstanding::Outstanding;
use super::timers::TimerKey;
use crate::process::{Answer, Grants, Limits, Micros, Pid, Tag, Timestamp};
use crate::scheduler::Slot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the commit point knows of one process.
pub(in crate::run) struct Entry {
    /// Its slot in the scheduler: `None` until it was handed over, and in a rebuild.
    pub(in crate::run) slot: Option<Slot>,
    /// The parent and the command that spawned it. `None` for the root.
    pub(in crate::run) parent: Option<(Pid, Tag)>,
    /// Whether it outlives its parent.
    pub(in crate::run) detached: bool,
    /// Whether the scheduler has begun it: a process that never began need not be asked to end.
    pub(in crate::run) begun: bool,
    /// How many spawns lie between it and the root.
    pub(in crate::run) depth: u32,
    /// The component under whose name it was spawned; `None` for the root's own program.
    pub(in crate::run) component: Option<Arc<str>>,
    pub(in crate::run) entrypoint: Arc<str>,
    pub(in crate::run) limits: Arc<Limits>,
    pub(in crate::run) grants: Grants,
    /// Its place in idempotency keys.
    pub(in crate::run) key_path: KeyPath,
    /// Committed steps.
    pub(in crate::run) steps: u64,
    /// Fuel of all committed steps.
    pub(in crate::run) fuel: u64,
    /// The greatest tag that it has used.
    pub(in crate::run) last_tag: Tag,
    pub(in crate::run) outstanding: Outstanding,
    /// Bytes of inputs and arguments of outstanding commands.
    pub(in crate::run) outstanding_bytes: u64,
    /// Messages posted and not yet taken by a committed step.
    pub(in crate::run) mail: u32,
    /// Bytes of those messages.
    pub(in crate::run) mail_bytes: u64,
    /// Other events posted and not yet taken by a committed step.
    pub(in crate::run) waking: u32,
    /// Bytes of all events posted and not yet taken by a committed step.
    pub(in crate::run) queued_bytes: u64,
    pub(in crate::run) family: Family,
    pub(in crate::run) ties: Option<Box<Ties>>,
    pub(in crate::run) phase: Phase,
    pub(in crate::run) waits: WaitState,
    /// Whether it is not told its run and pid.
    pub(in crate::run) is_anonymous: bool,
    /// Whether a committed step of it has taken an event, or it was renewed.
    pub(in crate::run) has_taken: bool,
    /// Whether replaying its steps since the last snapshot would be expensive.
    pub(in crate::run) unsaved: bool,
}

/// What a process is born with.
pub(in crate::run) struct Birth {
    /// The parent, the command and the depth below the root. `None` for the root.
    pub(in crate::run) parent: Option<(Pid, Tag, u32)>,
    pub(in crate::run) detached: bool,
    pub(in crate::run) component: Option<Arc<str>>,
    pub(in crate::run) entrypoint: Arc<str>,
    pub(in crate::run) limits: Arc<Limits>,
    pub(in crate::run) grants: Grants,
    pub(in crate::run) key_path: KeyPath,
    pub(in crate::run) is_anonymous: bool,
}

impl Entry {
    /// A process that has done nothing yet.
    pub(in crate::run) fn new(birth: Birth) -> Self {
        let Birth { parent, detached, component, entrypoint, limits, grants, key_path, is_anonymous } = birth;
        Self {
            slot: None,
            parent: parent.map(|(pid, tag, _)| (pid, tag)),
            detached,
            begun: false,
            depth: parent.map_or(0, |(_, _, depth)| depth),
            component,
            entrypoint,
            limits,
            grants,
            key_path,
            steps: 0,
            fuel: 0,
            last_tag: Tag(0),
            outstanding: Outstanding::default(),
            outstanding_bytes: 0,
            mail: 0,
            mail_bytes: 0,
            waking: 0,
            queued_bytes: 0,
            family: Family::default(),
            ties: None,
            phase: Phase::Live,
            waits: WaitState::Not,
            is_anonymous,
            has_taken: false,
            unsaved: false,
        }
    }

    /// Its relations to others, allocated when first needed.
    pub(in crate::run) fn ties_mut(&mut self) -> &mut Ties {
        self.ties.get_or_insert_default()
    }

    /// Links and monitors that it has asked for.
    pub(in crate::run) fn watches(&self) -> usize {
        self.ties.as_ref().map_or(0, |ties| ties.watches.len())
    }

    /// The names that it has registered.
    pub(in crate::run) fn names(&self) -> &[Arc<str>] {
        self.ties.as_ref().map_or(&[], |ties| &ties.names)
    }

    /// Notes that a committed step has taken the event that the process is to end. Returns whether
    /// this is the first time.
    pub(in crate::run) fn take_cancel(&mut self) -> bool {
        match &mut self.phase {
            Phase::Cancelling { is_taken, .. } => !std::mem::replace(is_taken, true),
            _ => false,
        }
    }

    /// Returns whether it has not ended.
    pub(in crate::run) fn lives(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }
}

/// How far a process is in its life.
pub(in crate::run) enum Phase {
    /// It has not been asked to end.
    Live,
    /// It was asked to end, and is killed when the timer fires, at `until` by the recorded time.
    /// `is_taken`: a committed step has taken the event.
    Cancelling { reason: Arc<str>, grace: Micros, deadline: TimerKey, until: Timestamp, is_taken: bool },
    /// It has ended, and its answer waits for its attached descendants.
    Ended(Answer),
}

/// What the status of its last committed step means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::run) enum WaitState {
    /// It is to be stepped in any case.
    Not,
    /// It is to be stepped, and takes no events: its next step is a part of what the last one gave.
    Owes,
    Blocked,
    Idle,
}

/// Attached children as a doubly linked list through their entries: no child costs its parent
/// memory, and removing one takes no search. Pid 0 stands for none.
#[derive(Default)]
pub(in crate::run) struct Family {
    /// Attached children in the table.
    pub(in crate::run) attached: u32,
    /// The youngest attached child.
    pub(in crate::run) youngest: u64,
    /// The next older child of the same parent.
    pub(in crate::run) older: u64,
    /// The next younger child of the same parent.
    pub(in crate::run) younger: u64,
}

/// The links, monitors and names of a process.
#[derive(Default)]
pub(in crate::run) struct Ties {
    /// What this process asked for: (the other, its own command), and whether it is a link.
    pub(in crate::run) watches: BTreeMap<(Pid, Tag), bool>,
    /// What others asked for: (the other, the other's command), and whether it is a link.
    pub(in crate::run) watchers: BTreeMap<(Pid, Tag), bool>,
    /// The names that it has registered.
    pub(in crate::run) names: Vec<Arc<str>>,
}

/// How many pids a page covers.
const PAGE: usize = 64;

type Page = [Option<Box<Entry>>; PAGE];

/// All processes of a run that live or whose answer is held, by pid.
///
/// Pids are given in order, so a process is found by two indexes without hashing. A page whose
/// processes are all gone is freed, and leaves 8 bytes for its 64 pids.
#[derive(Default)]
pub(in crate::run) struct Table {
    pages: Vec<Option<Box<Page>>>,
    /// Processes on each page.
    filled: Vec<u8>,
    count: usize,
}

impl Table {
    fn place(pid: Pid) -> (usize, usize) {
        let number = usize::try_from(pid.0).unwrap_or(usize::MAX);
        (number / PAGE, number % PAGE)
    }

    pub(in crate::run) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(in crate::run) fn get(&self, pid: Pid) -> Option<&Entry> {
        let (page, place) = Self::place(pid);
        self.pages.get(page)?.as_ref()?[place].as_deref()
    }

    #[inline]
    pub(in crate::run) fn get_mut(&mut self, pid: Pid) -> Option<&mut Entry> {
        let (page, place) = Self::place(pid);
        self.pages.get_mut(page)?.as_mut()?[place].as_deref_mut()
    }

    /// Inserts a process whose pid was not used before.
    pub(in crate::run) fn insert(&mut self, pid: Pid, entry: Box<Entry>) {
        let (page, place) = Self::place(pid);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
            self.filled.resize(page + 1, 0);
        }
        let entries = self.pages[page].get_or_insert_with(|| Box::new([const { None }; PAGE]));
        debug_assert!(entries[place].is_none(), "a pid is given once");
        entries[place] = Some(entry);
        self.filled[page] += 1;
        self.count += 1;
    }

    pub(in crate::run) fn remove(&mut self, pid: Pid) -> Option<Box<Entry>> {
        let (page, place) = Self::place(pid);
        let entry = self.pages.get_mut(page)?.as_mut()?[place].take()?;
        self.filled[page] -= 1;
        self.count -= 1;
        if self.filled[page] == 0 {
            self.pages[page] = None;
        }
        Some(entry)
    }

    /// All processes in the order of their pids.
    pub(in crate::run) fn iter(&self) -> impl Iterator<Item = (Pid, &Entry)> {
        self.pages.iter().enumerate().filter_map(|(number, page)| page.as_ref().map(|page| (number, page))).flat_map(
            |(number, page)| {
                page.iter().enumerate().filter_map(move |(place, entry)| {
                    entry.as_deref().map(|entry| (Pid((number * PAGE + place) as u64), entry))
                })
            },
        )
    }
}

impl std::ops::Index<Pid> for Table {
    type Output = Entry;

    /// The process, which must be in the table.
    #[inline]
    fn index(&self, pid: Pid) -> &Entry {
        self.get(pid).expect("invariant: a process that is stepped is in the table")
    }
}
