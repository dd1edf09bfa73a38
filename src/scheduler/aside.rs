//! What takes longer than a turn may: on threads of their own, so that no worker is held up.
//!
//! Three things can: to take the instance of a process away, to make room for one, and to drop what is left of one that has ended. In
//! each the process belongs to whoever moved it there (it is Evicting; or Ready and in no run queue yet; or out of the table), wherever
//! that happens, and what comes meanwhile is in the word's bits. So no worker is needed. There are at most as many such threads as
//! workers, and none when there is nothing to do.

use super::handle::Handle;
use super::place::Body;
use super::shared::Shared;
use super::{Commit, Slot};
use crate::base::sync::{Mutex, thread};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What is done aside.
#[derive(Debug)]
pub(super) enum Chore<P> {
    /// It is Evicting: take its permit away.
    Evict(Slot),
    /// It has its permit, and is to be told so before it is enqueued.
    Admit(Slot),
    /// It has ended: drop it, and then give its permit back.
    Drop(Body<P>),
}

/// Chores that wait for a thread, and how many threads there are.
#[derive(Debug)]
pub(crate) struct Aside<P> {
    inner: Mutex<Inner<P>>,
}

#[derive(Debug)]
struct Inner<P> {
    waiting: VecDeque<Chore<P>>,
    threads: usize,
}

impl<P> Aside<P> {
    pub(super) fn new() -> Self {
        Self { inner: Mutex::new(Inner { waiting: VecDeque::new(), threads: 0 }) }
    }

    /// Puts one into the queue. True: there is to be one more thread.
    fn push(&self, chore: Chore<P>, threads_max: usize) -> bool {
        let mut inner = self.inner.lock();
        inner.waiting.push_back(chore);
        let more = inner.threads < threads_max;
        inner.threads += usize::from(more);
        more
    }

    /// The next one. None: the thread is to end.
    fn pop(&self) -> Option<Chore<P>> {
        let mut inner = self.inner.lock();
        let chore = inner.waiting.pop_front();
        inner.threads -= usize::from(chore.is_none());
        chore
    }
}

impl<C: Commit> Shared<C> {
    /// Does it on another thread, where the machine gives one.
    pub(super) fn put_aside(&self, chore: Chore<C::Process>) {
        if !self.aside.push(chore, self.workers()) {
            return;
        }
        let shared = self.me.upgrade().expect("invariant: whoever calls keeps it");
        let theirs = Arc::clone(&shared);
        let spawned = thread::Builder::new().name("aside".to_owned()).spawn(move || theirs.do_chores());
        if spawned.is_err() {
            shared.do_chores();
        }
    }

    fn do_chores(self: &Arc<Self>) {
        let handle = Handle(Arc::clone(self));
        while let Some(chore) = self.aside.pop() {
            match chore {
                Chore::Evict(slot) => {
                    if let Some(placed) = self.evict(slot) {
                        handle.follow(slot, placed);
                    }
                }
                Chore::Admit(slot) => {
                    self.tell_admitted(slot);
                    handle.enqueue(slot, None);
                }
                Chore::Drop(body) => {
                    if !self.drop_body(body) {
                        self.panicked_outside();
                    }
                    // A permit has come back.
                    self.sleep.notify();
                }
            }
        }
    }

    /// Drops what is left of a process, and then gives its permit back: while its instance is there, nobody else can have it. False: its
    /// own drop panicked.
    pub(super) fn drop_body(&self, body: Body<C::Process>) -> bool {
        let Body { process, permit, standing } = body;
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(process)));
        if let Some(seat) = standing.seat() {
            self.admission.release(permit, seat);
        }
        dropped.is_ok()
    }
}
