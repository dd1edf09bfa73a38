//! One slice of a process, and where the process goes after it.

use super::{Context, Core, YIELDED_MAX};
use crate::base::Monotonic;
use crate::base::foreign;
use crate::base::sync::Ordering;
use crate::process::Micros;
use crate::scheduler::aside::Chore;
use crate::scheduler::place::{Body, Standing};
use crate::scheduler::shared::{Job, Placed, Shared};
use crate::scheduler::state::{Finished, Started};
use crate::scheduler::{Commit, Deed, Next, Permitted, Slot, Turn};

/// A slice that takes longer is counted and reported as slow.
const SLOW: Micros = Micros(10_000);

impl<C: Commit> Core<C> {
    /// Runs one slice; the event that the process was found with is in the batch.
    #[inline]
    pub(super) fn slice(&mut self, shared: &Shared<C>, slot: Slot) {
        let place = shared.place(slot);
        let mut events = std::mem::take(&mut self.batch);
        let started = place.start(None, &mut events, &mut self.buffers);
        let mut opened = place.body.open().expect("invariant: a running process is its worker's");
        let body = opened.as_mut().expect("invariant: an occupied place has a body");
        let now = if C::TIMED { self.now.unwrap_or_else(|| shared.clock.now()) } else { Monotonic(0) };
        let Started { resumed, interrupted } = started;
        let turn = Turn { slot, resumed, interrupted, permitted: body.standing.permitted(), now };

        let next = self.step(shared, turn, &mut body.process, &mut events);

        if !events.is_empty() {
            self.note(shared, foreign::call(|| events.clear()));
        }
        self.batch = events;
        self.counters(shared).steps.add(1);
        if C::TIMED {
            let end = shared.clock.now();
            self.now = Some(end);
            self.pace.ended(now, end);
            let took = end.since(now);
            if took > SLOW {
                self.counters(shared).slow_steps.add(1);
                self.note(shared, foreign::call(|| shared.commit.slow(slot, &body.process, took)));
            }
            if shared.timeline.is_armed() {
                let deed = match next {
                    Next::Complete => Deed::Last,
                    Next::Preempted => Deed::Preempted,
                    _ => Deed::Slice,
                };
                let name = || foreign::call(|| shared.commit.name(&body.process)).unwrap_or_default();
                shared.timeline.note(self.index, (deed, now, took), Some((slot, &name)));
            }
        }
        if next == Next::Complete {
            let body = opened.take();
            drop(opened);
            self.complete(shared, slot, body);
        } else {
            let standing = body.standing;
            drop(opened);
            if turn.permitted == Permitted::Yes {
                self.put_back(shared, slot, next, standing);
            } else {
                self.put_back_without_permit(shared, slot, next);
            }
        }
        self.tell(shared);
    }

    #[inline]
    fn step(&mut self, shared: &Shared<C>, turn: Turn, process: &mut C::Process, events: &mut Vec<C::Event>) -> Next {
        // After a panic the process is reported, dropped, and never stepped again; the scheduler's
        // own state is consistent while a step runs.
        let mut context = Context { shared, core: self };
        let stepped = foreign::call(|| {
            let next = shared.commit.step(&mut context, turn, process, events);
            // It may now have an instance without a permit, which must not go on.
            assert!(turn.allows(next), "it went on ({next:?}) where that was not allowed: {turn:?}");
            next
        });
        stepped.unwrap_or_else(|message| {
            let mut context = Context { shared, core: self };
            let told = foreign::call(|| shared.commit.panicked(&mut context, turn.slot, process, &message));
            self.counters(shared).panics.add(1);
            self.note(shared, told);
            Next::Complete
        })
    }

    /// Moves the process to where it belongs after a slice.
    #[inline]
    fn put_back(&mut self, shared: &Shared<C>, slot: Slot, next: Next, standing: Standing) {
        let place = shared.place(slot);
        let holder = standing.seat().map(|seat| (seat, self.now.unwrap_or_else(|| shared.clock.now())));
        if let Some((_, now)) = holder {
            place.since.store(now.0, Ordering::Relaxed);
        }
        if next == Next::Preempted
            && let Some((seat, _)) = holder
        {
            shared.admission.used_slice(seat);
        }
        match place.word.finish(next) {
            Finished::Woken => self.enqueue(shared, Job { slot, event: None, woken_here: true }),
            Finished::Requeue if next == Next::Preempted => {
                self.counters(shared).preemptions.add(1);
                self.fairness.used_slice();
                self.send_global(shared, slot);
            }
            Finished::Requeue => self.requeue(shared, slot),
            Finished::Waits | Finished::Held => {
                if let Some((seat, now)) = holder {
                    shared.admission.comes_to_rest(&shared.table, slot, seat, now);
                }
            }
        }
    }

    /// The same for a process that was stepped without its permit.
    #[cold]
    fn put_back_without_permit(&mut self, shared: &Shared<C>, slot: Slot, next: Next) {
        let heard = shared.place(slot).word.finish_without_permit(next);
        if shared.follow(slot, heard) == Some(Placed::Enqueue) {
            self.enqueue(shared, Job { slot, event: None, woken_here: true });
        }
    }

    /// Sends a process that said `ready` to the back of the global queue, in batches of at most 16.
    fn requeue(&mut self, shared: &Shared<C>, slot: Slot) {
        if self.may_hold_back(shared) && self.yielded.len() + 1 < YIELDED_MAX {
            self.yielded.push(slot);
        } else {
            self.send_global(shared, slot);
        }
    }

    /// Frees the place of a process that has ended.
    fn complete(&mut self, shared: &Shared<C>, slot: Slot, body: Option<Body<C::Process>>) {
        let mut unheard = shared.place(slot).complete();
        if !unheard.is_empty() {
            self.counters(shared).dropped_events.add(unheard.len() as u64);
        }
        // The drop of the process may panic, too, and so may that of an event.
        if let Some(body) = body {
            let is_slow = foreign::call(|| shared.commit.drops_slowly(&body.process));
            if is_slow == Ok(true) {
                shared.put_aside(Chore::Drop(body));
            } else {
                self.note(shared, is_slow.map(drop));
                self.note(shared, shared.drop_body(body));
            }
        }
        self.note(shared, foreign::call(|| unheard.clear()));
        self.buffers.give(unheard);
        self.free.give(&shared.table, slot.index);
        self.counters(shared).completed.add(1);
        if self.closing {
            shared.drained.set();
        }
    }
}
