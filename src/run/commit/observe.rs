//! Watching a run: its events, as a bounded stream that costs nothing without receivers, and its
//! outcome.

use super::run::Inner;
use crate::base::brief;
use crate::run::state::events::RunEvent;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A cell for one value that many may wait for. The first value that is set stays.
pub(in crate::run) struct Once<T> {
    cell: Mutex<OnceState<T>>,
    set: Condvar,
}

struct OnceState<T> {
    value: Option<T>,
    /// Wakers of the futures that wait, by their numbers. A future that is dropped removes its own.
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

impl<T: Clone> Once<T> {
    pub(in crate::run) fn new() -> Self {
        Self { cell: Mutex::new(OnceState { value: None, wakers: BTreeMap::new(), next: 0 }), set: Condvar::new() }
    }

    /// Makes one that is set already.
    pub(in crate::run) fn of(value: T) -> Self {
        let once = Self::new();
        once.cell.lock().value = Some(value);
        once
    }

    /// Sets it, unless it is set already. It calls wakers, which are foreign code.
    pub(in crate::run) fn set(&self, value: T) {
        let wakers = {
            let mut cell = self.cell.lock();
            if cell.value.is_some() {
                return;
            }
            cell.value = Some(value);
            std::mem::take(&mut cell.wakers)
        };
        self.set.notify_all();
        wakers.into_values().collect::<Wakers>().wake();
    }

    pub(in crate::run) fn get(&self) -> Option<T> {
        self.cell.lock().value.clone()
    }

    /// Waits on this thread. `None` if the timeout comes first.
    pub(in crate::run) fn wait(&self, timeout: Option<Duration>) -> Option<T> {
        brief::waits();
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut cell = self.cell.lock();
        while cell.value.is_none() {
            match until {
                None => self.set.wait(&mut cell),
                Some(until) if self.set.wait_until(&mut cell, until).timed_out() => break,
                Some(_) => {}
            }
        }
        cell.value.clone()
    }

    /// Waits until it is set.
    pub(in crate::run) fn future(&self) -> OnceFuture<'_, T> {
        OnceFuture { once: self, number: None }
    }

    /// Returns how many futures wait.
    #[cfg(test)]
    pub(in crate::run) fn waiting(&self) -> usize {
        self.cell.lock().wakers.len()
    }
}

/// Waits for a value.
pub(in crate::run) struct OnceFuture<'a, T> {
    once: &'a Once<T>,
    /// The number of its waker, once it is registered.
    number: Option<u64>,
}

impl<T: Clone> Future for OnceFuture<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let once = self.once;
        let mut cell = once.cell.lock();
        if let Some(value) = &cell.value {
            return Poll::Ready(value.clone());
        }
        let number = *self.number.get_or_insert_with(|| {
            cell.next += 1;
            cell.next
        });
        let before = cell.wakers.insert(number, context.waker().clone());
        drop(cell);
        drop(before);
        Poll::Pending
    }
}

impl<T> Drop for OnceFuture<'_, T> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = self.once.cell.lock().wakers.remove(&number);
            drop(waker);
        }
    }
}

/// Wakers to be called when all locks are released: they are foreign code.
#[derive(Default)]
#[must_use = "the tasks would never be woken"]
pub(in crate::run) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(in crate::run) fn wake(self) {
        brief::waits();
        self.0.into_iter().for_each(Waker::wake);
    }
}

impl FromIterator<Waker> for Wakers {
    fn from_iter<I: IntoIterator<Item = Waker>>(wakers: I) -> Self {
        Self(wakers.into_iter().collect())
    }
}

/// The events of a run from now on, at most as many as fit: others are dropped and counted, and the
/// run continues.
pub struct Events {
    shared: Arc<EventChannel>,
}

/// The sending side of [`Events`]: a run that begins with it reports from its first step on.
#[derive(Clone)]
pub struct Watcher(pub(in crate::run) Arc<EventChannel>);

pub(in crate::run) struct EventChannel {
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
    abandoned: bool,
    waker: Option<Waker>,
}

impl Events {
    /// Makes the stream of a run that has not begun, with at most `capacity` events waiting, and
    /// the watcher that feeds it.
    #[must_use]
    pub fn of_new_run(capacity: usize) -> (Self, Watcher) {
        let (events, shared) = Self::new(capacity);
        (events, Watcher(shared))
    }

    pub(in crate::run) fn new(capacity: usize) -> (Self, Arc<EventChannel>) {
        let shared = Arc::new(EventChannel { capacity, queue: Mutex::default(), more: Condvar::new() });
        (Self { shared: Arc::clone(&shared) }, shared)
    }

    /// Returns the next event; waits for it on this thread. `None` if the run has ended and all
    /// events were taken.
    #[must_use]
    pub fn wait(&self) -> Option<RunEvent> {
        brief::waits();
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

    /// Returns the next event if it comes in time. `None` also if the run has ended and all events
    /// were taken: [`Self::is_over`] tells these apart.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> Option<RunEvent> {
        brief::waits();
        let until = Instant::now().checked_add(timeout)?;
        let mut queue = self.shared.queue.lock();
        while queue.events.is_empty() && !queue.closed {
            if self.shared.more.wait_until(&mut queue, until).timed_out() {
                break;
            }
        }
        queue.events.pop_front()
    }

    /// Returns whether the run has ended and all events were taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.closed && queue.events.is_empty()
    }

    /// Polls for the next event, for one task at a time. `None` if the run has ended and all events
    /// were taken.
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

    /// Waits for the next event. `None` if the run has ended and all events were taken.
    pub async fn next(&mut self) -> Option<RunEvent> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Returns how many events were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.queue.lock().dropped
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.queue.lock().abandoned = true;
    }
}

impl EventChannel {
    /// Whether the receiver is gone.
    pub(in crate::run) fn is_abandoned(&self) -> bool {
        self.queue.lock().abandoned
    }

    /// Sends an event. Returns whether the receiver is still there.
    pub(in crate::run) fn push(&self, event: RunEvent, wakers: &mut Wakers) -> bool {
        let mut queue = self.queue.lock();
        if queue.abandoned {
            return false;
        }
        if queue.events.len() >= self.capacity {
            queue.dropped += 1;
        } else {
            queue.events.push_back(event);
        }
        self.notify(queue, wakers);
        true
    }

    /// Ends the stream: the run has ended.
    pub(in crate::run) fn close(&self, wakers: &mut Wakers) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        self.notify(queue, wakers);
    }

    fn notify(&self, mut queue: parking_lot::MutexGuard<'_, Queue>, wakers: &mut Wakers) {
        wakers.0.extend(queue.waker.take());
        drop(queue);
        self.more.notify_one();
    }
}

impl Inner {
    /// Reports the existing processes to a watcher, and events from now on.
    pub(in crate::run) fn watched_by(&mut self, watcher: Option<Watcher>, wakers: &mut Wakers) {
        if let Some(Watcher(watcher)) = watcher {
            self.report_processes(&watcher, wakers);
            self.watch(watcher, wakers);
        }
    }

    /// Reports the existing processes to a watcher.
    pub(in crate::run) fn report_processes(&self, watcher: &EventChannel, wakers: &mut Wakers) {
        for (pid, entry) in self.state.table.iter() {
            let spawned = RunEvent::Spawned {
                pid,
                parent: entry.parent.map(|(parent, _)| parent),
                component: entry.component.clone(),
                entry: Arc::clone(&entry.entrypoint),
                scope: entry.key_path.scope(),
            };
            watcher.push(spawned, wakers);
        }
    }

    /// Reports events to a watcher from now on.
    pub(in crate::run) fn watch(&mut self, watcher: Arc<EventChannel>, wakers: &mut Wakers) {
        if self.has_ended {
            watcher.close(wakers);
        } else {
            self.state.observed = true;
            self.watchers.push(watcher);
        }
    }
}
