//! Drives an execution to its end.

use super::disk::{Disk, DiskLog};
use super::server::Servers;
use super::{End, Execution, Stage, TURNS_MAX};
use crate::base::{Clock, Monotonic, VirtualClock};
use crate::host::{virtual_recovery, virtual_spec};
use crate::process::{Micros, Payload, Timestamp};
use crate::run::{self, Act, Effects, Kernel, Log, ParkingPolicy, Record, RecoveryError, Resolution, RunHandle};
use crate::scheduler::{Config, TurnOutcome, VirtualScheduler};
use crate::testing::case_file::Case;
use crate::testing::faults::{Fault, Faults};
use crate::workflow::model::{Durability, write_duration};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of the records of one execution. Arbitrary.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;
/// Processes that live at one time in one execution. Arbitrary.
const PROCESSES_MAX: u32 = 1 << 16;
/// Turns between two looks at the real time. Arbitrary.
const LOOK_EVERY: u64 = 256;
/// Turns until a worker that found nothing has looked at the clock: it does so every 64th turn.
const IDLE_TURNS: u32 = 130;

/// Runs a case.
pub(super) fn execute(stage: &Stage, case: &Case, faults: &Faults) -> Execution {
    let mut drive = Drive::new(stage, case, faults);
    let end = drive.run().unwrap_or_else(|end| end);
    drive.finish(end)
}

/// An operation on the run that comes at its time. It is repeated with its id until it is certain.
struct Due {
    at: Monotonic,
    act: Act,
    id: String,
    /// Its number among the signals of the case.
    signal: Option<usize>,
    is_certain: bool,
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// The host that lives.
struct Living {
    kernel: Kernel,
    scheduler: VirtualScheduler<Kernel>,
    run: RunHandle,
}

impl Drop for Living {
    fn drop(&mut self) {
        // The kernel and its scheduler hold each other.
        self.kernel.detach();
    }
}

struct Drive<'a> {
    stage: &'a Stage,
    case: &'a Case,
    id: Arc<str>,
    time: VirtualClock,
    disk: Arc<Mutex<Disk>>,
    servers: Arc<Servers>,
    living: Option<Living>,
    acts: Vec<Due>,
    faults: &'a Faults,
    plight: Plight,
    incidents: Vec<(u64, Timestamp, String)>,
    turns: u64,
    begun: Instant,
}

/// The faults of the host that are still to come, the first at the end.
#[derive(Default)]
struct Plight {
    crashes: Vec<(u64, Micros)>,
    jumps: Vec<(u64, Micros)>,
    evicts: bool,
    twice: Vec<String>,
}

impl Plight {
    fn new(faults: &Faults) -> Self {
        let mut plight = Self::default();
        for fault in &faults.0 {
            match fault {
                Fault::Crash { record, down } => plight.crashes.push((*record, *down)),
                Fault::Jump { record, by } => plight.jumps.push((*record, *by)),
                Fault::Evict => plight.evicts = true,
                Fault::Twice { signal } => plight.twice.push(signal.clone()),
                Fault::Lost { .. } | Fault::Late { .. } | Fault::Fail { .. } => {}
            }
        }
        plight.crashes.sort_unstable_by(|one, other| other.cmp(one));
        plight.jumps.sort_unstable_by(|one, other| other.cmp(one));
        plight
    }
}

impl<'a> Drive<'a> {
    fn new(stage: &'a Stage, case: &'a Case, faults: &'a Faults) -> Self {
        let (time, disk) = (VirtualClock::default(), Arc::<Mutex<Disk>>::default());
        let servers = Arc::new(Servers::new(stage, case, faults, (&time, &disk)));
        let plight = Plight::new(faults);
        disk.lock().dies_after = plight.crashes.last().map(|(record, _)| *record as usize);
        let signals = case.signals.iter().enumerate().map(|(number, signal)| Due {
            at: Monotonic(signal.at.0),
            act: Act::Signal { name: signal.name.value.as_str().into(), body: Payload::json(&signal.body) },
            id: format!("signal-{number}"),
            signal: Some(number),
            is_certain: false,
        });
        let cancel = case.cancel.iter().map(|at| Due {
            at: Monotonic(at.value.0),
            act: Act::Cancel { reason: "the test cancels it".into(), grace: None },
            id: "cancel".to_owned(),
            signal: None,
            is_certain: false,
        });
        let mut acts: Vec<Due> = signals.chain(cancel).collect();
        acts.sort_by_key(|due| due.at);
        let (id, begun) = (Arc::clone(&stage.id), Instant::now());
        let incidents = Vec::new();
        Self { stage, case, id, time, disk, servers, living: None, acts, faults, plight, incidents, turns: 0, begun }
    }

    fn run(&mut self) -> Result<End, End> {
        self.start()?;
        loop {
            self.check_bounds()?;
            if self.disk.lock().is_dead {
                self.crash()?;
                continue;
            }
            self.report_durable();
            // The answer of a call that has just left may be lost with the host.
            if self.disk.lock().is_dead {
                continue;
            }
            self.jump();
            if let Some(end) = self.servers.inner.lock().end.take() {
                return Ok(end);
            }
            let run = &self.living()?.run;
            if let Some(outcome) = run.outcome() {
                return Ok(End::Ended(Box::new(crate::host::Outcome::new(Arc::clone(&self.id), &outcome))));
            }
            if self.act() || self.servers.deliver() {
                continue;
            }
            if self.turn()? == TurnOutcome::Nothing && !self.resolve() && !self.wait()? {
                return Ok(End::Stuck);
            }
        }
    }

    fn living(&mut self) -> Result<&mut Living, End> {
        self.living.as_mut().ok_or_else(|| End::Broken("there is no host".to_owned()))
    }

    fn check_bounds(&mut self) -> Result<(), End> {
        self.turns += 1;
        if self.turns > TURNS_MAX {
            return Err(End::TooLong("turns"));
        }
        if self.turns.is_multiple_of(LOOK_EVERY) {
            if self.begun.elapsed() > self.stage.real_time_max {
                return Err(End::TooLong("real time"));
            }
            if self.disk.lock().is_full() {
                return Err(End::TooLong("records"));
            }
        }
        Ok(())
    }

    /// A kernel and a scheduler, without a run.
    fn host(&self) -> (Kernel, VirtualScheduler<Kernel>) {
        let kernel = Kernel::new(run::Clock::starting_at(self.case.clock));
        kernel.wake_by_hand();
        kernel.park_when(ParkingPolicy::NEVER);
        kernel.bound_journals(JOURNAL_BYTES_MAX);
        let capacity = if self.plight.evicts { self.stage.for_one() } else { self.stage.capacity };
        let config = Config {
            workers: 1,
            capacity,
            outside: Some(Arc::clone(&self.stage.outside)),
            clock: Clock::Virtual(self.time.clone()),
            processes_max: PROCESSES_MAX,
            chores_in_turns: true,
            ..Config::default()
        };
        let scheduler = VirtualScheduler::new(Arc::new(kernel.clone()), &config);
        kernel.attach(scheduler.handle());
        *self.servers.kernel.lock() = Some(kernel.clone());
        (kernel, scheduler)
    }

    /// Where records and calls of the run go.
    fn seams(&self) -> (Box<dyn Log>, Arc<dyn Effects>) {
        (Box::new(DiskLog(Arc::clone(&self.disk))), Arc::clone(&self.servers) as Arc<dyn Effects>)
    }

    fn start(&mut self) -> Result<(), End> {
        let (kernel, scheduler) = self.host();
        let given = self.case.given().map_err(|(span, why)| End::BadExpression(span, why.to_owned()))?;
        let seed = *blake3::hash(self.case.name.value.as_bytes()).as_bytes();
        let spec = virtual_spec(self.stage.workflow(), (&self.id, seed), &self.stage.root, given, self.seams());
        #[cfg(test)]
        let spec = spec.map(|spec| self.stage.begins(spec));
        let started = spec.map_err(End::Refused).and_then(|spec| {
            kernel.start(spec).map_err(|error| End::Broken(format!("the run cannot be started: {error}")))
        });
        match started {
            Ok(run) => self.living = Some(Living { kernel, scheduler, run }),
            Err(end) => {
                kernel.detach();
                return Err(end);
            }
        }
        Ok(())
    }

    /// Reports that all records are durable: what depends on them leaves the host.
    fn report_durable(&mut self) {
        let written = self.disk.lock().written();
        if let Some(living) = &self.living {
            living.kernel.durable(&self.id, written);
        }
    }

    fn turn(&mut self) -> Result<TurnOutcome, End> {
        Ok(self.living()?.scheduler.turn(0))
    }

    /// Performs the acts whose time has come. Returns whether there were any.
    fn act(&mut self) -> bool {
        let now = self.time.now();
        let Some(living) = &self.living else { return false };
        let mut any = false;
        for due in self.acts.iter_mut().filter(|due| due.at <= now && !due.is_certain) {
            let is_twice =
                matches!(&due.act, Act::Signal { name, .. } if self.plight.twice.iter().any(|one| **one == **name));
            for _ in 0..=usize::from(is_twice) {
                // A run that has ended refuses it.
                let _ = living.run.act(due.act.clone(), Some(&due.id));
            }
            // If the host dies before the record is on the disk, the sender tries again.
            due.is_certain = !self.disk.lock().is_dead || self.disk.lock().story.knows(&due.id);
            any = true;
        }
        any
    }

    /// Settles calls whose outcome is unknown, as an operator does who asks the servers. Returns
    /// whether there were any.
    fn resolve(&mut self) -> bool {
        if !self.disk.lock().story.is_uncertain() {
            return false;
        }
        let Some(living) = &self.living else { return false };
        let mut any = false;
        for call in living.run.uncertain() {
            let seen = self.servers.answer_of(&call.key);
            let resolution = seen.map_or(Resolution::Again, Resolution::Answered);
            any |= living.run.resolve(call.pid, call.tag, resolution).is_ok();
        }
        any
    }

    /// Moves the clock to what comes next. Returns false if nothing will.
    fn wait(&mut self) -> Result<bool, End> {
        // A worker looks at the clock now and then only.
        for _ in 0..IDLE_TURNS {
            if self.turn()? != TurnOutcome::Nothing {
                return Ok(true);
            }
        }
        let act = self.acts.iter().filter(|due| !due.is_certain).map(|due| due.at).next();
        let timer = self.living()?.scheduler.next_timer();
        let next = [act, timer, self.servers.next_due()].into_iter().flatten().min();
        // A timer that is due and does not fire is looked for again.
        let Some(next) = next.map(|next| next.max(self.time.now().saturating_add(Micros(1)))) else { return Ok(false) };
        self.time.advance_to(next);
        Ok(true)
    }

    /// Moves the clock forward, if a fault says so.
    fn jump(&mut self) {
        let written = self.disk.lock().records.len() as u64;
        while let Some((_, by)) = self.plight.jumps.pop_if(|(record, _)| *record <= written) {
            self.note(format!("the clock jumps forward by {}", write_duration(by)));
            self.time.advance_to(self.time.now().saturating_add(by));
        }
    }

    fn note(&mut self, what: String) {
        let at = self.case.clock.saturating_add(Micros(self.time.now().0));
        self.incidents.push((self.disk.lock().records.len() as u64, at, what));
    }

    /// The host dies, and another one takes its place.
    fn crash(&mut self) -> Result<(), End> {
        if self.stage.workflow().plan().durability() != Durability::Journal {
            return Err(End::Broken("the host died, and the run is lost: the workflow has no journal".to_owned()));
        }
        drop(self.living.take());
        self.servers.lose();
        let written = self.disk.lock().records.len() as u64;
        let down = self.servers.inner.lock().down.take();
        let crash = self.plight.crashes.pop_if(|(record, _)| *record <= written).map(|(_, down)| down);
        // Of several crashes at the same record, one is enough.
        while self.plight.crashes.pop_if(|(record, _)| *record <= written).is_some() {}
        let down = down.or(crash).unwrap_or_default();
        let pause = if down == Micros(0) { String::new() } else { format!(" {} later", write_duration(down)) };
        self.note(format!("the host dies, and another one recovers the run{pause}"));
        self.time.advance_to(self.time.now().saturating_add(down));
        let records = {
            let mut disk = self.disk.lock();
            disk.is_dead = false;
            disk.dies_after = self.plight.crashes.last().map(|(record, _)| *record as usize);
            disk.records.clone()
        };
        let records = Record::decode_run(records).map_err(|error| End::Broken(error.to_string()))?;
        let (kernel, scheduler) = self.host();
        let recovered =
            kernel.recover(virtual_recovery(self.stage.workflow(), &self.stage.root, self.seams()), &records);
        match recovered {
            Ok(run) => {
                self.living = Some(Living { kernel, scheduler, run });
                Ok(())
            }
            Err(error) => {
                kernel.detach();
                let outcome = self.disk.lock().story.outcome(&self.id);
                Err(match (error, outcome) {
                    (RecoveryError::Ended(_), Some(outcome)) => End::Ended(Box::new(outcome)),
                    (error, _) => End::Broken(format!("the run cannot be recovered: {error}")),
                })
            }
        }
    }

    fn finish(mut self, end: End) -> Execution {
        let took = self.begun.elapsed();
        drop(self.living.take());
        self.servers.lose();
        let unsent = self.acts.iter().filter(|due| !due.is_certain).filter_map(|due| due.signal).collect();
        *self.servers.kernel.lock() = None;
        let missed = self.faults.0.iter().filter_map(|fault| Some((fault.clone(), self.missed(fault)?))).collect();
        let calls = std::mem::take(&mut self.servers.inner.lock().calls);
        let mut disk = self.disk.lock();
        let records = std::mem::take(&mut disk.records);
        let mut digest = blake3::Hasher::new();
        for record in &records {
            digest.update(&(record.len() as u64).to_le_bytes()).update(record);
        }
        let digest = digest.finalize().to_hex().to_string();
        let (story, incidents) = (std::mem::take(&mut disk.story), self.incidents);
        Execution { story, calls, end, took, digest, records, incidents, unsent, missed }
    }

    /// Why a fault hit nothing; `None` if it did.
    fn missed(&self, fault: &Fault) -> Option<String> {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        match fault {
            Fault::Crash { record, .. } | Fault::Jump { record, .. } => {
                let left =
                    [&self.plight.crashes, &self.plight.jumps].map(|left| left.iter().any(|(at, _)| at == record));
                let is_left = left[usize::from(matches!(fault, Fault::Jump { .. }))];
                let count = self.disk.lock().records.len();
                is_left.then(|| format!("the run has {count} record{}", plural(count)))
            }
            Fault::Lost { call, .. } | Fault::Late { call, .. } => {
                let count = self.servers.count(&call.handler);
                let why = || format!("there {} {count} call{} of `{}`", are(count), plural(count), call.handler);
                (count < call.number).then(why)
            }
            Fault::Fail { call, .. } => {
                let count = self.servers.count(&call.handler);
                let why = || format!("there {} {count} call{} of `{}`", are(count), plural(count), call.handler);
                (!self.servers.inner.lock().failed.contains_key(call)).then(why)
            }
            Fault::Twice { signal } => {
                let is_sent = self
                    .acts
                    .iter()
                    .any(|due| due.is_certain && matches!(&due.act, Act::Signal { name, .. } if **name == **signal));
                (!is_sent).then(|| format!("no signal `{signal}` was sent"))
            }
            Fault::Evict => None,
        }
    }
}
