//! Log lines of a run's processes, and of the handlers that they call: for watchers of the run and
//! for the sink.

use super::kernel::Kernel;
use super::observe::Wakers;
use super::run::{Inner, Run};
use crate::process::{LogLine, Pid, Timestamp};
use crate::run::seam::log::LogOrigin;
use crate::run::state::events::RunEvent;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Kernel {
    /// Reports a line that a handler writes for a call of a process. A run that has left the memory
    /// has no call at a handler.
    pub fn log(&self, run: &str, pid: Pid, scope: Option<Arc<str>>, line: LogLine) {
        if let Some(run) = self.in_memory(run) {
            run.log(pid, scope, line);
        }
    }
}

impl Run {
    /// Reports a step's lines to watchers and the sink, and how many more were dropped. The step's
    /// record is in the log.
    #[inline]
    pub(in crate::run) fn report_log(
        &self,
        inner: &mut Inner,
        (pid, step): (Pid, u64),
        at: Timestamp,
        (lines, dropped): (&[LogLine], u64),
    ) {
        if !lines.is_empty() || dropped > 0 {
            self.report_lines(inner, (pid, step), at, (lines, dropped));
        }
    }

    fn report_lines(
        &self,
        inner: &mut Inner,
        (pid, step): (Pid, u64),
        at: Timestamp,
        (lines, dropped): (&[LogLine], u64),
    ) {
        inner.state.counts.log_dropped += dropped;
        for line in lines {
            inner.state.report(|| RunEvent::Logged { pid, scope: None, at, line: line.clone() });
        }
        self.config.log(lines, dropped, || {
            let component = inner.state.table[pid].component.clone();
            LogOrigin { run: Arc::clone(&self.config.id), pid, scope: None, component, step, at }
        });
    }

    /// Reports a line that a handler writes for a call of a process. The record of the call has the
    /// line already.
    pub(in crate::run) fn log(&self, pid: Pid, scope: Option<Arc<str>>, line: LogLine) {
        let mut wakers = Wakers::default();
        let mut inner = self.inner.lock();
        let Some(entry) = inner.state.living(pid) else { return };
        let (component, step) = (entry.component.clone(), entry.steps);
        let at = Timestamp(self.last_at.load(Relaxed));
        if inner.state.observed {
            let event = RunEvent::Logged { pid, scope: scope.clone(), at, line: line.clone() };
            inner.watchers.retain(|watcher| watcher.push(event.clone(), &mut wakers));
        }
        self.config.log(std::slice::from_ref(&line), 0, || LogOrigin {
            run: Arc::clone(&self.config.id),
            pid,
            scope,
            component,
            step,
            at,
        });
        drop(inner);
        wakers.wake();
    }
}
