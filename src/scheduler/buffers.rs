//! Reuse of event buffers: a steady exchange of events allocates nothing.

/// Capacity of the smallest buffers.
const CAPACITY_MIN: usize = 4;
/// Buffers of 4, 8, … 1,024 events are retained; larger ones go back to the allocator, so that one
/// flood does not bind memory for good. Arbitrary.
const CLASSES: usize = 9;
/// How many of a class one worker retains. Arbitrary: enough for the batches of one round of its
/// deque.
const KEPT_MAX: usize = 64;

/// One worker's free buffers in power-of-two size classes.
#[derive(Debug)]
pub(crate) struct Buffers<E> {
    classes: [Vec<Vec<E>>; CLASSES],
}

impl<E> Buffers<E> {
    pub(crate) fn new() -> Self {
        Self { classes: std::array::from_fn(|_| Vec::new()) }
    }

    /// An empty buffer for at least `len` events.
    pub(crate) fn take(&mut self, len: usize) -> Vec<E> {
        let capacity = len.max(CAPACITY_MIN).next_power_of_two();
        self.classes.get_mut(class_of(capacity)).and_then(Vec::pop).unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// Retains a buffer for later; its events are dropped.
    pub(crate) fn give(&mut self, mut buffer: Vec<E>) {
        buffer.clear();
        if buffer.capacity() < CAPACITY_MIN {
            return;
        }
        // Rounded down: a buffer of a class holds at least as much as the class says.
        let class = buffer.capacity().ilog2() as usize - CAPACITY_MIN.ilog2() as usize;
        if let Some(kept) = self.classes.get_mut(class)
            && kept.len() < KEPT_MAX
        {
            kept.push(buffer);
        }
    }

    /// Appends an event, and moves to the next size class if the buffer is full.
    pub(crate) fn push(&mut self, buffer: &mut Vec<E>, event: E) {
        if buffer.len() == buffer.capacity() {
            let mut larger = self.take(buffer.len() + 1);
            larger.append(buffer);
            self.give(std::mem::replace(buffer, larger));
        }
        buffer.push(event);
    }
}

fn class_of(capacity: usize) -> usize {
    (capacity.ilog2() - CAPACITY_MIN.ilog2()) as usize
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_in_its_class() {
        let mut buffers = Buffers::new();
        let mut buffer = buffers.take(5);
        assert_eq!(buffer.capacity(), 8);
        buffer.push(1);
        let address = buffer.as_ptr();
        buffers.give(buffer);
        let again = buffers.take(8);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
    }

    #[test]
    fn a_full_buffer_grows_by_classes_and_keeps_its_order() {
        let mut buffers = Buffers::new();
        let mut buffer = Vec::new();
        for event in 0..5000 {
            buffers.push(&mut buffer, event);
        }
        assert_eq!(buffer, (0..5000).collect::<Vec<_>>());
        assert!(buffers.classes.iter().all(|kept| kept.len() == 1), "each class was outgrown once");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut buffers: Buffers<u8> = Buffers::new();
        for _ in 0..KEPT_MAX + 9 {
            buffers.give(Vec::with_capacity(4));
            buffers.give(Vec::with_capacity(4096));
        }
        assert_eq!(buffers.classes.iter().map(Vec::len).sum::<usize>(), KEPT_MAX);
    }
}
