//! The state of each node.

use super::cached::ItemCache;
use super::outcome::Origin;
use super::progress::{CachedFrom, Wait};
use super::taken_over::{EndedItems, PriorStep};
use super::timers::TimerKey;
use crate::process::{Payload, Problem, Tag, Timestamp};
use crate::workflow::expression::Size;
use crate::workflow::plan::Node;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The status of a node. The last five are final.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Waiting,
    Running,
    Succeeded,
    Failed,
    Skipped,
    Unreached,
    Cancelled,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Unreached => "unreached",
            Self::Cancelled => "cancelled",
        }
    }

    pub(super) fn is_end(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// Why an item failed for good.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// `None` if the node has no `for-each`, or failed before there were items.
    pub(super) item: Option<usize>,
    /// From 1; 0 if no attempt was made.
    pub(super) attempt: u32,
    pub(super) problem: Problem,
    /// The step within it that failed, if it is made of steps.
    pub(super) origin: Option<Box<Origin>>,
}

#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) node: Arc<Node>,
    /// The block that it is in.
    pub(super) block: usize,
    /// The nodes that depend on it.
    pub(super) dependents: Vec<usize>,
    /// Dependencies that have not ended.
    pub(super) open: usize,
    pub(super) status: Status,
    pub(super) output: Value,
    pub(super) failure: Option<Failure>,
    /// The failure as expressions see it; null without one.
    pub(super) error: Value,
    /// The node whose failure is the reason, if this one is unreached.
    pub(super) cause: Option<usize>,
    /// The most attempts that one item took.
    pub(super) attempts: u32,
    pub(super) running: Option<Box<Running>>,
    /// The number of items, once it is known.
    pub(super) total: usize,
    pub(super) done: usize,
    pub(super) failed: usize,
    pub(super) ended_items: EndedItems,
    /// Its result in the run that this one repeats, if some of it is taken over.
    pub(super) prior: Option<Box<PriorStep>>,
    /// Whether it ended as in that run, and was not run again.
    pub(super) taken_over: bool,
    /// The text of its last log line, until it has ended.
    pub(super) last_line: Option<Box<str>>,
    /// The most turns that an item took, of a step with `repeat`.
    pub(super) turns: u32,
    /// Items and turns whose outcome came from the cache.
    pub(super) cached: usize,
    /// Where the first of these came from.
    pub(super) cached_from: Option<CachedFrom>,
    /// Whether a line was written of it.
    pub(super) is_told: bool,
    /// Items whose failures were reported.
    pub(super) failures_reported: usize,
    /// Items that were undone, or of which a step within was.
    pub(super) undone: BTreeSet<usize>,
}

impl NodeState {
    pub(super) fn new(node: Arc<Node>, block: usize) -> Self {
        Self {
            open: node.needs.len(),
            node,
            block,
            dependents: Vec::new(),
            status: Status::Waiting,
            output: Value::Null,
            failure: None,
            error: Value::Null,
            cause: None,
            attempts: 0,
            running: None,
            total: 0,
            done: 0,
            failed: 0,
            ended_items: EndedItems::default(),
            prior: None,
            taken_over: false,
            last_line: None,
            turns: 0,
            cached: 0,
            cached_from: None,
            is_told: false,
            failures_reported: 0,
            undone: BTreeSet::new(),
        }
    }
}

/// A node that has items to run.
#[derive(Debug)]
pub(super) struct Running {
    /// The items of a `for-each`; a node without one has a single item that is not in this list.
    pub(super) items: Option<Vec<Value>>,
    /// The size of the items, and of the list of their results.
    pub(super) size: Size,
    pub(super) total: usize,
    /// The first item that has not started.
    pub(super) next: usize,
    /// Items that have started and not ended.
    pub(super) live: BTreeMap<usize, Item>,
    /// Live items whose next turn may begin.
    pub(super) turning: BTreeSet<usize>,
    /// Live items whose next attempt may begin.
    pub(super) queued: BTreeSet<usize>,
    /// Results by item; null until there is one.
    pub(super) results: Vec<Value>,
    /// Items of a `for-each` that have a result.
    pub(super) succeeded: BTreeSet<usize>,
    /// The failure of the first item that failed.
    pub(super) failure: Option<Failure>,
    /// Whether no further item starts.
    pub(super) stopped: bool,
}

impl Running {
    pub(super) fn new(items: Option<Vec<Value>>) -> Self {
        let total = items.as_ref().map_or(1, Vec::len);
        let size = items.iter().flatten().map(|item| Size::of(item) + Size { bytes: 0, values: 1 });
        Self {
            size: size.fold(Size::default(), std::ops::Add::add),
            items,
            total,
            next: 0,
            live: BTreeMap::new(),
            turning: BTreeSet::new(),
            queued: BTreeSet::new(),
            results: vec![Value::Null; total],
            succeeded: BTreeSet::new(),
            failure: None,
            stopped: false,
        }
    }

    /// Returns whether no earlier item has failed, in the order of items: then this failure is the
    /// one kept.
    pub(super) fn is_first(&self, item: Option<usize>) -> bool {
        self.failure.as_ref().is_none_or(|known| item < known.item)
    }

    /// Takes out the items that have no attempt in flight.
    pub(super) fn take_idle(&mut self) -> Vec<(usize, Item)> {
        self.queued.clear();
        self.turning.clear();
        self.live.extract_if(.., |_, item| !item.stage.is_busy()).collect()
    }
}

/// An item that has started.
#[derive(Debug)]
pub(super) struct Item {
    /// The input of every attempt.
    pub(super) input: Payload,
    /// Attempts begun so far.
    pub(super) attempt: u32,
    /// Attempts known not to have happened: the number in idempotency keys.
    pub(super) known_failures: u32,
    /// Whether an attempt under the present key may have happened.
    pub(super) may_have_happened: bool,
    pub(super) stage: Stage,
    pub(super) timed_out: bool,
    pub(super) deadline: Option<TimerKey>,
    /// When the attempt in flight times out.
    pub(super) until: Option<Timestamp>,
    /// What it waits for, if it waits.
    pub(super) wait: Option<Box<Wait>>,
    /// The number of its turn, from 0.
    pub(super) turn: u32,
    /// Whether it waits for its next turn.
    pub(super) is_between: bool,
    /// What it has of the cache, if its step has one.
    pub(super) cache: Option<Box<ItemCache>>,
    /// The step within it that the attempt failed at.
    pub(super) origin: Option<Box<Origin>>,
    /// What it waits for, if that is the first of several things.
    pub(super) expected: Option<Box<Expected>>,
}

/// The several things of which an item waits for the first, each with its name in the output.
#[derive(Default, Debug)]
pub(super) struct Expected {
    /// The names of the signals.
    pub(super) signals: Vec<(String, Arc<str>)>,
    /// The one that is next by time, if there is one before the timeout.
    pub(super) by_time: Option<Arc<str>>,
}

impl Item {
    /// Returns whether an attempt under the present key may have happened, or may be happening.
    pub(super) fn is_doubtful(&self) -> bool {
        self.may_have_happened || self.stage.is_busy()
    }

    /// The size retained for it between two attempts.
    pub(super) fn retained(&self) -> Size {
        let waits = self.attempt > 0 && !self.stage.is_busy();
        Size::bytes(if waits { self.input.size() } else { 0 })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The next attempt may begin.
    Queued,
    /// An attempt is in flight.
    InFlight(Tag),
    /// The steps within it run, as this block.
    Inside(usize),
    /// Between two attempts, or in a wait.
    Sleeping,
}

impl Stage {
    /// Whether an attempt is under way.
    pub(super) fn is_busy(self) -> bool {
        matches!(self, Self::InFlight(_) | Self::Inside(_))
    }

    /// The block that runs.
    pub(super) fn inside(self) -> Option<usize> {
        if let Self::Inside(block) = self { Some(block) } else { None }
    }
}
