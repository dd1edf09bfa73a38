//! The local deque: its worker pushes and pops at the bottom, thieves take from the top.
//!
//! crossbeam's Chase–Lev deque. A push writes with release and does no more; a pop fences once, and
//! exchanges once if it takes the last job. A thief's half is one compare-exchange a job, at most
//! 32. A single worker has a plain deque: a pop without the fence.
//!
//! *Rejected*: stealing half of the deque in one compare-exchange. That is unsound on a LIFO
//! Chase–Lev deque, whose owner pops without claiming: it would cost each pop an exchange, and pops
//! are much more frequent than steals.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use real::{Local, Thief};

/// The outcome of an attempt to steal.
#[derive(Debug)]
#[must_use]
pub(crate) enum Loot<J> {
    /// One job; more may have moved to the thief's own deque.
    Job(J),
    /// The deque was empty.
    Empty,
    /// Another thread was quicker: try again.
    #[cfg_attr(any(loom, shuttle), allow(dead_code))] // The model deque has a lock.
    Retry,
}

#[cfg(not(any(loom, shuttle)))]
mod real {
    use super::Loot;
    use crossbeam_deque::{Steal, Stealer, Worker};
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// The worker's end of a deque.
    #[derive(Debug)]
    pub(crate) enum Local<J> {
        /// Of one worker among others.
        Shared { bottom: Worker<J>, top: Stealer<J> },
        /// Of the only worker: there are no thieves, so no fence is needed. Its length is read by
        /// the statistics.
        Alone { jobs: RefCell<VecDeque<J>>, len: Arc<AtomicUsize> },
    }

    /// The thieves' end.
    #[derive(Debug)]
    pub(crate) enum Thief<J> {
        Shared(Stealer<J>),
        Alone(Arc<AtomicUsize>),
    }

    impl<J> Local<J> {
        /// The deque of one of `workers` workers.
        pub(crate) fn new(workers: usize) -> Self {
            if workers <= 1 {
                return Self::Alone { jobs: RefCell::default(), len: Arc::default() };
            }
            let bottom = Worker::new_lifo();
            let top = bottom.stealer();
            Self::Shared { bottom, top }
        }

        pub(crate) fn thief(&self) -> Thief<J> {
            match self {
                Self::Shared { top, .. } => Thief::Shared(top.clone()),
                Self::Alone { len, .. } => Thief::Alone(Arc::clone(len)),
            }
        }

        #[inline]
        pub(crate) fn push(&self, job: J) {
            match self {
                Self::Shared { bottom, .. } => bottom.push(job),
                Self::Alone { jobs, len } => {
                    let mut jobs = jobs.borrow_mut();
                    jobs.push_back(job);
                    len.store(jobs.len(), Relaxed);
                }
            }
        }

        /// Takes the youngest job.
        #[inline]
        pub(crate) fn pop(&self) -> Option<J> {
            match self {
                Self::Shared { bottom, .. } => bottom.pop(),
                Self::Alone { jobs, len } => {
                    let mut jobs = jobs.borrow_mut();
                    let job = jobs.pop_back();
                    len.store(jobs.len(), Relaxed);
                    job
                }
            }
        }

        /// Takes the oldest job, as a thief does.
        pub(crate) fn pop_top(&self) -> Option<J> {
            match self {
                Self::Shared { top, .. } => loop {
                    match top.steal() {
                        Steal::Success(job) => return Some(job),
                        Steal::Empty => return None,
                        Steal::Retry => {}
                    }
                },
                Self::Alone { jobs, len } => {
                    let mut jobs = jobs.borrow_mut();
                    let job = jobs.pop_front();
                    len.store(jobs.len(), Relaxed);
                    job
                }
            }
        }

        #[inline]
        pub(crate) fn is_empty(&self) -> bool {
            match self {
                Self::Shared { bottom, .. } => bottom.is_empty(),
                Self::Alone { jobs, .. } => jobs.borrow().is_empty(),
            }
        }
    }

    impl<J> Thief<J> {
        /// Takes the older half, at most 32: the youngest of them to run, the others into the
        /// thief's own deque in their order.
        pub(crate) fn steal_half(&self, into: &Local<J>) -> Loot<J> {
            let (Self::Shared(top), Local::Shared { bottom, .. }) = (self, into) else { return Loot::Empty };
            match top.steal_batch_and_pop(bottom) {
                Steal::Success(job) => Loot::Job(job),
                Steal::Empty => Loot::Empty,
                Steal::Retry => Loot::Retry,
            }
        }

        pub(crate) fn len(&self) -> usize {
            match self {
                Self::Shared(top) => top.len(),
                Self::Alone(len) => len.load(Relaxed),
            }
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }
}

/// The deque of the models: the checkers do not see crossbeam's atomics. They see a lock for the
/// jobs themselves, and, as a thief of the real deque does, a length beside it that only the
/// reader's protocol orders.
#[cfg(any(loom, shuttle, test))]
#[cfg_attr(not(any(loom, shuttle)), allow(dead_code))]
pub(crate) mod model {
    use super::Loot;
    use crate::base::sync::{AtomicUsize, Mutex, Ordering};
    use std::collections::VecDeque;
    use std::sync::Arc;

    #[derive(Debug)]
    struct Deque<J> {
        jobs: Mutex<VecDeque<J>>,
        /// Written under the lock.
        len: AtomicUsize,
    }

    impl<J> Deque<J> {
        fn change<R>(&self, change: impl FnOnce(&mut VecDeque<J>) -> R) -> R {
            let mut jobs = self.jobs.lock();
            let result = change(&mut jobs);
            self.len.store(jobs.len(), Ordering::Release);
            result
        }

        fn take(&self, take: impl FnOnce(&mut VecDeque<J>) -> Option<J>) -> Option<J> {
            if self.len() == 0 { None } else { self.change(take) }
        }

        fn len(&self) -> usize {
            self.len.load(Ordering::Acquire)
        }
    }

    /// The worker's end.
    #[derive(Debug)]
    pub(crate) struct Local<J>(Arc<Deque<J>>);

    /// The thieves' end.
    #[derive(Debug)]
    pub(crate) struct Thief<J>(Arc<Deque<J>>);

    impl<J> Local<J> {
        pub(crate) fn new(_workers: usize) -> Self {
            Self(Arc::new(Deque { jobs: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) }))
        }

        pub(crate) fn thief(&self) -> Thief<J> {
            Thief(Arc::clone(&self.0))
        }

        pub(crate) fn push(&self, job: J) {
            self.0.change(|jobs| jobs.push_back(job));
        }

        pub(crate) fn pop(&self) -> Option<J> {
            self.0.take(VecDeque::pop_back)
        }

        pub(crate) fn pop_top(&self) -> Option<J> {
            self.0.take(VecDeque::pop_front)
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.len() == 0
        }
    }

    impl<J> Thief<J> {
        pub(crate) fn steal_half(&self, into: &Local<J>) -> Loot<J> {
            let mut others = VecDeque::new();
            let youngest = self.0.take(|jobs| {
                let half = jobs.len().div_ceil(2).min(32);
                others.extend(jobs.drain(..half));
                others.pop_back()
            });
            let Some(youngest) = youngest else { return Loot::Empty };
            if !others.is_empty() {
                into.0.change(|jobs| jobs.append(&mut others));
            }
            Loot::Job(youngest)
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }
}

#[cfg(any(loom, shuttle))]
pub(crate) use model::{Local, Thief};

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Loot, model, real};
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Act {
        Push,
        Pop,
        PopTop,
        Steal,
        PopThief,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => Just(Act::Push),
            2 => Just(Act::Pop),
            1 => Just(Act::PopTop),
            1 => Just(Act::Steal),
            1 => Just(Act::PopThief),
        ]
    }

    fn job(loot: Loot<u32>) -> Option<u32> {
        match loot {
            Loot::Job(job) => Some(job),
            Loot::Empty => None,
            Loot::Retry => panic!("nobody else is there"),
        }
    }

    proptest! {
        /// The deque does what its model does, which the model checkers see in its place.
        #[test]
        fn the_deque_and_its_model_agree(acts in prop::collection::vec(act(), 0..400)) {
            let (own, other) = (real::Local::new(2), real::Local::new(2));
            let (model_own, model_other) = (model::Local::new(2), model::Local::new(2));
            for (number, act) in (0..).zip(acts) {
                match act {
                    Act::Push => {
                        own.push(number);
                        model_own.push(number);
                    }
                    Act::Pop => prop_assert_eq!(own.pop(), model_own.pop()),
                    Act::PopTop => prop_assert_eq!(own.pop_top(), model_own.pop_top()),
                    Act::Steal => prop_assert_eq!(
                        job(own.thief().steal_half(&other)),
                        job(model_own.thief().steal_half(&model_other))
                    ),
                    Act::PopThief => prop_assert_eq!(other.pop(), model_other.pop()),
                }
                prop_assert_eq!(own.thief().len(), model_own.thief().len());
                prop_assert_eq!(other.is_empty(), model_other.is_empty());
            }
        }

        /// The only worker's deque does what a deque among others does.
        #[test]
        fn alone_and_among_others_are_the_same(acts in prop::collection::vec(act(), 0..400)) {
            let (alone, shared) = (real::Local::new(1), real::Local::new(2));
            for (number, act) in (0..).zip(acts) {
                match act {
                    Act::Push | Act::Steal => {
                        alone.push(number);
                        shared.push(number);
                    }
                    Act::Pop | Act::PopThief => prop_assert_eq!(alone.pop(), shared.pop()),
                    Act::PopTop => prop_assert_eq!(alone.pop_top(), shared.pop_top()),
                }
                prop_assert_eq!(alone.thief().len(), shared.thief().len());
                prop_assert_eq!(alone.is_empty(), shared.is_empty());
            }
        }
    }
}
