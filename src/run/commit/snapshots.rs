//! Saving the processes of a run.

use super::handle::RunHandle;
use super::kernel::Kernel;
use super::outbox::{AfterUnlock, Outbound};
use super::run::{Inner, Run};
use super::snapshot_writer::SnapshotTrigger;
use super::task::{Task, TaskState};
use crate::process::{Pid, SnapshotSupport};
use crate::run::seam::snapshot_store::UnusedSnapshot;
use crate::scheduler::{Interrupt, Port, Slot};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Run {
    /// Follows the commit of a step of a process that has snapshots.
    pub(in crate::run) fn stepped(&self, task: &mut TaskState) {
        let Some(tail) = &mut task.tail else { return };
        if std::mem::take(&mut tail.fresh) {
            return;
        }
        tail.steps += 1;
        let is_requested = tail.is_requested(self.save_epoch.load(Relaxed));
        let trigger = if is_requested { SnapshotTrigger::Requested } else { SnapshotTrigger::Stepped };
        self.save(task, trigger);
        let Some(tail) = &mut task.tail else { return };
        let is_expensive = tail.is_expensive(&self.kernel.snapshot_writer().policy(), SnapshotTrigger::Unloading);
        if tail.marked_expensive != is_expensive {
            tail.marked_expensive = is_expensive;
            Self::mark(&mut self.inner.lock(), task.pid, is_expensive);
        }
    }

    /// Asks for snapshots of the processes in these slots.
    pub(in crate::run) fn request_snapshots<P: Port<Kernel> + ?Sized>(&self, port: &mut P, slots: &[Slot]) {
        self.save_epoch.fetch_add(1, Relaxed);
        for slot in slots {
            port.interrupt(*slot, Interrupt::Visit);
        }
    }

    /// Notes whether a process is to be saved before the run is parked.
    fn mark(inner: &mut Inner, pid: Pid, unsaved: bool) {
        if let Some(entry) = inner.state.living_mut(pid) {
            entry.unsaved = unsaved;
        }
    }

    /// Saves a process between two steps, if it pays.
    pub(in crate::run) fn save(&self, task: &mut TaskState, trigger: SnapshotTrigger) {
        let (Some(tail), Some(snapshot_store)) = (&mut task.tail, &self.snapshot_store) else { return };
        let writer = self.kernel.snapshot_writer();
        if !tail.is_expensive(&writer.policy(), trigger) || !writer.has_room() {
            return;
        }
        match task.program.snapshot_support() {
            SnapshotSupport::Never => {
                task.tail = None;
                return;
            }
            // The process is saved after one of its next steps. One that is unloaded, or whose
            // snapshot was requested, is evicted or waited for, and learns by that.
            SnapshotSupport::ToLearn(_) if trigger == SnapshotTrigger::Stepped => {
                if !std::mem::replace(&mut tail.learns_support, true) {
                    writer.learn(&task.program);
                }
                return;
            }
            SnapshotSupport::ToLearn(_) | SnapshotSupport::Ready(_) => {}
        }
        let raw = task.body.save();
        let pending = raw.map(|raw| writer.reserve(snapshot_store, task.pid, task.steps, raw, tail));
        tail.restart();
        let was_marked = std::mem::take(&mut tail.marked_expensive);
        let mut after = AfterUnlock::default();
        let mut inner = self.inner.lock();
        if was_marked {
            Self::mark(&mut inner, task.pid, false);
        }
        let Some(pending) = pending else { return };
        inner.send(Outbound::Snapshot(Box::new(pending)), &mut after);
        drop(inner);
        for outbound in after.into_outbound() {
            if let Outbound::Snapshot(pending) = outbound {
                writer.write(pending);
            }
        }
    }
}

impl Task {
    /// Follows an interrupt between two steps: perhaps a request for a snapshot.
    pub(in crate::run) fn visit(&mut self) {
        let save_epoch = self.run.save_epoch.load(Relaxed);
        if let Some(tail) = &mut self.state.tail
            && tail.is_requested(save_epoch)
        {
            self.run.save(&mut self.state, SnapshotTrigger::Requested);
        }
    }
}

impl RunHandle {
    /// Saves all processes of a durable run that can be saved: those that wait at once, the others
    /// after the step in progress. [`Kernel::flush_snapshots`] waits until what was taken
    /// is written.
    pub fn snapshot(&self) {
        let visited = self.with(|run, inner| {
            let begun = inner.state.table.iter().filter(|(_, entry)| entry.lives() && entry.begun);
            (Arc::clone(run), begun.filter_map(|(_, entry)| entry.slot).collect::<Vec<_>>())
        });
        let Some((run, slots)) = visited.filter(|(run, _)| run.snapshot_store.is_some()) else { return };
        run.kernel.with_port(|port| run.request_snapshots(port, &slots));
    }

    /// Returns the first snapshots that were not used when processes of this run were recovered,
    /// and how many there were in all.
    #[must_use]
    pub fn ignored_snapshots(&self) -> (Vec<UnusedSnapshot>, u64) {
        self.run().map(|run| run.remarks.ignored()).unwrap_or_default()
    }
}
