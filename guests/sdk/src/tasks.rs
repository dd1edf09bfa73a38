//! A set of futures that polls only those that were woken: the base of every combinator here.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Wakers must be `Send` and `Sync`, hence the locks. A guest has one thread: they never contend.
#[derive(Default)]
struct Ready {
    woken: Mutex<VecDeque<usize>>,
    owner: Mutex<Option<Waker>>,
}

struct TaskWaker {
    index: usize,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        // Relaxed: the lock below orders the queue itself.
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.woken.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.index);
            let owner = self.ready.owner.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(owner) = owner {
                owner.wake();
            }
        }
    }
}

struct Task<F> {
    future: Pin<Box<F>>,
    waker: Arc<TaskWaker>,
}

/// Futures that run concurrently. Indices are assigned in order of [`push`](Tasks::push).
pub(crate) struct Tasks<F> {
    all: Vec<Option<Task<F>>>,
    left: usize,
    ready: Arc<Ready>,
}

impl<F: Future> Tasks<F> {
    pub(crate) fn new() -> Self {
        Self { all: Vec::new(), left: 0, ready: Arc::default() }
    }

    pub(crate) fn push(&mut self, future: F) {
        let index = self.all.len();
        let waker = Arc::new(TaskWaker { index, queued: AtomicBool::new(false), ready: self.ready.clone() });
        // A new future is polled for the first time in its turn.
        waker.clone().wake();
        self.all.push(Some(Task { future: Box::pin(future), waker }));
        self.left += 1;
    }

    /// The number of unfinished futures.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The next finished future, with its index; `None` when all have finished.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, F::Output)>> {
        // The owner is set before the queue is read, so that no wake in between is lost.
        *self.ready.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        while self.left > 0 {
            let Some(index) = self.ready.woken.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else {
                return Poll::Pending;
            };
            let Some(task) = &mut self.all[index] else {
                continue;
            };
            // Cleared before the poll: a wake during it counts for the next one.
            task.waker.queued.store(false, Ordering::Relaxed);
            let waker = Waker::from(task.waker.clone());
            if let Poll::Ready(output) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.all[index] = None;
                self.left -= 1;
                return Poll::Ready(Some((index, output)));
            }
        }
        Poll::Ready(None)
    }
}
