//! What the workers do while somebody looks: a ring of events for each.
//!
//! Nothing is recorded unless it is armed, which costs each event one relaxed load. The atomics are
//! those of the standard library also under a model checker: no protocol depends on them.
//!
//! A ring has one writer, its worker, which writes the cells of an event and then the count of
//! events (release). Who reads disarms first, and then reads the count (acquire): the cells before
//! it are whole, but for the oldest of a full ring, which an event that was on its way may
//! overwrite. That one is not read.

use super::Slot;
use crate::base::Monotonic;
use crate::process::Micros;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

/// Events that a worker's ring holds: the newest. 1.5 MiB, while somebody looks for the first time.
const EVENTS_MAX: u64 = 1 << 16;

/// Processes whose names are remembered, for each worker.
const NAMES_MAX: usize = 1 << 16;

/// What a worker did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It ran a slice, after which the process waits, or is ready for another step.
    Slice,
    /// It ran a slice, which was used up before the step was.
    Preempted,
    /// It ran the last slice of a process.
    Last,
    /// It took jobs of another worker.
    Steal,
    /// It slept.
    Park,
    /// It reported timers that were due.
    Fire,
    /// It gave permits to processes that wait for one.
    Admit,
}

const DEEDS: [Deed; 7] = [Deed::Slice, Deed::Preempted, Deed::Last, Deed::Steal, Deed::Park, Deed::Fire, Deed::Admit];

/// An event of a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerEvent {
    /// What it did.
    pub deed: Deed,
    /// When it began.
    pub begun: Monotonic,
    /// How long it took.
    pub took: Micros,
    /// The process of a slice, as the commit point names it.
    pub process: Option<String>,
}

/// What a worker did while somebody looked, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerTimeline {
    /// The newest events.
    pub events: Vec<WorkerEvent>,
    /// How many more there were.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct Ring {
    /// Time, then what took how long, then the process.
    cells: OnceLock<Box<[[AtomicU64; 3]]>>,
    /// How many events were ever written.
    count: AtomicU64,
    /// How many of them before it was armed.
    before: AtomicU64,
    names: Mutex<HashMap<(u32, u32), String>>,
}

/// The rings of all workers.
#[derive(Debug)]
pub(crate) struct Timeline {
    armed: AtomicBool,
    /// Somebody looks: from when it is armed until it is read.
    taken: AtomicBool,
    rings: Box<[Ring]>,
}

impl Timeline {
    pub(crate) fn new(workers: usize) -> Self {
        let rings = (0..workers).map(|_| Ring::default()).collect();
        Self { armed: AtomicBool::new(false), taken: AtomicBool::new(false), rings }
    }

    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Relaxed)
    }

    /// Begins to record. Returns `false` if somebody looks already.
    pub(crate) fn arm(&self) -> bool {
        if self.taken.swap(true, AcqRel) {
            return false;
        }
        for ring in &self.rings {
            ring.cells.get_or_init(|| (0..EVENTS_MAX).map(|_| Default::default()).collect());
            ring.before.store(ring.count.load(Acquire), Relaxed);
        }
        self.armed.store(true, Release);
        true
    }

    /// Records an event. Called by the worker alone. `name` is asked for once for each process.
    #[cold]
    pub(crate) fn note(
        &self,
        worker: usize,
        (deed, begun, took): (Deed, Monotonic, Micros),
        process: Option<(Slot, &dyn Fn() -> String)>,
    ) {
        let ring = &self.rings[worker];
        let Some(cells) = ring.cells.get() else { return };
        let mut of = u64::MAX;
        if let Some((slot, name)) = process {
            of = u64::from(slot.generation) << 32 | u64::from(slot.index);
            let mut names = ring.names.lock();
            if names.len() < NAMES_MAX {
                names.entry((slot.index, slot.generation)).or_insert_with(name);
            }
        }
        let count = ring.count.load(Relaxed);
        let [at, what, whose] = &cells[(count % EVENTS_MAX) as usize];
        at.store(begun.0, Relaxed);
        what.store(took.0 << 8 | deed as u64, Relaxed);
        whose.store(of, Relaxed);
        ring.count.store(count + 1, Release);
    }

    /// Stops recording, and returns what each worker did.
    pub(crate) fn take(&self) -> Vec<WorkerTimeline> {
        self.armed.store(false, Release);
        let read = self.rings.iter().map(Ring::take).collect();
        self.taken.store(false, Release);
        read
    }
}

impl Ring {
    fn take(&self) -> WorkerTimeline {
        let names = std::mem::take(&mut *self.names.lock());
        let Some(cells) = self.cells.get() else { return WorkerTimeline::default() };
        let count = self.count.load(Acquire);
        let before = self.before.load(Relaxed);
        let first = before.max((count + 1).saturating_sub(EVENTS_MAX));
        let read = |number: u64| {
            let [at, what, whose] = &cells[(number % EVENTS_MAX) as usize];
            let (what, whose) = (what.load(Relaxed), whose.load(Relaxed));
            let slot = ((whose & 0xffff_ffff) as u32, (whose >> 32) as u32);
            WorkerEvent {
                deed: DEEDS[(what & 0xff) as usize],
                begun: Monotonic(at.load(Relaxed)),
                took: Micros(what >> 8),
                process: names.get(&slot).cloned(),
            }
        };
        WorkerTimeline { events: (first..count).map(read).collect(), lost: first - before }
    }
}

/// Somebody looks at what the workers do, until this is ended or dropped.
#[derive(Debug)]
pub struct WorkerRecording(Option<Arc<Timeline>>);

impl WorkerRecording {
    /// `None` if somebody looks already.
    pub(super) fn begin(timeline: &Arc<Timeline>) -> Option<Self> {
        timeline.arm().then(|| Self(Some(Arc::clone(timeline))))
    }

    /// Ends it, and returns what each worker did since it began: at most 65,536 events of each.
    #[must_use]
    pub fn end(mut self) -> Vec<WorkerTimeline> {
        self.0.take().map(|timeline| timeline.take()).unwrap_or_default()
    }
}

impl Drop for WorkerRecording {
    fn drop(&mut self) {
        if let Some(timeline) = self.0.take() {
            drop(timeline.take());
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn slot(index: u32) -> Slot {
        Slot { index, generation: 7 }
    }

    #[test]
    fn what_is_recorded_is_read_in_order_with_names() {
        let timeline = Arc::new(Timeline::new(2));
        let recording = WorkerRecording::begin(&timeline).unwrap();
        assert!(WorkerRecording::begin(&timeline).is_none(), "one at a time");
        for number in 0..3_u32 {
            let name = || format!("process {number}");
            let event = (Deed::Slice, Monotonic(number.into()), Micros(5));
            timeline.note(0, event, Some((slot(number), &name)));
        }
        timeline.note(1, (Deed::Park, Monotonic(9), Micros(300)), None);
        let read = recording.end();
        let names: Vec<_> = read[0].events.iter().map(|event| event.process.as_deref().unwrap()).collect();
        assert_eq!(names, ["process 0", "process 1", "process 2"]);
        let park = WorkerEvent { deed: Deed::Park, begun: Monotonic(9), took: Micros(300), process: None };
        assert_eq!(read[1], WorkerTimeline { events: vec![park], lost: 0 });
        assert!(!timeline.is_armed());
        assert!(WorkerRecording::begin(&timeline).unwrap().end().iter().all(|worker| worker.events.is_empty()));
    }

    #[test]
    fn of_a_full_ring_the_newest_are_read() {
        let timeline = Arc::new(Timeline::new(1));
        let recording = WorkerRecording::begin(&timeline).unwrap();
        for number in 0..EVENTS_MAX + 10 {
            timeline.note(0, (Deed::Steal, Monotonic(number), Micros(0)), None);
        }
        let [worker] = &recording.end()[..] else { panic!("one worker") };
        assert_eq!((worker.lost, worker.events.len() as u64), (11, EVENTS_MAX - 1));
        assert_eq!(worker.events[0].begun, Monotonic(11));
        assert_eq!(worker.events.last().unwrap().begun, Monotonic(EVENTS_MAX + 9));
    }

    #[test]
    fn a_worker_may_write_while_somebody_reads() {
        let timeline = Arc::new(Timeline::new(1));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0.. {
                    if timeline.is_armed() {
                        timeline.note(0, (Deed::Slice, Monotonic(number), Micros(number)), None);
                    }
                    if stop.load(Relaxed) {
                        return;
                    }
                }
            });
            let mut seen = 0;
            for _ in 0..200 {
                let recording = WorkerRecording::begin(&timeline).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(300));
                for pair in recording.end()[0].events.windows(2) {
                    assert!(pair[0].begun < pair[1].begun && pair[1].took.0 == pair[1].begun.0, "{pair:?}");
                    seen += 1;
                }
            }
            assert!(seen > 0);
            stop.store(true, Relaxed);
        });
    }
}
