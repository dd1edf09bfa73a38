//! Runs of players: the commit point under the real scheduler, with handlers that answer late,
//! twice, or never, operators that cancel, kill, pause and signal, and faults of the host.
//!
//! In a world with crashes, records become durable later. When the host dies, a prefix of each
//! run's records survives, with at least the durable ones; another host with another wall clock
//! recovers the runs, answers to calls of the old host are lost, and the operators repeat the acts
//! that were not acknowledged.

mod verify;

use super::disk::{Disk, SlowLog};
use super::hosted::{Hosted, SchedulerPort};
use super::outside::Outside;
use super::player::{Capacity, Players, Table};
use super::{Dice, World};
use crate::journal::Memory;
use crate::process::{
    Answer, Budget, Grants, Limits, Message, Micros, Payload, Permit, Problem, ProblemClass, Program, Sender, Timestamp,
};
use crate::run::{
    Act, Bounds, Clock, Kernel, Log, ParkingPolicy, Programs, RecoveryError, RecoverySpec, Resolution, RunHandle,
    RunSpec,
};
use crate::scheduler::{Handle, Stats};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The start of the wall clock. Arbitrary.
const EPOCH: Timestamp = Timestamp(1_700_000_000_000_000);

/// A world of runs whose players ask for anything.
///
/// In some worlds waiting runs are parked; in some there is a budget for guests outside the pool.
pub struct Runs {
    kernel: Kernel,
    table: Arc<Table>,
    effects: Arc<Outside>,
    root: Arc<dyn Program>,
    programs: Programs,
    started: Vec<SimulatedRun>,
    started_max: usize,
    /// Runs that were started, including those that a crash lost.
    started_count: usize,
    crashes: Option<u64>,
    acts: u64,
    uncertain: u64,
    instances: u32,
    outside: Option<Arc<Budget>>,
    limits: Limits,
    /// When runs are parked; `None` if never.
    parking: Option<ParkingPolicy>,
    /// Records of 100 that are durable as soon as they are written.
    durable_at_once_percent: u64,
    /// Parked runs, summed over all observations.
    parked: u64,
    /// Draws whether runs are parked between the two steps of a timer.
    timer_dice: Arc<Mutex<Dice>>,
}

/// A run, as seen from outside.
struct SimulatedRun {
    id: Arc<str>,
    /// `None` if the host found that the run had ended.
    handle: Option<RunHandle>,
    /// Its log, if it outlives its host.
    disk: Option<Arc<Mutex<Disk>>>,
    /// The outcome that was reported, if any.
    reported: Option<Answer>,
    /// Accepted acts by number, and whether each was acknowledged.
    acts: BTreeMap<u64, (Act, bool)>,
}

impl Runs {
    /// Creates a world whose sizes follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0xa11);
        let limits = Limits {
            outstanding: 2 + dice.below(20) as u32,
            mailbox: dice.below(20) as u32,
            mailbox_bytes: 10 + dice.below(200),
            spawn_depth: 1 + dice.below(6) as u32,
            processes: 1 + dice.below(60) as u32,
            links: 1 + dice.below(6) as u32,
            fuel_total: 100 + dice.below(500),
            grace: Micros(dice.below(3_000)),
            ..Limits::default()
        };
        let guest = |instances| Permit { instances, ..Permit::NONE };
        let instances = 1 + dice.below(6) as u32;
        let outside = dice.chance(50).then(|| dice.below(4));
        let table = Arc::new(Table {
            faults: true.into(),
            counts: true.into(),
            draws: dice.roll().into(),
            pool: Capacity::new(instances.into()),
            // A returning guest may exceed the budget.
            outside: Capacity::new(outside.unwrap_or(0) + 1),
            ..Table::default()
        });
        let parks = dice.chance(60);
        let policy = ParkingPolicy {
            after: Duration::from_micros(200 + dice.below(3_000)),
            resident_max: dice.below(4) as usize,
        };
        let players = |permit| Arc::new(Players { table: Arc::clone(&table), permit, far: parks }) as Arc<dyn Program>;
        let programs: Programs = [
            ("native".into(), players(Permit::NONE)),
            ("guest".into(), players(guest(1))),
            ("large".into(), players(guest(2 + dice.below(3) as u32))),
        ]
        .into();
        let mut runs = Self {
            kernel: Kernel::new(Clock::starting_at(EPOCH)),
            root: players(Permit::NONE),
            effects: Arc::default(),
            table,
            programs,
            started: Vec::new(),
            started_max: 1 + dice.below(4) as usize,
            started_count: 0,
            crashes: None,
            acts: 0,
            uncertain: 0,
            instances,
            outside: outside.map(|count| Arc::new(Budget::new(count * guest(1).within(&limits).bytes))),
            limits,
            parking: parks.then_some(policy),
            durable_at_once_percent: [0, 50, 95, 100][dice.below(4) as usize],
            parked: 0,
            timer_dice: Arc::new(Mutex::new(Dice::new(dice.roll()))),
        };
        runs.renew_kernel(EPOCH);
        runs
    }

    /// Starts a host, at this time of its wall clock.
    fn renew_kernel(&mut self, wall: Timestamp) {
        self.kernel = Kernel::new(Clock::starting_at(wall));
        self.kernel.wake_by_hand();
        self.kernel.park_when(self.parking.unwrap_or(ParkingPolicy::NEVER));
    }

    /// Lets the host die.
    #[must_use]
    pub fn with_crashes(mut self) -> Self {
        self.crashes = Some(0);
        self
    }

    fn start(&mut self, dice: &mut Dice) {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&dice.roll().to_le_bytes());
        let granted: BTreeMap<_, _> = [("kv".to_owned(), Vec::new())].into_iter().filter(|_| dice.chance(80)).collect();
        let id: Arc<str> = format!("run-{}", self.started_count).into();
        let has_disk = self.crashes.is_some() || self.parking.is_some();
        let disk =
            has_disk.then(|| Arc::new(Mutex::new(Disk::new(self.durable_at_once_percent, Dice::new(dice.roll())))));
        let log: Box<dyn Log> = match &disk {
            Some(disk) => Box::new(self.log(disk)),
            None => Box::new(Memory::default()),
        };
        if let Some(disk) = &disk {
            self.effects.disks.lock().insert(Arc::clone(&id), Arc::clone(disk));
        }
        let spec = RunSpec {
            id: Arc::clone(&id),
            seed,
            root: Arc::clone(&self.root),
            entry: "root".into(),
            input: Payload::NULL,
            limits: self.limits.clone(),
            grants: Grants(Arc::new(granted)),
            bounds: Bounds {
                bytes: 200 + dice.below(2_000),
                exposed: dice.below(5),
                item_bytes: dice.below(3) * 8,
                ..Bounds::default()
            },
            programs: self.programs.clone(),
            log,
            effects: Arc::clone(&self.effects) as _,
            sink: None,
            watcher: None,
            origin: None,
        };
        // The host may be shutting down.
        if let Ok(run) = self.kernel.start(spec) {
            self.started_count += 1;
            self.started.push(SimulatedRun { id, handle: Some(run), disk, reported: None, acts: BTreeMap::new() });
        }
    }

    fn log(&self, disk: &Arc<Mutex<Disk>>) -> SlowLog {
        SlowLog { disk: Arc::clone(disk), parks: self.parking.is_some() }
    }

    fn answer(&self, dice: &mut Dice) {
        let (call, reply) = {
            let mut waiting = self.effects.waiting.lock();
            if waiting.is_empty() {
                return;
            }
            let at = dice.below(waiting.len() as u64) as usize;
            waiting.swap_remove(at)
        };
        let answer: Answer = if dice.chance(70) {
            Ok(call.args.clone())
        } else {
            Err(Arc::new(Problem::new("theirs", "It did not work").with_class(ProblemClass::Retryable)))
        };
        match dice.below(10) {
            // No answer.
            0 => {}
            1 => {
                reply.answer(answer.clone());
                reply.answer(answer);
            }
            2 => {
                let message =
                    Message { sender: Sender::Call(call.tag), topic: "progress".into(), body: call.args.clone() };
                let _ = reply.message(message);
                self.effects.waiting.lock().push((call, reply));
            }
            _ => reply.answer(answer),
        }
    }

    fn operate(&mut self, dice: &mut Dice) {
        let which = dice.below(self.started.len() as u64) as usize;
        let Some(run) = self.started.get_mut(which) else { return };
        let Some(handle) = &run.handle else { return };
        // A run may refuse the act, because it has ended or is full.
        let act = match dice.below(20) {
            0 => Act::Cancel { reason: "operator asked".into(), grace: Some(Micros(dice.below(5_000))) },
            1 if dice.chance(30) => return handle.kill("operator insisted"),
            2..6 => Act::Pause,
            6..11 => Act::Resume,
            11 => return handle.snapshot(),
            _ => {
                let name = format!("name-{}", dice.below(5)).into();
                Act::Signal { name, body: Payload::json(&dice.roll()) }
            }
        };
        self.acts += 1;
        if let Ok(done) = handle.act(act.clone(), Some(&self.acts.to_string())) {
            run.acts.insert(self.acts, (act, done.is_durable()));
        }
    }

    /// Makes more of the logs durable, and notes the outcomes that this reports.
    fn sync(&mut self, mut to: impl FnMut(u64) -> u64) {
        for run in &mut self.started {
            let Some(disk) = &run.disk else { continue };
            if disk.lock().has_unreported() {
                let (durable, written) = disk.lock().progress();
                let durable = disk.lock().sync(durable + to((written - durable) as u64) as usize);
                // As a journal reports it, by the id of the run.
                self.kernel.durable(&run.id, durable);
            }
            let Some(handle) = &run.handle else { continue };
            run.reported = run.reported.take().or_else(|| handle.outcome().map(|outcome| outcome.result.clone()));
            for (number, (act, acknowledged)) in &mut run.acts {
                // A repeated act is acknowledged once its record is durable.
                if !*acknowledged && let Ok(done) = handle.act(act.clone(), Some(&number.to_string())) {
                    *acknowledged = done.is_durable();
                }
            }
        }
    }

    /// Settles calls whose outcome is unknown. Returns whether there were any.
    fn resolve(&mut self, dice: &mut Dice) -> bool {
        let mut resolved = false;
        for run in &self.started {
            let Some(handle) = &run.handle else { continue };
            for call in handle.uncertain() {
                let resolution = if dice.chance(50) {
                    self.effects.permit_again(&call.key);
                    Resolution::Again
                } else {
                    Resolution::Answered(Ok(Payload::NULL))
                };
                self.uncertain += 1;
                resolved |= handle.resolve(call.pid, call.tag, resolution).is_ok();
            }
        }
        resolved
    }

    fn recover(&mut self, which: usize) -> Result<(), String> {
        let disk = self.started[which].disk.as_ref().expect("invariant: in a world with crashes logs are on disk");
        let (log, records) = (self.log(disk), disk.lock().records());
        let spec = RecoverySpec {
            root: Arc::clone(&self.root),
            programs: self.programs.clone(),
            left: Vec::new(),
            unless_paused: false,
            log: Box::new(log),
            effects: Arc::clone(&self.effects) as _,
            sink: None,
            watcher: None,
        };
        let resumed = self.kernel.recover(spec, &records);
        let run = &mut self.started[which];
        run.handle = match resumed {
            Ok(handle) if run.reported.is_none() => Some(handle),
            Ok(_) => return Err("its outcome was reported, and it continues".to_owned()),
            Err(RecoveryError::Ended(_)) => None,
            Err(error) => return Err(format!("it cannot be recovered after {} records: {error}", records.len())),
        };
        let Some(handle) = &run.handle else { return Ok(()) };
        for (number, (act, acknowledged)) in &mut run.acts {
            let before = handle.counts().records;
            let again = handle.act(act.clone(), Some(&number.to_string()));
            if *acknowledged && handle.counts().records > before {
                return Err(format!("the act {number} was acknowledged, and was performed again"));
            }
            *acknowledged |= again.is_ok_and(|again| again.is_durable());
        }
        Ok(())
    }
}

impl World for Runs {
    type Commit = Hosted;

    fn commit(&self) -> (Arc<Hosted>, Permit) {
        let (kernel, timer_dice, table) = (self.kernel.clone(), Arc::clone(&self.timer_dice), Arc::clone(&self.table));
        let between = move || {
            if timer_dice.lock().chance(30) {
                kernel.park_some();
            }
        };
        let closes = move || table.closing.store(true, Relaxed);
        let hosted = Hosted { kernel: self.kernel.clone(), between: Arc::new(between), closes: Arc::new(closes) };
        (Arc::new(hosted), Permit { instances: self.instances, ..Permit::NONE })
    }

    fn outside(&self) -> Option<Arc<Budget>> {
        self.outside.clone()
    }

    fn background(&mut self) {
        self.parked += self.kernel.parked().len() as u64;
        self.kernel.flush_waking();
    }

    fn act(&mut self, handle: &mut Handle<Hosted>, dice: &mut Dice) {
        self.kernel.attach(SchedulerPort(handle.clone()));
        if self.crashes.is_some() || self.parking.is_some() {
            self.sync(|unsaved| if dice.chance(60) { dice.below(unsaved + 1) } else { 0 });
            if dice.chance(20) {
                self.resolve(dice);
            }
        }
        match dice.below(10) {
            0..2 if self.started.len() < self.started_max => self.start(dice),
            0..4 => self.operate(dice),
            _ => self.answer(dice),
        }
    }

    fn calm(&mut self, handle: &mut Handle<Hosted>, dice: &mut Dice) {
        self.kernel.attach(SchedulerPort(handle.clone()));
        self.table.faults.store(false, Relaxed);
        if self.started.is_empty() {
            self.start(dice);
        }
        for run in self.started.iter().filter_map(|run| run.handle.as_ref()) {
            let _ = run.unpause();
        }
    }

    fn crash(&mut self, dice: &mut Dice) -> bool {
        let Some(crashes) = &mut self.crashes else { return false };
        *crashes += 1;
        // The rest of the old host reaches no run any more.
        self.kernel.detach();
        for run in &mut self.started {
            run.handle = None;
            let disk = run.disk.as_ref().expect("invariant: in a world with crashes logs are on disk");
            let mut disk = disk.lock();
            let (durable, written) = disk.progress();
            let left = durable + dice.below((written - durable) as u64 + 1) as usize;
            disk.crash(left);
        }
        self.effects.waiting.lock().clear();
        // The clock of the next host may be behind or ahead.
        let wall = if dice.chance(50) { EPOCH.0 - dice.below(1 << 40) } else { EPOCH.0 + dice.below(1 << 40) };
        self.renew_kernel(Timestamp(wall));
        true
    }

    fn restart(&mut self, handle: &mut Handle<Hosted>) {
        self.kernel.attach(SchedulerPort(handle.clone()));
        // A run whose start was lost was never acknowledged: it does not exist.
        self.started.retain(|run| run.disk.as_ref().is_none_or(|disk| disk.lock().progress().1 > 0));
        for which in 0..self.started.len() {
            if let Err(breach) = self.recover(which) {
                let id = &self.started[which].id;
                self.table.breaches.lock().push(format!("{id}: {breach}"));
            }
        }
    }

    fn settle(&mut self, handle: &mut Handle<Hosted>) -> bool {
        let parked = self.kernel.parked().len();
        self.kernel.flush_waking();
        if self.kernel.parked().len() < parked {
            return true;
        }
        if let Some(due) = self.kernel.next_due()
            && handle.stats().timers == 0
            && !self.table.closing.load(Relaxed)
        {
            self.table.breaches.lock().push(format!("a timer is due at {due:?}, but none is set: it was lost"));
        }
        let unsaved = |run: &SimulatedRun| run.disk.as_ref().is_some_and(|disk| disk.lock().has_unreported());
        if self.started.iter().any(unsaved) {
            self.sync(|unsaved| unsaved);
            return true;
        }
        if self.resolve(&mut Dice::new(self.acts)) {
            return true;
        }
        let waiting = std::mem::take(&mut *self.effects.waiting.lock());
        let owes = !waiting.is_empty();
        for (call, reply) in waiting {
            reply.answer(Ok(call.args));
        }
        if owes {
            return true;
        }
        // Players wait for messages that never come.
        let handles = self.started.iter().filter_map(|run| run.handle.as_ref());
        let unfinished: Vec<&RunHandle> = handles.filter(|run| run.outcome().is_none()).collect();
        unfinished.iter().filter(|run| run.cancel("the game is over", None).is_ok()).count() > 0
    }

    fn verify(&self, _: &Stats) -> Result<(), String> {
        let parked: BTreeSet<_> = self.kernel.parked().into_iter().map(|(id, _)| id).collect();
        self.kernel.detach();
        self.table.counts.store(false, Relaxed);
        let breaches = [&self.table.breaches, &self.effects.breaches];
        if let Some(breach) = breaches.iter().find_map(|breaches| breaches.lock().first().cloned()) {
            return Err(breach);
        }
        // A host that shuts down recovers no parked run.
        let stays = |run: &SimulatedRun| self.table.closing.load(Relaxed) && parked.contains(&run.id);
        let mut runs = self.started.iter().filter(|run| !stays(run));
        runs.try_for_each(|run| self.verify_run(run).map_err(|why| format!("{}: {why}", run.id)))
    }
}

impl Runs {
    /// Counts the parked runs, summed over all observations.
    #[must_use]
    pub fn parked(&self) -> u64 {
        self.parked
    }

    /// Counts crashes, keys of repeated calls, and calls with an unknown outcome.
    #[must_use]
    pub fn faults(&self) -> [u64; 3] {
        [self.crashes.unwrap_or(0), self.effects.repeated(), self.uncertain]
    }

    /// Sums over all runs: steps, messages, calls, retries, drops.
    #[must_use]
    pub fn sums(&self) -> [u64; 5] {
        let mut sums = [0; 5];
        for run in self.started.iter().filter_map(|run| run.handle.as_ref()) {
            let counts = run.counts();
            let all = [counts.steps, counts.messages, counts.calls, counts.retried, counts.dropped];
            sums.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
        }
        sums
    }
}
