//! The last events of runs that several readers follow: they are read and written as text once, and
//! all these readers are sent the same bytes.
//!
//! Readers go on in step: what one of them reads from a record on is what the others are sent who
//! want it from that record on. A reader that is behind, or that wants only some of the records,
//! reads by itself; one that stands within what was shared reads to its end, and is in step.
//!
//! What is shared counts as held by its readers, once, until the last of them has taken it. What is
//! kept for those who are some steps behind has a bound of its own ([`KEPT_KIB`]) besides: where
//! there is no room for it, each reads by itself.

use super::feed::{Read, read, written};
use super::outgoing::{held_at_once, kib};
use super::problem::Answered;
use super::service::Service;
use super::shown::{Shown, Wanted};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Parts that are kept of a run.
const PARTS_MAX: usize = 8;

/// What is kept of all runs, in KiB: 32 MiB.
const KEPT_KIB: usize = 32 << 10;

/// The rest of it.
static KEPT: Semaphore = Semaphore::const_new(KEPT_KIB);

/// Events of consecutive records.
#[derive(Clone)]
pub(in crate::serve) struct Part {
    from: u64,
    /// The number of the record after them.
    pub(in crate::serve) next: u64,
    pub(in crate::serve) bytes: Bytes,
    /// There may be more at once.
    pub(in crate::serve) is_full: bool,
}

/// The last events of a run, while somebody follows it.
pub(in crate::serve) struct Tail {
    /// The run's [`Stored::row`](crate::journal::Stored::row): its id may be another run's later.
    row: u64,
    parts: Mutex<VecDeque<(Part, SemaphorePermit<'static>)>>,
    /// One of its readers reads, and the others wait for that.
    reading: tokio::sync::Mutex<()>,
}

/// Those of all runs, by their rows.
#[derive(Default)]
pub(in crate::serve) struct Tails(Mutex<HashMap<u64, Weak<Tail>>>);

/// What a reader does next.
pub(in crate::serve) enum Step {
    /// It sends this.
    Shared(Part),
    /// It has read this by itself.
    Own(Read),
    /// It reads by itself up to this record.
    Alone(Option<u64>),
}

impl Tails {
    /// The tail of a run, which all share who follow it at one time.
    pub(in crate::serve) fn of(&self, row: u64) -> Arc<Tail> {
        let mut all = self.0.lock();
        if let Some(tail) = all.get(&row).and_then(Weak::upgrade) {
            return tail;
        }
        all.retain(|_, tail| tail.strong_count() > 0);
        let tail = Arc::new(Tail { row, parts: Mutex::default(), reading: tokio::sync::Mutex::default() });
        all.insert(row, Arc::downgrade(&tail));
        tail
    }
}

impl Tail {
    /// The step of a reader that wants everything from this record on.
    pub(in crate::serve) async fn step(
        self: &Arc<Self>,
        service: &Arc<Service>,
        (run, name): (&str, &'static str),
        from: u64,
    ) -> Answered<Step> {
        if Arc::strong_count(self) == 1 {
            return Ok(Step::Alone(None));
        }
        if let Some(step) = self.known(from) {
            return Ok(step);
        }
        let _reading = self.reading.lock().await;
        if let Some(step) = self.known(from) {
            return Ok(step);
        }
        let read = read(service, run, Shown::records(Wanted { from, ..Wanted::default() })).await?;
        let bytes = written(name, &read.texts);
        let is_whole = read.texts.is_empty() || read.row != Some(self.row);
        let Some(room) = KEPT.try_acquire_many(kib(bytes.len())).ok().filter(|_| !is_whole) else {
            return Ok(Step::Own(read));
        };
        let Some(bytes) = held_at_once(bytes) else { return Ok(Step::Own(read)) };
        let part = Part { from, next: read.shown.next, bytes, is_full: read.is_full };
        let mut parts = self.parts.lock();
        parts.push_back((part.clone(), room));
        if parts.len() > PARTS_MAX {
            parts.pop_front();
        }
        Ok(Step::Shared(part))
    }

    /// What is known without reading.
    fn known(&self, from: u64) -> Option<Step> {
        let parts = self.parts.lock();
        if let Some((part, _)) = parts.iter().find(|(part, _)| part.from == from) {
            return Some(Step::Shared(part.clone()));
        }
        if let Some((part, _)) = parts.iter().find(|(part, _)| (part.from..part.next).contains(&from)) {
            return Some(Step::Alone(Some(part.next - 1)));
        }
        let is_behind = parts.back().is_some_and(|(last, _)| from < last.next);
        is_behind.then_some(Step::Alone(None))
    }
}
