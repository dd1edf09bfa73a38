//! The chain of wakes by itself. The queue is a plain relaxed counter, so that nothing but the
//! fences of `Sleep` orders it. Bounded to two interruptions, which whole workers cannot be.

use super::super::sleep::{Awake, Sleep};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

struct Model {
    sleep: Sleep,
    jobs: AtomicUsize,
}

impl Model {
    fn has_jobs(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) > 0
    }

    fn push(&self) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.sleep.notify();
    }

    /// Searches, takes one job, and is busy with it for good: the other job is for the other
    /// worker.
    fn work(&self, worker: usize) {
        let take = |jobs: usize| jobs.checked_sub(1);
        let mut searching = false;
        loop {
            searching = searching || self.sleep.search();
            if self.jobs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                break;
            }
            searching = self.sleep.park(worker, searching, None, || self.has_jobs()) == Awake::Searching;
        }
        if searching {
            self.sleep.found(|| self.has_jobs());
        }
    }
}

#[test]
fn two_jobs_reach_two_workers() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let model = Arc::new(Model { sleep: Sleep::new(2), jobs: AtomicUsize::new(0) });
        let workers = [0, 1].map(|worker| {
            let theirs = Arc::clone(&model);
            thread::spawn(move || theirs.work(worker))
        });
        model.push();
        model.push();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}
