//! Awaited values, by tag.

use std::task::{Poll, Waker};

use crate::core::Tag;

enum Slot<T> {
    Waiting(Option<Waker>),
    Here(T),
    /// No future holds the tag any longer; the entry goes at the next compaction.
    Gone,
}

/// Tags only grow, so pushing keeps the entries sorted; gaps stay until half of them are gaps. (A
/// `BTreeMap` does the same in five times the code, which counts in a small component.)
pub(crate) struct Slots<T> {
    entries: Vec<(Tag, Slot<T>)>,
    gaps: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), gaps: 0 }
    }
}

impl<T> Slots<T> {
    /// `tag` must be larger than all previous ones.
    pub(crate) fn push(&mut self, tag: Tag) {
        debug_assert!(self.entries.last().is_none_or(|(last, _)| *last < tag));
        self.entries.push((tag, Slot::Waiting(None)));
    }

    fn find(&mut self, tag: Tag) -> Option<&mut Slot<T>> {
        let at = self.entries.binary_search_by_key(&tag, |(tag, _)| *tag).ok()?;
        Some(&mut self.entries[at].1)
    }

    /// Takes an entry out, unless `leave` says that it stays.
    fn take_if(&mut self, tag: Tag, leave: impl FnOnce(&Slot<T>) -> bool) -> Option<Slot<T>> {
        let slot = self.find(tag)?;
        if leave(slot) {
            return None;
        }
        let slot = core::mem::replace(slot, Slot::Gone);
        self.gaps += 1;
        if self.gaps * 2 > self.entries.len() {
            self.entries.retain(|(_, slot)| !matches!(slot, Slot::Gone));
            self.gaps = 0;
        }
        Some(slot)
    }

    /// Stores a value for its waiter; returns the value if there is none.
    pub(crate) fn fill(&mut self, tag: Tag, value: T) -> Result<Option<Waker>, T> {
        match self.find(tag) {
            Some(slot @ Slot::Waiting(_)) => match core::mem::replace(slot, Slot::Here(value)) {
                Slot::Waiting(waker) => Ok(waker),
                Slot::Here(_) | Slot::Gone => Ok(None),
            },
            _ => Err(value),
        }
    }

    /// The value, if it has arrived.
    pub(crate) fn take(&mut self, tag: Tag) -> Option<T> {
        match self.take_if(tag, |slot| !matches!(slot, Slot::Here(_))) {
            Some(Slot::Here(value)) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn poll(&mut self, tag: Tag, waker: &Waker) -> Poll<T> {
        if let Some(value) = self.take(tag) {
            return Poll::Ready(value);
        }
        if let Some(Slot::Waiting(waiting)) = self.find(tag) {
            *waiting = Some(waker.clone());
        }
        Poll::Pending
    }

    /// Removes a waiter. Returns whether its value was still outstanding.
    pub(crate) fn remove(&mut self, tag: Tag) -> bool {
        matches!(self.take_if(tag, |slot| matches!(slot, Slot::Gone)), Some(Slot::Waiting(_)))
    }

    /// Whether any value is still outstanding.
    pub(crate) fn any_waiting(&self) -> bool {
        self.entries.iter().any(|(_, slot)| matches!(slot, Slot::Waiting(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_compacted_and_the_rest_is_still_found() {
        let mut slots = Slots::default();
        for tag in 1..=100 {
            slots.push(tag);
        }
        for tag in (1..=100).filter(|tag| tag % 10 != 0) {
            assert!(slots.remove(tag));
            assert!(!slots.remove(tag));
        }
        assert!(slots.entries.len() < 25);
        for tag in (10..=100).step_by(10) {
            assert!(slots.fill(tag, tag * 2).is_ok());
            assert!(slots.fill(tag, 0).is_err());
            assert_eq!(slots.take(tag), Some(tag * 2));
            assert_eq!(slots.take(tag), None);
        }
        assert!(!slots.any_waiting());
    }
}
