//! The local deque: its worker pushes and pops at the bottom, thieves take from the top.
//!
//! crossbeam's Chase–Lev deque. Pushing writes with release and no more; popping fences once, and exchanges once where it takes the
//! last job. A thief's half is one compare-exchange a job, at most 32.
//!
//! *Rejected*: half of the deque in one compare-exchange. It is not sound on a LIFO Chase–Lev deque, whose owner pops without
//! claiming: it would cost each pop an exchange, which is much more frequent than a steal.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use real::{Local, Thief};

/// What a look at another's deque came to.
#[derive(Debug)]
#[must_use]
pub(crate) enum Loot<J> {
    /// One job; more may have come into the own deque.
    Job(J),
    /// There was nothing.
    Empty,
    /// Somebody else was quicker: look again.
    #[cfg_attr(any(loom, shuttle), allow(dead_code))] // The model deque has a lock.
    Retry,
}

#[cfg(not(any(loom, shuttle)))]
mod real {
    use super::Loot;
    use crossbeam_deque::{Steal, Stealer, Worker};

    /// The worker's end of a deque.
    #[derive(Debug)]
    pub(crate) struct Local<J> {
        bottom: Worker<J>,
        top: Stealer<J>,
    }

    /// The end of everybody else.
    #[derive(Debug)]
    pub(crate) struct Thief<J>(Stealer<J>);

    impl<J> Local<J> {
        pub(crate) fn new() -> Self {
            let bottom = Worker::new_lifo();
            let top = bottom.stealer();
            Self { bottom, top }
        }

        pub(crate) fn thief(&self) -> Thief<J> {
            Thief(self.top.clone())
        }

        #[inline]
        pub(crate) fn push(&self, job: J) {
            self.bottom.push(job);
        }

        /// The youngest.
        #[inline]
        pub(crate) fn pop(&self) -> Option<J> {
            self.bottom.pop()
        }

        /// The oldest, by the way that thieves go.
        pub(crate) fn pop_top(&self) -> Option<J> {
            loop {
                match self.top.steal() {
                    Steal::Success(job) => return Some(job),
                    Steal::Empty => return None,
                    Steal::Retry => {}
                }
            }
        }

        #[inline]
        pub(crate) fn is_empty(&self) -> bool {
            self.bottom.is_empty()
        }
    }

    impl<J> Thief<J> {
        /// Takes the older half, at most 32: the youngest of them to run, the others into the own deque in their order.
        pub(crate) fn steal_half(&self, into: &Local<J>) -> Loot<J> {
            match self.0.steal_batch_and_pop(&into.bottom) {
                Steal::Success(job) => Loot::Job(job),
                Steal::Empty => Loot::Empty,
                Steal::Retry => Loot::Retry,
            }
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }
}

/// The deque of the models: the checkers do not see crossbeam's atomics, but they see this lock.
#[cfg(any(loom, shuttle, test))]
#[cfg_attr(not(any(loom, shuttle)), allow(dead_code))]
pub(crate) mod model {
    use super::Loot;
    use crate::base::sync::Mutex;
    use std::collections::VecDeque;
    use std::sync::Arc;

    /// The worker's end.
    #[derive(Debug)]
    pub(crate) struct Local<J>(Arc<Mutex<VecDeque<J>>>);

    /// The thieves' end.
    #[derive(Debug)]
    pub(crate) struct Thief<J>(Arc<Mutex<VecDeque<J>>>);

    impl<J> Local<J> {
        pub(crate) fn new() -> Self {
            Self(Arc::new(Mutex::new(VecDeque::new())))
        }

        pub(crate) fn thief(&self) -> Thief<J> {
            Thief(Arc::clone(&self.0))
        }

        pub(crate) fn push(&self, job: J) {
            self.0.lock().push_back(job);
        }

        pub(crate) fn pop(&self) -> Option<J> {
            self.0.lock().pop_back()
        }

        pub(crate) fn pop_top(&self) -> Option<J> {
            self.0.lock().pop_front()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.lock().is_empty()
        }
    }

    impl<J> Thief<J> {
        pub(crate) fn steal_half(&self, into: &Local<J>) -> Loot<J> {
            let mut taken: VecDeque<J> = {
                let mut jobs = self.0.lock();
                let half = jobs.len().div_ceil(2).min(32);
                jobs.drain(..half).collect()
            };
            let Some(youngest) = taken.pop_back() else { return Loot::Empty };
            into.0.lock().extend(taken);
            Loot::Job(youngest)
        }

        pub(crate) fn len(&self) -> usize {
            self.0.lock().len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.lock().is_empty()
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
            let (own, other) = (real::Local::new(), real::Local::new());
            let (model_own, model_other) = (model::Local::new(), model::Local::new());
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
    }
}
