//! Watching a run: what happens in it, as a bounded stream that costs nothing when nobody listens, and its outcome.

use super::state::{Abandoned, Counts};
use crate::process::{Answer, Ending, LogLine, Micros, Pid, Problem, Tag};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Something that happened in a run, in the order of its log.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEvent {
    /// A process was started.
    Spawned {
        /// The process.
        pid: Pid,
        /// Who spawned it; none for the root.
        parent: Option<Pid>,
        /// Its component; none is the root's program.
        component: Option<Arc<str>>,
        /// Its entry point.
        entry: Arc<str>,
        /// Its place in the workflow, `<node path>/<item>/<n>`, where its parent gave it one.
        scope: Option<Arc<str>>,
    },
    /// A process has a name.
    Named {
        /// The process.
        pid: Pid,
        /// The name.
        name: Arc<str>,
    },
    /// A process called a handler.
    Called {
        /// The process.
        pid: Pid,
        /// The call.
        tag: Tag,
        /// The handler.
        handler: Arc<str>,
        /// Its place in the workflow, where the process gave it one.
        scope: Option<Arc<str>>,
    },
    /// A call has its answer.
    Answered {
        /// The process.
        pid: Pid,
        /// The call.
        tag: Tag,
        /// What went wrong, where something did.
        problem: Option<Box<Problem>>,
    },
    /// A process wrote a line, or a handler did for a call of it.
    Logged {
        /// The process.
        pid: Pid,
        /// Of a handler's line: the call's place in the workflow, where the process gave it one.
        scope: Option<Arc<str>>,
        /// The line.
        line: LogLine,
    },
    /// A process has ended.
    Ended {
        /// The process.
        pid: Pid,
        /// How.
        ending: Ending,
    },
}

/// What a run came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How the root ended.
    pub ending: Ending,
    /// The root's output, or why there is none.
    pub result: Answer,
    /// How long it was to take at most, where it was asked to end for taking longer.
    pub late: Option<Micros>,
    /// Calls that processes did not wait for when they completed, as far as they are listed.
    pub abandoned: Vec<Abandoned>,
    /// Abandoned calls beyond the list.
    pub abandoned_more: u64,
    /// What happened, in numbers.
    pub counts: Counts,
}

impl Outcome {
    /// That of a run which goes on no more in this host, for a reason that is not its own.
    pub(super) fn of_problem(problem: Problem, counts: Counts) -> Self {
        let problem = Box::new(problem);
        let (ending, result) = (Ending::Failed(problem.clone()), Err(problem));
        Self { ending, result, late: None, abandoned: Vec::new(), abandoned_more: 0, counts }
    }
}

/// A place for one value that many may wait for.
pub(super) struct Once<T> {
    place: Mutex<(Option<T>, Vec<Waker>)>,
    set: Condvar,
}

impl<T: Clone> Once<T> {
    pub(super) fn new() -> Self {
        Self { place: Mutex::new((None, Vec::new())), set: Condvar::new() }
    }

    pub(super) fn set(&self, value: T) {
        let wakers = {
            let mut place = self.place.lock();
            place.0 = Some(value);
            std::mem::take(&mut place.1)
        };
        self.set.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn get(&self) -> Option<T> {
        self.place.lock().0.clone()
    }

    /// Waits on this thread; none where the timeout comes first.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Option<T> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut place = self.place.lock();
        while place.0.is_none() {
            match until {
                None => self.set.wait(&mut place),
                Some(until) if self.set.wait_until(&mut place, until).timed_out() => break,
                Some(_) => {}
            }
        }
        place.0.clone()
    }

    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<T> {
        let mut place = self.place.lock();
        if let Some(value) = &place.0 {
            return Poll::Ready(value.clone());
        }
        if !place.1.iter().any(|waker| waker.will_wake(context.waker())) {
            place.1.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// What happens in a run from now on, as far as there is room: what does not fit is dropped and counted, and the run goes on.
pub struct Events {
    shared: Arc<Shared>,
}

/// The side that tells: given to a run that begins, it tells from the first step on.
#[derive(Clone)]
pub struct Watcher(pub(super) Arc<Shared>);

pub(super) struct Shared {
    capacity: usize,
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<RunEvent>,
    dropped: u64,
    closed: bool,
    /// The receiver is gone.
    deaf: bool,
    waker: Option<Waker>,
}

impl Events {
    /// Events of a run that has not begun, at most `capacity` of them waiting, and what it is given to tell them.
    #[must_use]
    pub fn of_new_run(capacity: usize) -> (Self, Watcher) {
        let (events, shared) = Self::new(capacity);
        (events, Watcher(shared))
    }

    pub(super) fn new(capacity: usize) -> (Self, Arc<Shared>) {
        let shared = Arc::new(Shared { capacity, queue: Mutex::default(), more: Condvar::new() });
        (Self { shared: Arc::clone(&shared) }, shared)
    }

    /// The next event; waits for it on this thread. None when the run is over and all was taken.
    #[must_use]
    pub fn wait(&self) -> Option<RunEvent> {
        let mut queue = self.shared.queue.lock();
        loop {
            if let Some(event) = queue.events.pop_front() {
                return Some(event);
            }
            if queue.closed {
                return None;
            }
            self.shared.more.wait(&mut queue);
        }
    }

    /// The next event if it comes in time. None too when the run is over and all was taken: [`Self::is_over`] tells.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> Option<RunEvent> {
        let until = Instant::now().checked_add(timeout)?;
        let mut queue = self.shared.queue.lock();
        while queue.events.is_empty() && !queue.closed {
            if self.shared.more.wait_until(&mut queue, until).timed_out() {
                break;
            }
        }
        queue.events.pop_front()
    }

    /// Whether the run is over and all was taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.closed && queue.events.is_empty()
    }

    /// The next event, for one task at a time. None when the run is over and all was taken.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        let mut queue = self.shared.queue.lock();
        match queue.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if queue.closed => Poll::Ready(None),
            None => {
                queue.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next event. None when the run is over and all was taken.
    pub async fn next(&mut self) -> Option<RunEvent> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// How many events were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.queue.lock().dropped
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.queue.lock().deaf = true;
    }
}

impl Shared {
    /// Whether nobody listens any more.
    pub(super) fn is_deaf(&self) -> bool {
        self.queue.lock().deaf
    }

    /// Tells of an event. False: nobody listens any more.
    pub(super) fn push(&self, event: RunEvent) -> bool {
        let mut queue = self.queue.lock();
        if queue.deaf {
            return false;
        }
        if queue.events.len() >= self.capacity {
            queue.dropped += 1;
        } else {
            queue.events.push_back(event);
        }
        self.wake(queue);
        true
    }

    /// The run is over.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        self.wake(queue);
    }

    fn wake(&self, mut queue: parking_lot::MutexGuard<'_, Queue>) {
        let waker = queue.waker.take();
        drop(queue);
        self.more.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
