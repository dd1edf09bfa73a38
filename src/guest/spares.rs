//! Instances whose guests have ended, each ready for another guest of its component.
//!
//! To make an instance in the pool and to give it back takes system calls that change the memory's
//! map: where a guest has grown its memory and touched some pages, two `mprotect` and two
//! `madvise`, each of which interrupts every other worker to flush its TLB. That is several times
//! the work of a small guest. So an instance whose guest has closed is made a fresh one again where
//! it is ([`Template::reset`](super::snapshot::Template::reset)), and waits here for the next guest
//! of its component.
//!
//! The next guest may be another customer's, in another run. What it finds is what a fresh instance
//! has, because of each kind of state somebody answers for it:
//!
//! - memories, mutable globals: `reset` gives them their first content. A memory that has grown
//!   cannot be made smaller: such an instance goes back to the pool.
//! - tables, segments that were dropped, references, resources and everything else that the engine
//!   or the host keeps for a component: only components are taken that cannot have any, by the
//!   [verdict](super::snapshot::Verdict) on their bytes, which guests are evicted by as well.
//! - what the host keeps beside the instance (input, random stream, log, tags, WASI, counts): it gets a new
//!   [`Context`](super::context::Context) when its guest has ended, and another one for the next guest.
//! - fuel: it is set before every call. The bounds of the store are those of the limits, and an
//!   instance serves guests of equal limits only.
//! - an instance that has trapped, or whose `close` has, is never kept.
//! - the stack: compiled code reads nothing of it that it has not written.
//!
//! An instance is here or a guest's, never both: it is moved. While it is here it takes no seat of
//! a guest: the pool is made larger by as many as may be here ([`PERMIT_EACH`]). When there are too
//! many, the oldest goes back to the pool, whatever component it is of; those of a component that
//! is dropped go with it. Each holds 2 MiB of its memory at most, most of them a few pages, and
//! what its guests have used of a stack, 640 KiB at most.
//!
//! Rejected: to reset an instance when it is taken, as its guest's data would stay in memory for as
//! long as nobody comes; to shrink memories that have grown, as no engine offers it, and to take
//! the pages from the guest's reach is the `mprotect` that this avoids.

use super::component::Loaded;
use super::instance::Instance;
use super::saving;
use super::snapshot::PAGE_BYTES;
use crate::process::{Limits, Permit};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What an instance may take of the pool to be kept. An SDK's guest takes 3 core instances, a memory and 2 tables.
pub(super) const PERMIT_EACH: Permit = Permit { instances: 1, core_instances: 8, memories: 1, tables: 4, bytes: 0 };

/// Written pages beyond which an instance goes back to the pool. Estimated: to copy so many costs
/// as much as a new instance. A small guest writes five.
const PAGES_MAX: usize = 64;

/// Memory of an instance beyond which it goes back to the pool. Derived: the kernel's word on so
/// much takes some ten microseconds.
const MEMORY_BYTES_MAX: u64 = 4 << 20;

/// How many guests of a component end before it is learned how its instances are reset. Derived:
/// that takes as long as some hundred instances, so a host that ends after a few guests does not
/// pay for it.
const LEARN_AFTER: u32 = 64;

/// The instances of an engine that wait for guests.
pub(super) struct Spares {
    max: usize,
    inner: Mutex<Waiting>,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    /// The newest last: its memory is likeliest to be in a processor's cache.
    spares: VecDeque<Spare>,
    /// Those that are being given back: the pool has not got them yet.
    leaving: usize,
}

struct Spare {
    kind: Kind,
    instance: Instance,
    bytes: u64,
}

/// Tells a component of an engine from its others, for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind(u64);

/// What a component knows of its spares.
pub(super) struct Reuse {
    kind: Kind,
    /// Whether the component's bytes and its size allow it.
    fits: bool,
    /// Guests that have ended while it was not known how to reset their instances.
    ended: AtomicU32,
    /// It is being learned, or has been. Both guard no other data.
    learning: AtomicBool,
}

impl Spares {
    /// So many at most.
    pub(super) fn new(max: u32) -> Self {
        Self { max: max as usize, inner: Mutex::default(), bytes: AtomicU64::new(0) }
    }

    /// How many wait, and the bytes of memory that they hold.
    pub(super) fn held(&self) -> (usize, u64) {
        (self.inner.lock().spares.len(), self.bytes.load(Relaxed))
    }

    fn take(&self, kind: Kind, limits: &Limits) -> Option<Instance> {
        let spares = &mut self.inner.lock().spares;
        let found = spares.iter().rposition(|spare| spare.kind == kind && spare.instance.is_within(limits))?;
        let spare = spares.remove(found)?;
        self.bytes.fetch_sub(spare.bytes, Relaxed);
        Some(spare.instance)
    }

    fn put(&self, spare: Spare) {
        let oldest = {
            let Waiting { spares, leaving } = &mut *self.inner.lock();
            self.bytes.fetch_add(spare.bytes, Relaxed);
            spares.push_back(spare);
            let oldest = if spares.len() + *leaving > self.max { spares.pop_front() } else { None };
            self.bytes.fetch_sub(oldest.as_ref().map_or(0, |spare| spare.bytes), Relaxed);
            oldest
        };
        // Given back to the pool without the lock.
        drop(oldest);
    }

    fn forget(&self, kind: Kind) {
        let mut gone = Vec::new();
        {
            let Waiting { spares, leaving } = &mut *self.inner.lock();
            for spare in std::mem::take(spares) {
                if spare.kind == kind {
                    self.bytes.fetch_sub(spare.bytes, Relaxed);
                    gone.push(spare);
                } else {
                    spares.push_back(spare);
                }
            }
            *leaving += gone.len();
        }
        for spare in gone {
            drop(spare);
            self.inner.lock().leaving -= 1;
        }
    }
}

impl Reuse {
    /// Of a component whose instances take so much of the pool. `allowed` says whether its state can be reset.
    pub(super) fn new(permit: Permit, allowed: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let fits = permit.core_instances <= PERMIT_EACH.core_instances
            && permit.memories <= PERMIT_EACH.memories
            && permit.tables <= PERMIT_EACH.tables;
        Self {
            kind: Kind(NEXT.fetch_add(1, Relaxed)),
            fits: allowed && fits,
            ended: AtomicU32::new(0),
            learning: AtomicBool::new(false),
        }
    }
}

/// An instance of the component for a guest of these limits, as good as new. None: there is none.
pub(super) fn take(loaded: &Loaded, limits: &Limits) -> Option<Instance> {
    let Reuse { kind, fits, .. } = *loaded.reuse();
    if fits && saving::may_reset(loaded) { loaded.engine().spares().take(kind, limits) } else { None }
}

/// Resets the instance of a guest that has closed and lives in the pool, and puts it with the
/// spares. Gives it back where that cannot be.
pub(super) fn put(loaded: &Arc<Loaded>, mut instance: Instance) -> Result<(), Instance> {
    let reuse = loaded.reuse();
    let spares = loaded.engine().spares();
    // To ask the kernel about the pages takes time that grows with the memory, whatever was written.
    if !reuse.fits || spares.max == 0 || instance.store.data().memory_bytes() > MEMORY_BYTES_MAX {
        return Err(instance);
    }
    if loaded.has_to_learn() {
        learn(loaded);
        return Err(instance);
    }
    match saving::reset(loaded, &mut instance.store, PAGES_MAX) {
        Some(pages) => {
            instance.vacate(loaded);
            spares.put(Spare { kind: reuse.kind, instance, bytes: (pages * PAGE_BYTES) as u64 });
            Ok(())
        }
        None => Err(instance),
    }
}

/// A component is dropped.
pub(super) fn forget(loaded: &Loaded) {
    let Reuse { kind, fits, .. } = *loaded.reuse();
    if fits {
        loaded.engine().spares().forget(kind);
    }
}

/// Learns how a component's instances are reset, where enough of its guests have ended: on a thread
/// of its own, as it takes some milliseconds.
fn learn(loaded: &Arc<Loaded>) {
    let reuse = loaded.reuse();
    if reuse.ended.fetch_add(1, Relaxed) < LEARN_AFTER || reuse.learning.swap(true, Relaxed) {
        return;
    }
    let loaded = Arc::clone(loaded);
    // Without a thread, every guest has an instance of its own.
    let _ = std::thread::Builder::new().name("wfhost-learn".into()).spawn(move || loaded.template().is_some());
}
