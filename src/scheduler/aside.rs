//! Work that takes longer than a turn may, on threads of its own, so that no worker is held up.
//!
//! Three chores can: taking a process's instance away, making room for one, and dropping what is
//! left of a process that has ended. In each the process belongs to the thread that moved it there
//! (it is Evicting; or Ready and in no run queue yet; or out of the table), whichever thread that
//! is, and the word's bits record what comes meanwhile. So no worker is needed. There are at most
//! as many such threads as workers. Each is started when there is more to do than the others can,
//! and then waits for the next chore until the scheduler stops, which waits for it: every chore is
//! done by then.

use super::handle::Handle;
use super::place::Body;
use super::shared::Shared;
use super::{Commit, Slot};
use crate::base::foreign;
use crate::base::sync::{Mutex, Signal, thread};
use std::collections::VecDeque;
use std::sync::Arc;

/// A chore.
#[derive(Debug)]
pub(super) enum Chore<P> {
    /// It is Evicting: take its permit away.
    Evict(Slot),
    /// It has its permit: report that to it, then enqueue it.
    Admit(Slot),
    /// It has ended: drop it, and then give its permit back.
    Drop(Body<P>),
}

/// The caller's duty after a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
enum Pushed {
    /// A thread will do it.
    Taken,
    /// The thread of this number is to be started.
    Start(usize),
    /// No thread will: the caller does the waiting chores.
    DoHere,
}

/// Chores that wait for a thread, and the threads.
#[derive(Debug)]
pub(crate) struct Aside<P> {
    inner: Mutex<Inner<P>>,
    /// One for each thread that there can be.
    signals: Box<[Signal]>,
}

#[derive(Debug)]
struct Inner<P> {
    waiting: VecDeque<Chore<P>>,
    /// Threads that wait for their signal. The thread that takes one out sets it.
    idle: Vec<usize>,
    /// The numbers of threads that are not started.
    unstarted: Vec<usize>,
    threads: Vec<thread::JoinHandle<()>>,
    stopped: bool,
}

impl<P> Aside<P> {
    /// Makes a queue of chores for at most so many threads; with none, the caller does them.
    pub(super) fn new(threads_max: usize) -> Self {
        let inner = Inner {
            waiting: VecDeque::new(),
            idle: Vec::with_capacity(threads_max),
            unstarted: (0..threads_max).rev().collect(),
            threads: Vec::with_capacity(threads_max),
            stopped: false,
        };
        Self { inner: Mutex::new(inner), signals: (0..threads_max).map(|_| Signal::default()).collect() }
    }

    /// Puts a chore into the queue.
    fn push(&self, chore: Chore<P>) -> Pushed {
        let mut inner = self.inner.lock();
        inner.waiting.push_back(chore);
        if inner.stopped || self.signals.is_empty() {
            return Pushed::DoHere;
        }
        if let Some(idle) = inner.idle.pop() {
            drop(inner);
            self.signals[idle].set();
            return Pushed::Taken;
        }
        // A thread that is being started takes it, or the thread that fails to start that one.
        inner.unstarted.pop().map_or(Pushed::Taken, Pushed::Start)
    }

    /// The thread of this number could not be started: the next push tries again. The caller does
    /// the waiting chores.
    fn not_started(&self, number: usize) {
        self.inner.lock().unstarted.push(number);
    }

    fn pop(&self) -> Option<Chore<P>> {
        self.inner.lock().waiting.pop_front()
    }

    /// Waits for the next chore of a thread. `None` if the thread must end.
    fn next(&self, number: usize) -> Option<Chore<P>> {
        loop {
            let mut inner = self.inner.lock();
            if let Some(chore) = inner.waiting.pop_front() {
                return Some(chore);
            }
            if inner.stopped {
                return None;
            }
            inner.idle.push(number);
            drop(inner);
            self.signals[number].wait(None);
        }
    }

    /// Ends the threads when no chore waits, and joins them.
    pub(super) fn stop(&self) {
        let (idle, threads) = {
            let mut inner = self.inner.lock();
            inner.stopped = true;
            (std::mem::take(&mut inner.idle), std::mem::take(&mut inner.threads))
        };
        for number in idle {
            self.signals[number].set();
        }
        let own = thread::current().id();
        for thread in threads {
            // A thread may drop the last owner of the scheduler here: it cannot wait for itself.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

impl<C: Commit> Shared<C> {
    /// Does the chore on another thread, if the machine gives one.
    pub(super) fn put_aside(&self, chore: Chore<C::Process>) {
        let pushed = self.aside.push(chore);
        let shared = self.me.upgrade().expect("invariant: whoever calls keeps it");
        if let Pushed::Start(number) = pushed {
            let theirs = Arc::clone(&shared);
            let work = move || {
                while let Some(chore) = theirs.aside.next(number) {
                    theirs.do_chore(chore);
                }
            };
            if let Ok(thread) = thread::Builder::new().name("aside".to_owned()).spawn(work) {
                return self.aside.inner.lock().threads.push(thread);
            }
            self.aside.not_started(number);
        }
        if !matches!(pushed, Pushed::Taken) {
            while let Some(chore) = self.aside.pop() {
                shared.do_chore(chore);
            }
        }
    }

    fn do_chore(self: &Arc<Self>, chore: Chore<C::Process>) {
        let handle = Handle(Arc::clone(self));
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
                if self.drop_body(body).is_err() {
                    self.panicked_outside();
                }
            }
        }
        // A permit may have come back, or an eviction was refused.
        self.sleep.notify();
    }

    /// Drops what is left of a process, then gives its permit back: while its instance exists, no
    /// other process can have the permit. Fails if the drop panicked.
    pub(super) fn drop_body(&self, body: Body<C::Process>) -> Result<(), String> {
        let Body { process, permit, standing } = body;
        let dropped = foreign::call(|| drop(process));
        if let Some(seat) = standing.seat() {
            self.admission.release(permit, seat);
        }
        dropped
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn chore() -> Chore<()> {
        Chore::Evict(Slot { index: 0, generation: 0 })
    }

    #[test]
    fn a_thread_that_was_not_to_be_had_is_asked_for_again() {
        let aside = Aside::new(2);
        for number in [0, 0, 0] {
            assert_eq!(aside.push(chore()), Pushed::Start(number));
            aside.not_started(number);
        }
        assert_eq!(
            [aside.push(chore()), aside.push(chore()), aside.push(chore())],
            [Pushed::Start(0), Pushed::Start(1), Pushed::Taken]
        );
        // The first could not be started, and the second is: no number is given twice.
        aside.not_started(0);
        assert_eq!([aside.push(chore()), aside.push(chore())], [Pushed::Start(0), Pushed::Taken]);
    }
}
