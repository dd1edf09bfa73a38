//! Bounds how many calls of a handler run, how many wait, and how often they begin.
//!
//! A call takes a permit first and a token of the rate then. So the rate limits how often calls
//! *begin*, and calls begin in the order in which they came.

use super::handler::{Declaration, Rate};
use super::problems;
use crate::process::Problem;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// When to try again if the handler has no rate. Arbitrary.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The limits of one handler.
pub(super) struct Gate {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
    bucket: Option<Mutex<Bucket>>,
    epoch: Instant,
}

/// The right to run, given back on drop.
pub(super) struct Permit(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// A place in the queue of a gate, given back on drop.
pub(super) struct QueueTicket(Arc<Gate>);

/// How the gate admitted a call.
pub(super) enum Admitted {
    /// The call may run at once.
    Running(Permit),
    /// The call waits for its permit.
    Queued(QueueTicket),
}

impl Gate {
    pub(super) fn new(declaration: &Declaration) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(declaration.concurrent_max.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            waiting_max: declaration.waiting_max,
            bucket: declaration.rate.map(|rate| Mutex::new(Bucket::new(rate))),
            epoch: Instant::now(),
        })
    }

    /// Admits a call to run or to the queue.
    ///
    /// # Errors
    /// `too-many-calls`: the queue is full.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Admitted, Problem> {
        // The semaphore is fair: while a call waits for a permit, none is free.
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned()
            && self.bucket.as_ref().is_none_or(|bucket| bucket.lock().try_take(self.epoch.elapsed()))
        {
            return Ok(Admitted::Running(Permit(permit)));
        }
        // Relaxed: the count guards nothing but itself.
        let took = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            (waiting < self.waiting_max).then_some(waiting + 1)
        });
        match took {
            Ok(_) => Ok(Admitted::Queued(QueueTicket(Arc::clone(self)))),
            Err(_) => Err(problems::too_many_calls(self.waiting_max, self.retry_after())),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn retry_after(&self) -> Duration {
        let in_time = self.bucket.as_ref().map(|bucket| bucket.lock().wait(self.epoch.elapsed()));
        in_time.filter(|wait| !wait.is_zero()).unwrap_or(RETRY_AFTER)
    }
}

impl QueueTicket {
    /// Waits for the call's permit, and until the rate allows it to begin.
    pub(super) async fn permit(self) -> Permit {
        let gate = &self.0;
        let permit = Arc::clone(&gate.permits).acquire_owned().await.expect("invariant: the semaphore is never closed");
        let wait = gate.bucket.as_ref().map(|bucket| bucket.lock().reserve(gate.epoch.elapsed()));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            tokio::time::sleep(wait).await;
        }
        Permit(permit)
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A token bucket in the form of the generic cell rate algorithm (ITU-T I.371): its only state is
/// the time at which the bucket will be full again. It has no clock; its caller passes the time.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    full_at: Duration,
}

impl Bucket {
    fn new(rate: Rate) -> Self {
        Self { rate, full_at: Duration::ZERO }
    }

    /// Returns how long a call that comes now would have to wait.
    fn wait(&self, now: Duration) -> Duration {
        let tolerance = self.rate.interval.saturating_mul(self.rate.burst.saturating_sub(1));
        self.full_at.max(now).saturating_sub(tolerance).saturating_sub(now)
    }

    /// Takes a token, perhaps a future one. Returns how long to wait for it.
    fn reserve(&mut self, now: Duration) -> Duration {
        let wait = self.wait(now);
        self.full_at = self.full_at.max(now).saturating_add(self.rate.interval);
        wait
    }

    /// Takes a token if there is one now. Returns whether there was.
    fn try_take(&mut self, now: Duration) -> bool {
        let is_there = self.wait(now).is_zero();
        if is_there {
            self.reserve(now);
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_is_admitted_and_then_one_call_an_interval() {
        let interval = Duration::from_secs(10);
        let mut bucket = Bucket::new(Rate { interval, burst: 3 });
        let now = Duration::from_secs(100);
        assert!((0..3).all(|_| bucket.try_take(now)));
        assert!(!bucket.try_take(now));
        assert_eq!(bucket.reserve(now), interval);
        assert_eq!(bucket.reserve(now), interval * 2);
        assert!(!bucket.try_take(now + interval * 2));
        assert!(bucket.try_take(now + interval * 3));
    }

    proptest! {
        #[test]
        fn no_window_has_more_starts_than_the_rate_allows(
            interval in 1_u64..1000,
            burst in 1_u32..8,
            gaps in proptest::collection::vec(0_u64..3000, 1..60),
        ) {
            let mut bucket = Bucket::new(Rate { interval: Duration::from_millis(interval), burst });
            let mut now = Duration::ZERO;
            let mut starts = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                starts.push(now + bucket.reserve(now));
            }
            prop_assert!(starts.is_sorted());
            for (first, begin) in starts.iter().enumerate() {
                for (last, end) in starts.iter().enumerate().skip(first) {
                    let allowed = u128::from(burst) + end.saturating_sub(*begin).as_millis() / u128::from(interval);
                    prop_assert!((last - first + 1) as u128 <= allowed);
                }
            }
        }
    }

    fn gate(concurrent_max: usize, waiting_max: usize) -> Arc<Gate> {
        Gate::new(&Declaration::new("").concurrency(concurrent_max, waiting_max))
    }

    #[test]
    fn a_gate_refuses_calls_beyond_its_queue_and_a_dropped_ticket_makes_room() {
        let gate = gate(1, 1);
        let Ok(Admitted::Running(running)) = gate.enter() else { panic!("the first runs") };
        let Ok(Admitted::Queued(ticket)) = gate.enter() else { panic!("the second waits") };
        let refused = gate.enter().err().unwrap();
        assert_eq!(refused.kind, problems::kind::TOO_MANY_CALLS);
        assert!(refused.retry_after.is_some());
        drop(ticket);
        assert_eq!(gate.waiting(), 0);
        assert!(matches!(gate.enter(), Ok(Admitted::Queued(_))));
        drop(running);
        assert!(matches!(gate.enter(), Ok(Admitted::Running(_))));
    }

    #[test]
    fn a_newcomer_does_not_overtake_queued_calls() {
        let gate = gate(1, 5);
        let Ok(Admitted::Running(running)) = gate.enter() else { panic!("the first runs") };
        let Ok(Admitted::Queued(ticket)) = gate.enter() else { panic!("the second waits") };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut permit = Box::pin(ticket.permit());
            assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(permit.as_mut().poll(cx).is_pending())).await);
            drop(running);
            assert!(matches!(gate.enter(), Ok(Admitted::Queued(_))));
            permit.await;
        });
    }
}
