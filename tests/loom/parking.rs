//! Parking: nobody sleeps while there is work, however the two meet. A lost wake-up is a deadlock here, which loom reports.
//!
//! The queues are plain relaxed counters, so that nothing but the fences of the protocol orders them.

use super::super::sleep::{Awake, Sleep};
use super::super::timers::Timers;
use crate::process::Micros;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

struct Model {
    sleep: Sleep,
    jobs: AtomicUsize,
    taken: AtomicUsize,
    expected: usize,
}

impl Model {
    fn new(workers: usize, expected: usize) -> Arc<Self> {
        Arc::new(Self { sleep: Sleep::new(workers), jobs: AtomicUsize::new(0), taken: AtomicUsize::new(0), expected })
    }

    fn has_jobs(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) > 0
    }

    fn is_over(&self) -> bool {
        self.taken.load(Ordering::Relaxed) == self.expected
    }

    fn take(&self) -> bool {
        let take = |jobs: usize| jobs.checked_sub(1);
        self.jobs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn push(&self) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.sleep.notify();
    }

    /// A worker as in `worker.rs`: search, take, or park; until every job is done.
    fn work(&self, worker: usize) {
        let mut searching = false;
        while !self.is_over() {
            searching = searching || self.sleep.search();
            if self.take() {
                if std::mem::take(&mut searching) {
                    self.sleep.found(|| self.has_jobs());
                }
                if self.taken.fetch_add(1, Ordering::Relaxed) + 1 == self.expected {
                    self.sleep.wake_all();
                }
                continue;
            }
            let awake = self.sleep.park(worker, searching, None, || self.has_jobs() || self.is_over());
            searching = awake == Awake::Notified;
        }
    }
}

#[test]
fn a_job_while_the_only_worker_goes_to_sleep() {
    loom::model(|| {
        let model = Model::new(1, 1);
        let theirs = Arc::clone(&model);
        let worker = thread::spawn(move || theirs.work(0));
        model.push();
        worker.join().unwrap();
    });
}

#[test]
fn two_jobs_while_the_only_worker_goes_to_sleep() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let model = Model::new(1, 2);
        let theirs = Arc::clone(&model);
        let worker = thread::spawn(move || theirs.work(0));
        model.push();
        model.push();
        worker.join().unwrap();
    });
}

#[test]
fn a_job_that_is_left_to_a_searcher_is_found() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let model = Model::new(2, 1);
        let workers = [0, 1].map(|worker| {
            let theirs = Arc::clone(&model);
            thread::spawn(move || theirs.work(worker))
        });
        model.push();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Two jobs, two workers, and the first job is not over before the second one is taken: the chain of wakes must reach the second worker.
#[test]
fn the_last_searcher_wakes_one_more() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let model = Model::new(2, 2);
        let workers = [0, 1].map(|worker| {
            let theirs = Arc::clone(&model);
            thread::spawn(move || {
                let mut searching = false;
                loop {
                    searching = searching || theirs.sleep.search();
                    if theirs.take() {
                        break;
                    }
                    let awake = theirs.sleep.park(worker, searching, None, || theirs.has_jobs());
                    searching = awake == Awake::Notified;
                }
                // This worker is busy for good: the other job is for the other worker.
                if searching {
                    theirs.sleep.found(|| theirs.has_jobs());
                }
            })
        });
        model.push();
        model.push();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn a_stop_while_a_worker_goes_to_sleep() {
    loom::model(|| {
        let model = Model::new(1, 0);
        let stopped = Arc::new(AtomicUsize::new(0));
        let (theirs, flag) = (Arc::clone(&model), Arc::clone(&stopped));
        let worker = thread::spawn(move || {
            while flag.load(Ordering::Relaxed) == 0 {
                let _ = theirs.sleep.park(0, false, None, || flag.load(Ordering::Relaxed) > 0);
            }
        });
        stopped.store(1, Ordering::Relaxed);
        model.sleep.wake_all();
        worker.join().unwrap();
    });
}

/// A timer that is set from outside while the worker goes to sleep: it becomes the keeper or sees it at once.
#[test]
fn a_timer_while_a_worker_goes_to_sleep() {
    loom::model(|| {
        let shared = Arc::new((Sleep::new(1), Timers::new()));
        let theirs = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let (sleep, timers) = &*theirs;
            loop {
                let next = timers.next();
                if timers.keep().is_some() {
                    // It would wait until then.
                    return;
                }
                let is_news = || timers.next().is_some_and(|now| next.is_none_or(|seen| now < seen));
                let _ = sleep.park(0, false, None, is_news);
            }
        });
        if shared.1.set(Micros(10), ()) {
            shared.0.notify();
        }
        worker.join().unwrap();
    });
}
