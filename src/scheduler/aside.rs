//! Evictions that take longer than a turn may: on threads of their own, so that no worker is held up.
//!
//! A process is Evicting until its eviction is over, wherever that happens; whoever opens its body then owns it. So an eviction needs no
//! worker, and what came meanwhile is in the word's bits. There are at most as many such threads as workers, and none when there is
//! nothing to evict.

use super::handle::Handle;
use super::shared::Shared;
use super::{Commit, Slot};
use crate::base::sync::{Mutex, thread};
use std::collections::VecDeque;
use std::sync::Arc;

/// Evictions that wait for a thread, and how many threads there are.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Slot>,
    threads: usize,
}

impl Aside {
    /// Puts one into the queue. True: there is to be one more thread.
    fn push(&self, slot: Slot, threads_max: usize) -> bool {
        let mut inner = self.inner.lock();
        inner.waiting.push_back(slot);
        let more = inner.threads < threads_max;
        inner.threads += usize::from(more);
        more
    }

    /// The next one. None: the thread is to end.
    fn pop(&self) -> Option<Slot> {
        let mut inner = self.inner.lock();
        let slot = inner.waiting.pop_front();
        inner.threads -= usize::from(slot.is_none());
        slot
    }
}

impl<C: Commit> Shared<C> {
    /// Takes the permit of a process away that is Evicting, on another thread where the machine gives one.
    pub(super) fn evict_aside(self: &Arc<Self>, slot: Slot) {
        if !self.aside.push(slot, self.workers()) {
            return;
        }
        let shared = Arc::clone(self);
        let spawned = thread::Builder::new().name("evictor".to_owned()).spawn(move || shared.evict_all());
        if spawned.is_err() {
            self.evict_all();
        }
    }

    fn evict_all(self: &Arc<Self>) {
        let handle = Handle(Arc::clone(self));
        while let Some(slot) = self.aside.pop() {
            handle.follow(slot, self.evict(slot));
        }
    }
}
