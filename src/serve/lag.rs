//! How far streams of events are behind.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Where a stream is, until it is dropped.
pub(in crate::serve) struct Place {
    /// `None`: it is of the changes of all runs.
    run: Option<String>,
    /// The number that it is sent next.
    next: AtomicU64,
}

impl Place {
    pub(in crate::serve) fn is_at(&self, next: u64) {
        self.next.store(next, Relaxed);
    }
}

/// The places of the streams that are open.
#[derive(Default)]
pub(in crate::serve) struct Places(Mutex<Vec<Weak<Place>>>);

impl Places {
    /// Notes a stream of a run, or of all runs, that is sent this number next.
    pub(in crate::serve) fn of(&self, run: Option<&str>, next: u64) -> Arc<Place> {
        let place = Arc::new(Place { run: run.map(str::to_owned), next: AtomicU64::new(next) });
        let mut all = self.0.lock();
        if all.len() == all.capacity() {
            all.retain(|place| place.strong_count() > 0);
        }
        all.push(Arc::downgrade(&place));
        place
    }

    /// How many numbers the stream is behind that is furthest behind, by the last number of a run,
    /// or of all runs; `None` if that is not known here.
    pub(in crate::serve) fn lag(&self, last: impl Fn(Option<&str>) -> Option<u64>) -> u64 {
        let places: Vec<Arc<Place>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let behind = places.iter().filter_map(|place| {
            let last = last(place.run.as_deref())?;
            Some((last + 1).saturating_sub(place.next.load(Relaxed)))
        });
        behind.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_that_of_the_open_stream_that_is_furthest_behind() {
        let places = Places::default();
        let last = |run: Option<&str>| match run {
            Some("a") => Some(10),
            Some(_) => None,
            None => Some(100),
        };
        assert_eq!(places.lag(last), 0);
        let here = places.of(Some("a"), 11);
        let _unknown = places.of(Some("b"), 1);
        assert_eq!(places.lag(last), 0);
        here.is_at(4);
        assert_eq!(places.lag(last), 7);
        let all = places.of(None, 51);
        assert_eq!(places.lag(last), 50);
        drop(all);
        assert_eq!(places.lag(last), 7);
        for _ in 0..1_000 {
            drop(places.of(None, 0));
        }
        assert!(places.0.lock().len() < 100);
    }
}
