//! The counters of the scheduler.

use crate::base::sync::{AtomicU64, Ordering};

/// Declares the counters of one worker and their sum.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of one worker, which alone writes them. On cache lines of their own:
        /// reading them slows no other worker.
        #[derive(Debug)]
        #[repr(align(128))]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        impl Counters {
            pub(crate) fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }
        }

        /// The counters of the scheduler so far. They are read one after another while workers go
        /// on, so their sums may differ slightly.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
        #[serde(rename_all = "kebab-case")]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Evictions that passed a permit on.
            pub evictions: u64,
            /// Times that a process had to wait for its permit.
            pub admissions_waited: u64,
            /// Permits that were given outside the pool.
            pub admitted_outside: u64,
            /// Processes that were refused, since no holder gave way and there was no room outside
            /// the pool.
            pub admissions_refused: u64,
            /// Instances that permits of the pool are given for now.
            pub slots_used: u64,
            /// Processes that wait for a permit now.
            pub admitting: u64,
            /// Jobs in the global queue now.
            pub global_queue: u64,
            /// Jobs in all local deques now.
            pub local_deques: u64,
            /// Timers that are set now.
            pub timers: u64,
        }

        impl Stats {
            pub(crate) fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }
        }
    };
}

counters! {
    /// Slices that were run: steps and parts of steps.
    steps,
    /// Slices that were used up.
    preemptions,
    /// Slices that took more than 10 ms. Zero if the commit point is not timed.
    slow_steps,
    /// Times that a worker took jobs of another.
    steals,
    /// Times that a worker went to sleep.
    parks,
    /// Events for processes that had ended, and events that a process did not get before it ended.
    dropped_events,
    /// Processes that were started.
    spawned,
    /// Processes that have ended.
    completed,
    /// Steps that panicked.
    panics,
    /// Batches of timers.
    timer_batches,
    /// Timers that came due.
    timers_fired,
}

/// A counter with one writer: a load and a store, no read-modify-write.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Called only by the one writer. Release, so that a thread that reads `completed` and then
    /// `spawned` finds each end's start.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Release);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
