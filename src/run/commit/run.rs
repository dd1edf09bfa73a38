//! The commit point: one run's state behind its lock, and the way in and out of it.
//!
//! Every change of a run takes the lock, decides, appends its record, and then sends the
//! consequences: events, new processes and timers under the lock, so that queues have the order of
//! the log; calls and notices after it, since they reach foreign code.

use super::acts::Waiters;
use super::capacity::{Capacity, CapacityShare};
use super::kernel::Kernel;
use super::observe::{EventChannel, Once};
use super::outbox::{AfterUnlock, Outbound};
use super::parking::ParkingCheck;
use super::parking::residence::{Outcomes, Residence};
use super::remarks::Remarks;
use super::task::{Scratch, TaskState};
use crate::base::Monotonic;
use crate::base::brief::Brief;
use crate::process::{Body, Ending, LogLine, Output, Owed, Pid, Problem, Status, Tag, Timestamp, problem::kind};
use crate::run::record::kinds::{Died, Digest, Record, SteppedHead, put_log, whole_bytes};
use crate::run::record::wire::Wire;
use crate::run::seam::backlog::Backlog;
use crate::run::seam::log::{Durability, Log, Reading};
use crate::run::seam::snapshot_store::SnapshotStore;
use crate::run::state::config::{RunConfig, allocate};
use crate::run::state::decide::{Asker, Read, check};
use crate::run::state::events::Outcome;
use crate::run::state::exit::answer_of;
use crate::run::state::run_state::{Moment, RunTime, State};
use crate::run::state::table::WaitState;
use crate::scheduler::{Next, Port, Slot};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A run in the host.
pub(in crate::run) struct Run {
    pub(in crate::run) config: RunConfig,
    pub(in crate::run) kernel: Kernel,
    /// The time of the last batch that had consequences. Batches of one process and of those that
    /// it causes never go back. Written under the commit lock before the consequences, so that each
    /// of them sees it.
    pub(in crate::run) last_at: AtomicU64,
    /// How far the run's own clock is ahead of the host's monotonic clock, in microseconds. It
    /// starts at the wall clock's time when the run begins or is recovered, so it advances even if
    /// the wall clock is set back.
    pub(in crate::run) clock_offset: i64,
    /// Where snapshots of its processes are stored.
    pub(in crate::run) snapshot_store: Option<Arc<dyn SnapshotStore>>,
    /// The backlog of its journal.
    pub(in crate::run) backlog: Option<Arc<Backlog>>,
    pub(in crate::run) remarks: Arc<Remarks>,
    /// Counts the requests to save its processes. A process that reads an old number is visited
    /// after it.
    pub(in crate::run) save_epoch: AtomicU64,
    pub(in crate::run) inner: Brief<Inner>,
    pub(in crate::run) outcome: Arc<Outcomes>,
    /// Shared by its handles, while there is one. A leaf among locks.
    pub(in crate::run) residence: Mutex<Weak<Residence>>,
    /// The run was parked: its processes in memory only have to end. Only a hint, so no ordering is
    /// needed; [`Inner::parked`] is what counts.
    pub(in crate::run) parked_hint: AtomicBool,
    /// Whether none of its processes begins a step: it is paused, or waits for a place in its
    /// group. Written under the commit lock, before the scheduler is told.
    pub(in crate::run) is_held: AtomicBool,
    /// Distinguishes successive runs with one id, so that a stale timer is ignored.
    pub(in crate::run) serial: u64,
}

/// What the commit lock guards.
pub(in crate::run) struct Inner {
    pub(in crate::run) state: State,
    pub(in crate::run) log: Box<dyn Log>,
    /// The number of the last record whose consequences may leave.
    pub(in crate::run) durable: u64,
    /// No further record of the run will be durable.
    pub(in crate::run) lost: bool,
    /// Callers that wait for a record to be durable.
    pub(in crate::run) waiters: Waiters,
    /// Consequences that wait for their record to be durable, with its number.
    pub(in crate::run) outbox: VecDeque<(u64, Outbound)>,
    pub(in crate::run) watchers: Vec<Arc<EventChannel>>,
    /// The run has its outcome.
    pub(in crate::run) has_ended: bool,
    /// The run has left the memory: a caller that finds this asks the kernel for the run again.
    pub(in crate::run) parked: bool,
    pub(in crate::run) parking_check: ParkingCheck,
    /// It waits for a place in its concurrency group: none of its processes is stepped. No record
    /// says so: the journal does.
    pub(in crate::run) is_queued: bool,
    /// Its share of the host's capacity.
    pub(in crate::run) share: CapacityShare,
    bytes: Vec<u8>,
}

impl Inner {
    pub(in crate::run) fn new(state: State, log: Box<dyn Log>, capacity: Arc<Capacity>) -> Self {
        Self {
            share: CapacityShare::new(capacity),
            is_queued: log.waits_for_place(),
            state,
            log,
            durable: 0,
            lost: false,
            waiters: Waiters::default(),
            outbox: VecDeque::new(),
            watchers: Vec::new(),
            has_ended: false,
            parked: false,
            parking_check: ParkingCheck::default(),
            bytes: Vec::new(),
        }
    }

    /// Whether no process may begin a step.
    pub(in crate::run) fn is_held(&self) -> bool {
        self.is_queued || self.state.paused.is_some()
    }

    pub(in crate::run) fn is_durable(&self, record: u64) -> bool {
        self.durable >= record
    }

    /// Whether a record, or what it causes, waits for a disk.
    pub(in crate::run) fn has_undurable(&self) -> bool {
        !self.outbox.is_empty() || self.durable < self.state.counts.records
    }

    pub(in crate::run) fn is_lost(&self) -> bool {
        self.lost
    }

    pub(in crate::run) fn append(&mut self, record: &Record) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        record.encode(&mut bytes);
        self.append_bytes(&bytes);
        self.bytes = bytes;
    }

    fn append_bytes(&mut self, record: &[u8]) {
        self.state.counts.records += 1;
        match self.log.append(record) {
            Durability::Now => self.durable = self.state.counts.records,
            Durability::Later => {}
        }
    }

    /// Whether the run's journal has room for a step's output: an act of so many bytes, and its
    /// log, which is dropped if there is no room.
    fn has_room(&self, output: &mut Output, act_bytes: usize, bound: u64) -> Result<(), Box<Problem>> {
        let log_bytes = output.log.iter().map(LogLine::bytes).sum::<usize>();
        let bytes = self.log.bytes().saturating_add((act_bytes + log_bytes) as u64);
        if bytes <= bound {
            return Ok(());
        }
        output.log_dropped += output.log.len() as u64;
        output.log.clear();
        Err(Box::new(
            Problem::new(kind::JOURNAL_EXHAUSTED, "The run has written more than its journal may hold")
                .with_detail(format!("With this step it would be {bytes} bytes; the limit is {bound}.")),
        ))
    }

    /// What gives the records, without the lock where that waits for a disk.
    pub(in crate::run) fn reading(&self) -> Reading {
        self.log.reading().unwrap_or_else(|| {
            let records = self.log.records();
            Box::new(|| records)
        })
    }

    pub(in crate::run) fn slot_of(&self, pid: Pid) -> Option<Slot> {
        self.state.table.get(pid)?.slot
    }

    /// Ends the run: makes its outcome.
    pub(in crate::run) fn finish(&mut self, at: Timestamp, after: &mut AfterUnlock) {
        self.has_ended = true;
        let state = &mut self.state;
        let result = state.result.clone().expect("invariant: a finished run has its result");
        let ending = state.root_ending.clone().expect("invariant: the root has ended");
        let durability = self.log.ended(&state.end(at).expect("invariant: it has ended"));
        let outcome = Outcome {
            ending,
            result,
            late: state.late,
            abandoned: std::mem::take(&mut state.abandoned),
            abandoned_more: state.abandoned_more,
            counts: state.counts,
        };
        for watcher in self.watchers.drain(..) {
            watcher.close(&mut after.add().wakers);
        }
        let outcome = Outbound::Outcome(Box::new(outcome));
        match durability {
            Durability::Now => self.send(outcome, after),
            Durability::Later if self.lost => {}
            Durability::Later => self.outbox.push_back((self.state.counts.records + 1, outcome)),
        }
    }
}

impl Run {
    /// Makes a run that starts at this time, given by the wall clock and by the host's monotonic
    /// clock.
    pub(in crate::run) fn new(
        config: RunConfig,
        kernel: Kernel,
        (started, mono): (Timestamp, Monotonic),
        state: State,
        log: Box<dyn Log>,
    ) -> Self {
        let inner = Inner::new(state, log, kernel.capacity());
        Self::of(config, kernel, (started, mono), inner, Arc::new(Once::new()))
    }

    /// Makes a recovered run: its state is that of records whose last time is `last_at`, and its
    /// timers are due by the wall clock. One that was parked also continues by its own clock:
    /// otherwise its time would stand still while the wall clock is behind.
    pub(in crate::run) fn recovered(
        config: RunConfig,
        kernel: Kernel,
        (last_at, mono, clock_offset): (Timestamp, Monotonic, Option<i64>),
        state: State,
        log: Box<dyn Log>,
        outcome: Arc<Outcomes>,
    ) -> Self {
        let own =
            clock_offset.map_or(Timestamp(0), |clock_offset| Timestamp(mono.0.saturating_add_signed(clock_offset)));
        let now = kernel.clock().at(mono).max(last_at).max(own);
        let mut inner = Inner::new(state, log, kernel.capacity());
        inner.durable = inner.state.counts.records;
        Self::of(config, kernel, (now, mono), inner, outcome)
    }

    fn of(
        config: RunConfig,
        kernel: Kernel,
        (now, mono): (Timestamp, Monotonic),
        inner: Inner,
        outcome: Arc<Outcomes>,
    ) -> Self {
        let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        Self {
            serial: kernel.next_serial(),
            residence: Mutex::default(),
            parked_hint: AtomicBool::new(false),
            is_held: AtomicBool::new(inner.is_held()),
            snapshot_store: inner.log.snapshot_store(),
            backlog: inner.log.backlog(),
            remarks: Arc::new(Remarks::new(Arc::clone(&config.id), config.sink.clone())),
            save_epoch: AtomicU64::new(0),
            config,
            kernel,
            last_at: AtomicU64::new(now.0),
            clock_offset: signed(now.0) - signed(mono.0),
            inner: Brief::new(inner),
            outcome,
        }
    }

    /// A time of the run's own clock, by the host's monotonic one.
    pub(in crate::run) fn host_time(&self, time: RunTime) -> Monotonic {
        Monotonic(time.0.saturating_add_signed(-self.clock_offset))
    }

    /// The time of a batch that begins now.
    pub(in crate::run) fn moment(&self, mono: Monotonic) -> Moment {
        let own = mono.0.saturating_add_signed(self.clock_offset);
        // Time passes even if the wall clock was set back.
        let wall = self.kernel.clock().at(mono).0.max(own);
        // A batch that was caused by another begins after that one was committed, and so reads what
        // it wrote here.
        Moment { at: Timestamp(wall.max(self.last_at.load(Relaxed))), mono: RunTime(own) }
    }

    /// Commits a step.
    pub(in crate::run) fn commit<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        port: &mut P,
        task: &mut TaskState,
        status: Status,
    ) -> Next {
        let mut scratch = task.scratch.take().expect("invariant: a step has its buffers");
        let head = SteppedHead {
            pid: task.pid,
            step: task.steps + 1,
            at: task.at,
            took: task.consumed.events,
            fuel: scratch.output.fuel,
            digest: Digest(0),
            owes: task.body.owes().is_some(),
        };
        // All that can be encoded before the lock is taken is encoded here.
        let act_bytes = head.put_with_act(&mut scratch.record, &status, &scratch.output.commands);
        let owed = task.body.owes();
        let bytes = match owed {
            Some(Owed { commands, status }) if task.wait_state != WaitState::Owes => {
                whole_bytes(&mut scratch.record, status, [&scratch.output.commands, commands])
            }
            _ => act_bytes,
        };
        let moment = Moment { at: task.at, mono: task.mono };
        let pid = task.pid;
        let read = Read::of(&scratch.output.commands);

        let mut inner = self.inner.lock();
        inner.state.ceiling = inner.share.ceiling();
        let mut after = AfterUnlock::default();
        let mut former = None;
        let checked = inner.state.living(pid).map(|entry| {
            inner.has_room(&mut scratch.output, bytes, self.kernel.journal_bytes_max())?;
            check(&inner.state, (pid, entry), &status, &scratch.output, owed, bytes)
        });
        let next = match checked {
            // The process was killed meanwhile.
            None => Next::Complete,
            Some(Err(problem)) => {
                self.end(&mut inner, moment, pid, Ending::Failed(problem.into()), &mut scratch);
                Next::Complete
            }
            Some(Ok(())) => {
                inner.state.promised.give(pid, &scratch.output.commands, owed);
                self.apply_step(&mut inner, moment, task, read, (status, head.owes, &mut former), &mut scratch)
            }
        };
        self.flush(&mut inner, port, moment, &mut after);
        drop(inner);

        if let Some(mut former) = former {
            former.close();
        }

        scratch.put();
        task.wait_state = match next {
            _ if head.owes => WaitState::Owes,
            Next::Blocked => WaitState::Blocked,
            Next::Idle => WaitState::Idle,
            _ => WaitState::Not,
        };
        if !after.is_empty() {
            self.after_unlock(port, after);
        }
        next
    }

    fn apply_step(
        self: &Arc<Self>,
        inner: &mut Inner,
        moment: Moment,
        task: &mut TaskState,
        read: Option<Read>,
        (status, owes, former): (Status, bool, &mut Option<Box<dyn Body>>),
        scratch: &mut Scratch,
    ) -> Next {
        let pid = task.pid;
        let state = &mut inner.state;
        let output = &mut scratch.output;
        task.steps += 1;
        state.take(moment, pid, task.consumed, output.fuel, output.commands.last().map(|command| command.tag));
        let mut asker = Asker { pid, program: &task.program, read, kv_bytes: 0 };
        for command in output.commands.drain(..) {
            let decision = state.decide(&self.config, &mut asker, moment, &command);
            decision.put(&mut scratch.record);
            state.apply(pid, moment, command, decision);
        }
        if matches!(status, Status::Complete(_)) {
            output.log.extend(inner.state.clear_outcome(pid, || task.body.influences()));
        }
        put_log(&mut scratch.record, &output.log, output.log_dropped);
        inner.append_bytes(&scratch.record);
        self.report_log(inner, (pid, task.steps), moment.at, (&output.log, output.log_dropped));

        let stuck = matches!(status, Status::Blocked) && !inner.state.can_wake(pid);
        let renewed = self.renewed(&inner.state, task, &status);
        let next = inner.state.apply_status(moment, pid, status, owes);
        let problem = match renewed.map(|body| *former = body) {
            Err(problem) => problem,
            Ok(()) if stuck => Box::new(
                Problem::new(kind::BLOCKED_ON_NOTHING, "The process waits for something that cannot come")
                    .with_detail("It is blocked with no unanswered tag, no link and no monitor."),
            ),
            Ok(()) => return next,
        };
        self.end(inner, moment, pid, Ending::Failed(problem.into()), &mut Scratch::default());
        Next::Complete
    }

    /// Makes the fresh body of a renewal. Returns the former one, which is closed and dropped when
    /// the lock is released.
    fn renewed(
        &self,
        state: &State,
        task: &mut TaskState,
        status: &Status,
    ) -> Result<Option<Box<dyn Body>>, Box<Problem>> {
        let Status::Renew { entry, input } = status else { return Ok(None) };
        let known = &state.table[task.pid];
        let next_tag = Tag(known.last_tag.0 + 1);
        let bounds = (&known.limits, &known.grants);
        let is_anonymous = known.is_anonymous;
        let mut body = self.config.body(&task.program, task.pid, next_tag, entry, input, bounds, is_anonymous)?;
        allocate(&mut *body, task.allocation)?;
        let former = std::mem::replace(&mut task.body, body);
        if let Some(tail) = &mut task.tail {
            tail.restart();
            tail.fresh = true;
        }
        Ok(Some(former))
    }

    /// Ends a process that did not return its end.
    pub(in crate::run) fn die<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        port: &mut P,
        task: &mut TaskState,
        moment: Moment,
        ending: Ending,
    ) {
        let mut scratch = task.scratch.take().unwrap_or_default();
        let mut inner = self.inner.lock();
        let mut after = AfterUnlock::default();
        self.end(&mut inner, moment, task.pid, ending, &mut scratch);
        self.flush(&mut inner, port, moment, &mut after);
        drop(inner);
        scratch.put();
        self.after_unlock(port, after);
    }

    /// Records and applies the end of a process that did not return it.
    pub(in crate::run) fn end(
        &self,
        inner: &mut Inner,
        moment: Moment,
        pid: Pid,
        ending: Ending,
        scratch: &mut Scratch,
    ) {
        let Some(entry) = inner.state.living(pid) else { return };
        let step = entry.steps + 1;
        let output = &mut scratch.output;
        let log = std::mem::take(&mut output.log);
        let (fuel, log_dropped) = (output.fuel, output.log_dropped);
        let died = Died { pid, step, at: moment.at, fuel, ending: ending.clone(), log, log_dropped };
        let record = Record::Died(Box::new(died));
        inner.append(&record);
        let Record::Died(died) = record else { unreachable!("invariant: it was just made") };
        self.report_log(inner, (pid, step), moment.at, (&died.log, died.log_dropped));
        let answer = answer_of(&ending);
        inner.state.exit(moment, pid, ending, answer);
    }
}
