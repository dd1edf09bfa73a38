//! Bounds how many calls of a handler run, how many wait, and how often they begin.
//!
//! A call takes a permit first and a token of the rate then. So the rate limits how often calls
//! *begin*, and calls begin in the order in which they came. One call at a time waits for a token,
//! and takes it only when it begins: a call that is abandoned as it waits has taken none.
//! *Rejected*: a token of the future for each call that waits. Those of calls that time out would
//! be lost, and retries of them would wait ever longer.

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
    concurrent_max: usize,
    waiting: AtomicUsize,
    waiting_max: usize,
    bucket: Option<Mutex<Bucket>>,
    /// The right to take a token.
    turn: Semaphore,
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
    /// The gate that a handler declares.
    pub(super) fn new(declaration: &Declaration) -> Arc<Self> {
        Self::of(declaration.concurrent_max, declaration.waiting_max, declaration.rate)
    }

    pub(super) fn of(concurrent_max: usize, waiting_max: usize, rate: Option<Rate>) -> Arc<Self> {
        let concurrent_max = concurrent_max.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(concurrent_max)),
            concurrent_max,
            waiting: AtomicUsize::new(0),
            waiting_max,
            bucket: rate.map(|rate| Mutex::new(Bucket::new(rate))),
            turn: Semaphore::new(1),
            epoch: Instant::now(),
        })
    }

    /// Admits a call to run or to the queue.
    ///
    /// # Errors
    /// `too-many-calls`: the queue is full.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Admitted, Problem> {
        // The semaphores are fair: while a call waits for a permit, none is free.
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned()
            && self.bucket.as_ref().is_none_or(|bucket| {
                let turn = self.turn.try_acquire();
                turn.is_ok() && bucket.lock().try_take(self.epoch.elapsed())
            })
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

    /// Whether it is as if no call had ever passed it.
    pub(super) fn is_idle(&self) -> bool {
        let is_full = |bucket: &Mutex<Bucket>| bucket.lock().full_at <= self.epoch.elapsed();
        let is_free = self.permits.available_permits() == self.concurrent_max;
        is_free && self.waiting() == 0 && self.bucket.as_ref().is_none_or(is_full)
    }

    fn retry_after(&self) -> Duration {
        let waiting = u32::try_from(self.waiting()).unwrap_or(u32::MAX);
        let in_time = self.bucket.as_ref().map(|bucket| {
            let bucket = bucket.lock();
            bucket.wait(self.epoch.elapsed()).saturating_add(bucket.rate.interval.saturating_mul(waiting))
        });
        in_time.filter(|wait| !wait.is_zero()).unwrap_or(RETRY_AFTER)
    }
}

/// The rights to run of a call that passes several gates, in order.
#[derive(Default)]
pub(super) struct Permits {
    first: Option<Permit>,
    others: Vec<Permit>,
}

impl Permits {
    fn add(&mut self, permit: Permit) {
        match &self.first {
            None => self.first = Some(permit),
            Some(_) => self.others.push(permit),
        }
    }
}

/// A call on its way through its gates: it has passed some, and may wait at one.
pub(super) struct Passage {
    passed: Permits,
    waits: Option<QueueTicket>,
    /// The gates behind the one that it waits at.
    left: Vec<Arc<Gate>>,
}

impl Passage {
    /// Passes the gates as far as there is room, and queues at the first that has none. So a call
    /// takes nothing of a gate before it has passed those before it.
    ///
    /// # Errors
    /// `too-many-calls`: the queue is full.
    pub(super) fn enter(gates: impl IntoIterator<Item = Arc<Gate>>) -> Result<Self, Problem> {
        let mut passage = Self { passed: Permits::default(), waits: None, left: Vec::new() };
        for gate in gates {
            if passage.waits.is_some() {
                passage.left.push(gate);
                continue;
            }
            match gate.enter()? {
                Admitted::Running(permit) => passage.passed.add(permit),
                Admitted::Queued(ticket) => passage.waits = Some(ticket),
            }
        }
        Ok(passage)
    }

    /// The rights to run, if it has passed all gates.
    pub(super) fn at_once(self) -> Result<Permits, Self> {
        if self.waits.is_none() { Ok(self.passed) } else { Err(self) }
    }

    /// Waits until it has passed all gates.
    ///
    /// # Errors
    /// `too-many-calls`: the queue of a later gate is full.
    pub(super) async fn permits(self) -> Result<Permits, Problem> {
        let Self { mut passed, waits, left } = self;
        if let Some(ticket) = waits {
            passed.add(ticket.permit().await);
        }
        for gate in left {
            let permit = match gate.enter()? {
                Admitted::Running(permit) => permit,
                Admitted::Queued(ticket) => ticket.permit().await,
            };
            passed.add(permit);
        }
        Ok(passed)
    }
}

impl QueueTicket {
    /// Waits for the call's permit, and until the rate allows it to begin.
    pub(super) async fn permit(self) -> Permit {
        let gate = &self.0;
        let permit = Arc::clone(&gate.permits).acquire_owned().await.expect("invariant: the semaphore is never closed");
        if let Some(bucket) = &gate.bucket {
            let _turn = gate.turn.acquire().await.expect("invariant: the semaphore is never closed");
            let now = gate.epoch.elapsed();
            let wait = bucket.lock().wait(now);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            // At the time of the token, though the timer may be late: else the rate would be lower.
            bucket.lock().take(now.saturating_add(wait));
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

    /// Takes a token at a time at which there is one.
    fn take(&mut self, now: Duration) {
        self.full_at = self.full_at.max(now).saturating_add(self.rate.interval);
    }

    /// Takes a token if there is one now. Returns whether there was.
    fn try_take(&mut self, now: Duration) -> bool {
        let is_there = self.wait(now).is_zero();
        if is_there {
            self.take(now);
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
        assert_eq!(bucket.wait(now), interval);
        bucket.take(now + interval);
        assert_eq!(bucket.wait(now), interval * 2);
        assert!(!bucket.try_take(now + interval));
        assert!(bucket.try_take(now + interval * 2));
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
                let start = now + bucket.wait(now);
                bucket.take(start);
                starts.push(start);
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

    #[tokio::test]
    async fn a_call_takes_nothing_of_a_gate_before_it_has_passed_those_before_it() {
        let (own, shared) = (gate(1, 5), gate(2, 1));
        let enter = || Passage::enter([Arc::clone(&own), Arc::clone(&shared)]).unwrap();
        let Ok(running) = enter().at_once() else { panic!("the first runs") };
        let Err(waits) = enter().at_once() else { panic!("the second waits for its own gate") };
        assert_eq!((own.waiting(), shared.waiting(), shared.permits.available_permits()), (1, 0, 1));
        assert!(!own.is_idle() && !shared.is_idle());
        // Others use what it does not take.
        let Ok(Admitted::Running(other)) = shared.enter() else { panic!("there is room") };
        let waits = tokio::spawn(waits.permits());
        drop(running);
        drop(other);
        drop(waits.await.unwrap().unwrap());
        assert!(own.is_idle() && shared.is_idle());
        // The queue of a later gate is bounded as well.
        let Ok(Admitted::Running(_one)) = shared.enter() else { panic!("there is room") };
        let Ok(Admitted::Running(_two)) = shared.enter() else { panic!("there is room") };
        let Ok(Admitted::Queued(_three)) = shared.enter() else { panic!("it waits") };
        assert_eq!(enter_fails(&own, &shared), problems::kind::TOO_MANY_CALLS);
        assert!(own.is_idle());
    }

    fn enter_fails(own: &Arc<Gate>, shared: &Arc<Gate>) -> String {
        Passage::enter([Arc::clone(own), Arc::clone(shared)]).err().unwrap().kind.into_owned()
    }

    #[tokio::test]
    async fn calls_begin_in_the_order_in_which_they_came_and_no_faster_than_the_rate() {
        let interval = Duration::from_millis(5);
        let gate = Gate::of(usize::MAX, 100, Some(Rate { interval, burst: 2 }));
        let (sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let since = Instant::now();
        for number in 0..10 {
            let passage = Passage::enter([Arc::clone(&gate)]).unwrap();
            let sender = sender.clone();
            tokio::spawn(async move {
                let permits = passage.permits().await;
                sender.send((number, since.elapsed())).unwrap();
                drop(permits);
            });
        }
        drop(sender);
        let mut all = Vec::new();
        while let Some(one) = begun.recv().await {
            all.push(one);
        }
        assert!(all.iter().map(|(number, _)| *number).eq(0..10), "{all:?}");
        for (number, at) in all {
            assert!(at >= interval * u32::saturating_sub(number, 1), "{number} at {at:?}");
        }
    }

    #[tokio::test]
    async fn calls_that_are_abandoned_as_they_wait_take_no_token() {
        let gate = Gate::of(usize::MAX, 100, Some(Rate { interval: Duration::from_hours(1), burst: 1 }));
        let Ok(Admitted::Running(_first)) = gate.enter() else { panic!("there is a token") };
        for _ in 0..5 {
            let Ok(Admitted::Queued(ticket)) = gate.enter() else { panic!("there is no other") };
            assert!(tokio::time::timeout(Duration::from_millis(1), ticket.permit()).await.is_err());
        }
        let wait = gate.bucket.as_ref().unwrap().lock().wait(gate.epoch.elapsed());
        assert!(wait <= Duration::from_hours(1), "the next token is for the next call: {wait:?}");
        assert_eq!((gate.waiting(), gate.turn.available_permits()), (0, 1));
        // Nobody goes before one that waits for a token.
        let Ok(Admitted::Queued(ticket)) = gate.enter() else { panic!("there is no token") };
        let waits = tokio::spawn(ticket.permit());
        tokio::task::yield_now().await;
        *gate.bucket.as_ref().unwrap().lock() = Bucket::new(Rate { interval: Duration::from_hours(1), burst: 1 });
        assert!(matches!(gate.enter(), Ok(Admitted::Queued(_))));
        waits.abort();
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
