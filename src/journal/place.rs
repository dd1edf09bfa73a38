//! Places in concurrency groups: how many runs of a group are stepped at one time.

use crate::run::{Mail, OnLimit};
use std::sync::Arc;

/// The group that a run enters, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupEntry {
    /// The group's name.
    pub group: Arc<str>,
    /// It gets a place when fewer than this many runs of the group have one. From 1.
    pub limit: u32,
    /// What it does if it finds no place.
    pub on_limit: OnLimit,
    /// It does not begin if this many wait already.
    pub queue_max: u32,
    /// What runs get that end in favour of this one: the mail that asks them to.
    pub cancel: Mail,
}

/// A run's place in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It has one, until it ends.
    Has,
    /// It waits for one.
    Waits,
}

/// A run that waits for a place in its group, and what it waits for.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct QueuePlace {
    /// Its number in the queue, from 1; 0 if it is to end in favour of another.
    pub number: u64,
    /// How many wait, with it.
    pub waiting: u64,
    /// The runs of the group that have a place, the oldest first; at most ten.
    pub ahead: Vec<Arc<str>>,
}

/// The id of a run, and the name of its group.
pub type RunInGroup = (Arc<str>, Arc<str>);
