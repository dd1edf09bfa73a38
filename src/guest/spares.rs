//! Instances whose guests have ended, each ready for another guest of its component.
//!
//! Making an instance in the pool and giving it back takes system calls that change the memory's
//! map: if a guest has grown its memory and touched some pages, two `mprotect` and two `madvise`,
//! each of which interrupts every other worker to flush its TLB. That is several times the work of
//! a small guest. So an instance whose guest has closed is reset to fresh in place
//! ([`Template::reset`](super::snapshot::Template::reset)), and waits here for the next guest of
//! its component.
//!
//! The next guest may belong to another customer, in another run. It finds what a fresh instance
//! has, because each kind of state is accounted for:
//!
//! - memories, mutable globals: `reset` restores their first content. A memory that has grown
//!   cannot shrink: such an instance goes back to the pool.
//! - tables, dropped segments, references, resources and everything else that the engine or the
//!   host holds for a component: only components that cannot have any are accepted, by the
//!   [verdict](super::snapshot::Verdict) on their bytes, which also decides whether guests are
//!   evicted.
//! - what the host holds beside the instance (input, random stream, log, tags, WASI, counts): it
//!   gets a new [`Context`](super::context::Context) when its guest has ended, and another one for
//!   the next guest.
//! - fuel: it is set before every call. The bounds of the store are those of the limits, and an
//!   instance serves only guests with equal limits.
//! - an instance that has trapped, or whose `close` has, is never reused.
//! - the stack: compiled code reads nothing of it that it has not written.
//!
//! An instance is either here or owned by a guest, never both: it is moved. While it is here it
//! takes no slot of a guest: the pool is enlarged by the number that may be here ([`PERMIT_EACH`]).
//! If there are too many, the oldest goes back to the pool, whatever its component; when a
//! component is dropped, its instances go with it. Each holds 2 MiB of its memory at most, usually
//! a few pages, and what its guests have used of a stack, 2 MiB at most.
//!
//! *Rejected.* Resetting an instance when it is taken: its guest's data would stay in memory until
//! the next guest comes. Shrinking memories that have grown: no engine offers it, and taking the
//! pages out of the guest's reach is the `mprotect` that this avoids.

use super::instance::Instance;
use super::loaded::Loaded;
use super::snapshot::PAGE_BYTES;
use super::stored;
use crate::process::{Limits, Permit};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What an instance may take of the pool to be reused. An SDK's guest takes 3 core instances, a
/// memory and 2 tables.
pub(super) const PERMIT_EACH: Permit = Permit { instances: 1, core_instances: 8, memories: 1, tables: 4, bytes: 0 };

/// Written pages beyond which an instance goes back to the pool. Estimated: copying this many costs
/// as much as a new instance. A small guest writes five.
const PAGES_MAX: usize = 64;

/// Memory of an instance beyond which it goes back to the pool. Derived: asking the kernel about
/// this much takes some ten microseconds.
const MEMORY_BYTES_MAX: u64 = 4 << 20;

/// Guests of a component that end before the host learns how to reset its instances. Derived:
/// learning takes as long as some hundred instances, so a host that ends after a few guests does
/// not pay for it.
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
    /// Instances being given back, which the pool does not have yet.
    returning: usize,
}

struct Spare {
    id: ComponentId,
    instance: Instance,
    bytes: u64,
}

/// Distinguishes the components of an engine, and is never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ComponentId(u64);

/// What a component knows about its spares.
pub(super) struct Reuse {
    id: ComponentId,
    /// Whether the component's bytes and its size allow reuse.
    fits: bool,
    /// Guests that ended before it was known how to reset their instances.
    ended: AtomicU32,
    /// Learning has begun, or has ended. Both fields guard no other data.
    learning: AtomicBool,
}

impl Spares {
    /// Makes room for at most `max` instances.
    pub(super) fn new(max: u32) -> Self {
        Self { max: max as usize, inner: Mutex::default(), bytes: AtomicU64::new(0) }
    }

    /// The number of waiting instances, and the bytes of memory that they hold.
    pub(super) fn held(&self) -> (usize, u64) {
        (self.inner.lock().spares.len(), self.bytes.load(Relaxed))
    }

    fn take(&self, id: ComponentId, limits: &Limits) -> Option<Instance> {
        let spares = &mut self.inner.lock().spares;
        let found = spares.iter().rposition(|spare| spare.id == id && spare.instance.is_within(limits))?;
        let spare = spares.remove(found)?;
        self.bytes.fetch_sub(spare.bytes, Relaxed);
        Some(spare.instance)
    }

    fn put(&self, spare: Spare) {
        let oldest = {
            let Waiting { spares, returning } = &mut *self.inner.lock();
            self.bytes.fetch_add(spare.bytes, Relaxed);
            spares.push_back(spare);
            let oldest = if spares.len() + *returning > self.max { spares.pop_front() } else { None };
            self.bytes.fetch_sub(oldest.as_ref().map_or(0, |spare| spare.bytes), Relaxed);
            oldest
        };
        // Given back to the pool without the lock.
        drop(oldest);
    }

    fn forget(&self, id: ComponentId) {
        let mut gone = Vec::new();
        {
            let Waiting { spares, returning } = &mut *self.inner.lock();
            for spare in std::mem::take(spares) {
                if spare.id == id {
                    self.bytes.fetch_sub(spare.bytes, Relaxed);
                    gone.push(spare);
                } else {
                    spares.push_back(spare);
                }
            }
            *returning += gone.len();
        }
        for spare in gone {
            drop(spare);
            self.inner.lock().returning -= 1;
        }
    }
}

impl Reuse {
    /// For a component whose instances take `permit` of the pool. `allowed` says whether its state
    /// can be reset.
    pub(super) fn new(permit: Permit, allowed: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let fits = permit.core_instances <= PERMIT_EACH.core_instances
            && permit.memories <= PERMIT_EACH.memories
            && permit.tables <= PERMIT_EACH.tables;
        Self {
            id: ComponentId(NEXT.fetch_add(1, Relaxed)),
            fits: allowed && fits,
            ended: AtomicU32::new(0),
            learning: AtomicBool::new(false),
        }
    }
}

/// Takes an instance of the component for a guest with these limits, as good as new; `None` if
/// there is none.
pub(super) fn take(loaded: &Loaded, limits: &Limits) -> Option<Instance> {
    let Reuse { id, fits, .. } = *loaded.reuse();
    if fits && stored::can_reset(loaded) { loaded.engine().spares().take(id, limits) } else { None }
}

/// Resets the instance of a guest that has closed and lives in the pool, and adds it to the spares.
/// Returns the instance if that is impossible.
pub(super) fn put(loaded: &Arc<Loaded>, mut instance: Instance) -> Result<(), Instance> {
    let reuse = loaded.reuse();
    let spares = loaded.engine().spares();
    // Asking the kernel about the pages takes time that grows with the memory, whatever was
    // written.
    if !reuse.fits || spares.max == 0 || instance.store.data().memory_bytes() > MEMORY_BYTES_MAX {
        return Err(instance);
    }
    if loaded.has_to_learn() {
        learn(loaded);
        return Err(instance);
    }
    match stored::reset(loaded, &mut instance.store, PAGES_MAX) {
        Some(pages) => {
            instance.drop_guest(loaded);
            spares.put(Spare { id: reuse.id, instance, bytes: (pages * PAGE_BYTES) as u64 });
            Ok(())
        }
        None => Err(instance),
    }
}

/// Drops the spares of a component that is dropped.
pub(super) fn forget(loaded: &Loaded) {
    let Reuse { id, fits, .. } = *loaded.reuse();
    if fits {
        loaded.engine().spares().forget(id);
    }
}

/// Learns how a component's instances are reset, once enough of its guests have ended.
fn learn(loaded: &Arc<Loaded>) {
    if loaded.reuse().ended.fetch_add(1, Relaxed) >= LEARN_AFTER {
        learn_now(loaded);
    }
}

/// Learns that on a thread of its own, as it takes some milliseconds.
pub(super) fn learn_now(loaded: &Arc<Loaded>) {
    if loaded.reuse().learning.swap(true, Relaxed) {
        return;
    }
    let loaded = Arc::clone(loaded);
    // Without a thread, every guest gets an instance of its own.
    let _ = std::thread::Builder::new().name("wfhost-learn".into()).spawn(move || loaded.template().is_some());
}
