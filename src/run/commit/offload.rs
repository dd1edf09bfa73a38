//! A thread for work that would block a worker: it starts with the first piece, and does one after
//! the other.
//!
//! In a simulation there is no such thread: a caller of `flush` does the work.

use crate::base::brief;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

type Offloaded = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    work: VecDeque<Offloaded>,
    busy: bool,
    closing: bool,
    /// No thread is started: a flush does the work.
    by_hand: bool,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Notified when there is work, or the end.
    more: Condvar,
    /// Notified when no work is left.
    idle: Condvar,
}

/// A handle of the thread. Dropped, it drops the work that has not begun.
pub(in crate::run) struct OffloadThread {
    name: &'static str,
    shared: Arc<Shared>,
}

impl OffloadThread {
    pub(in crate::run) fn new(name: &'static str) -> Self {
        Self { name, shared: Arc::default() }
    }

    /// Has work wait until a flush does it. For simulation.
    pub(in crate::run) fn do_by_hand(&self) {
        self.shared.queue.lock().by_hand = true;
    }

    /// Adds work. Returns whether it was accepted: not if no thread can be started, or the thread
    /// ends.
    pub(in crate::run) fn push(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let mut queue = self.shared.queue.lock();
        if queue.closing {
            return false;
        }
        if queue.thread.is_none() && !queue.by_hand {
            let shared = Arc::clone(&self.shared);
            queue.thread = std::thread::Builder::new().name(self.name.to_owned()).spawn(move || shared.run()).ok();
            if queue.thread.is_none() {
                return false;
            }
        }
        queue.work.push_back(Box::new(work));
        drop(queue);
        self.shared.more.notify_one();
        true
    }

    /// Waits until all work that was added is done.
    pub(in crate::run) fn flush(&self) {
        brief::waits();
        let mut queue = self.shared.queue.lock();
        while queue.busy || !queue.work.is_empty() {
            if !queue.by_hand {
                self.shared.idle.wait(&mut queue);
            } else if let Some(work) = queue.work.pop_front() {
                drop(queue);
                work();
                queue = self.shared.queue.lock();
            }
        }
    }
}

impl Drop for OffloadThread {
    fn drop(&mut self) {
        let (thread, work) = {
            let mut queue = self.shared.queue.lock();
            queue.closing = true;
            (queue.thread.take(), std::mem::take(&mut queue.work))
        };
        drop(work);
        self.shared.more.notify_one();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            brief::waits();
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                queue.busy = true;
                drop(queue);
                // A panic ends this piece of work only. The work itself notifies those who must
                // know.
                let _ = catch_unwind(AssertUnwindSafe(work));
                queue = self.queue.lock();
                queue.busy = false;
            } else if queue.closing {
                return;
            } else {
                self.idle.notify_all();
                self.more.wait(&mut queue);
            }
        }
    }
}
