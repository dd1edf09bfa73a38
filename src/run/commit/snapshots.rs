//! Saving the processes of a run.

use super::handle::RunHandle;
use super::outbox::{After, Leave};
use super::run::{Inner, Run};
use super::snapshot_writer::When;
use super::task::{Step, Task};
use crate::process::{Pid, SnapshotSupport};
use crate::run::seam::snapshot_store::Ignored;
use crate::scheduler::Interrupt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Run {
    /// A step of a process of which snapshots are kept was committed.
    pub(in crate::run) fn stepped(&self, step: &mut Step) {
        let Some(tail) = &mut step.tail else { return };
        if std::mem::take(&mut tail.fresh) {
            return;
        }
        tail.steps += 1;
        let asked = self.asked.load(Relaxed);
        let when = if std::mem::replace(&mut tail.asked, asked) == asked { When::Stepped } else { When::Asked };
        self.save(step, when);
        let Some(tail) = &mut step.tail else { return };
        let is_dear = tail.is_dear(&self.kernel.keeper().policy(), When::Leaving);
        if std::mem::replace(&mut tail.told, is_dear) != is_dear {
            Self::mark(&mut self.inner.lock(), step.pid, is_dear);
        }
    }

    /// Notes whether a process is to be saved before the run is parked.
    fn mark(inner: &mut Inner, pid: Pid, unsaved: bool) {
        if let Some(entry) = inner.state.living_mut(pid) {
            entry.unsaved = unsaved;
        }
    }

    /// Saves a process between two steps, if it pays.
    pub(in crate::run) fn save(&self, step: &mut Step, when: When) {
        let (Some(tail), Some(shelf)) = (&mut step.tail, &self.shelf) else { return };
        let keeper = self.kernel.keeper();
        if !tail.is_dear(&keeper.policy(), when) || !keeper.has_room() {
            return;
        }
        match step.program.snapshot_support() {
            SnapshotSupport::Never => {
                step.tail = None;
                return;
            }
            // It is saved after one of its next steps. One that leaves, or was asked for, is evicted or waited for, and learns by that.
            SnapshotSupport::ToLearn(_) if when == When::Stepped => {
                if !std::mem::replace(&mut tail.learns, true) {
                    keeper.learn(&step.program);
                }
                return;
            }
            SnapshotSupport::ToLearn(_) | SnapshotSupport::Ready(_) => {}
        }
        let taken = step.body.save();
        let held = taken.map(|taken| keeper.hold(shelf, step.pid, step.steps, taken, tail));
        tail.restart();
        let was_told = std::mem::take(&mut tail.told);
        let mut after = After::default();
        let mut inner = self.inner.lock();
        if was_told {
            Self::mark(&mut inner, step.pid, false);
        }
        let Some(held) = held else { return };
        inner.leave(Leave::Snapshot(Box::new(held)), &mut after);
        drop(inner);
        for leave in after.into_leave() {
            if let Leave::Snapshot(held) = leave {
                keeper.keep(held);
            }
        }
    }
}

impl Task {
    /// Somebody had it interrupted between two steps: perhaps to be saved.
    pub(in crate::run) fn visit(&mut self) {
        let asked = self.run.asked.load(Relaxed);
        if let Some(tail) = &mut self.step.tail
            && std::mem::replace(&mut tail.asked, asked) != asked
        {
            self.run.save(&mut self.step, When::Asked);
        }
    }
}

impl RunHandle {
    /// Has all processes of a durable run saved that can be: those that wait at once, the others after the step in progress.
    /// [`Kernel::flush_snapshots`](super::Kernel::flush_snapshots) waits until what was taken is written.
    pub fn snapshot(&self) {
        let visited = self.with(|run, inner| {
            let begun = inner.state.table.iter().filter(|(_, entry)| entry.lives() && entry.begun);
            (Arc::clone(run), begun.filter_map(|(_, entry)| entry.slot).collect::<Vec<_>>())
        });
        let Some((run, slots)) = visited.filter(|(run, _)| run.shelf.is_some()) else { return };
        run.asked.fetch_add(1, Relaxed);
        run.kernel.with_port(|port| slots.iter().for_each(|slot| port.interrupt(*slot, Interrupt::Visit)));
    }

    /// The snapshots that were not used when processes of this run were taken up, the first of them, and how many there were in all.
    #[must_use]
    pub fn ignored_snapshots(&self) -> (Vec<Ignored>, u64) {
        self.run().map(|run| run.remarks.ignored()).unwrap_or_default()
    }
}
