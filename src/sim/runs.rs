//! Runs of players: the commit point under the real scheduler, with handlers that answer late, twice, or never, operators that
//! cancel, kill, pause and signal, and faults of the host.

use super::player::{Players, Table};
use super::{Dice, World};
use crate::journal::Memory;
use crate::process::{
    Answer, Grants, Limits, Message, Micros, Payload, Permit, Pid, Problem, ProblemClass, Program, Sender, Status, Tag,
};
use crate::run::{
    Bounds, Clock, Dispatched, Effects, Kernel, Outgoing, Programs, Record, Reply, RunHandle, RunSpec, rebuild,
};
use crate::scheduler::{Handle, Stats};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// When the wall clock of the worlds starts.
const EPOCH: Micros = Micros(1_700_000_000_000_000);

/// Runs of players that ask for anything.
pub struct Runs {
    kernel: Kernel,
    table: Arc<Table>,
    effects: Arc<Handlers>,
    root: Arc<dyn Program>,
    programs: Programs,
    started: Vec<RunHandle>,
    started_max: usize,
    instances: u32,
    limits: Limits,
}

/// Calls that wait for an answer of the world.
#[derive(Default)]
struct Handlers(Mutex<Vec<(Outgoing, Arc<dyn Reply>)>>);

impl Effects for Handlers {
    fn dispatch(&self, call: Outgoing, reply: Arc<dyn Reply>) -> Dispatched {
        if &*call.handler == "inline" {
            return Dispatched::Answered(Ok(call.args));
        }
        self.0.lock().push((call, reply));
        Dispatched::Pending
    }

    fn abandon(&self, _: &str, _: Pid, _: Tag) {}

    fn is_repeatable(&self, handler: &str, _: &Payload) -> bool {
        handler != "unsafe"
    }
}

impl Runs {
    /// A world whose sizes follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0xa11);
        let table = Arc::new(Table::default());
        table.faults.store(true, Relaxed);
        table.draws.store(dice.roll(), Relaxed);
        let players = |permit| Arc::new(Players { table: Arc::clone(&table), permit }) as Arc<dyn Program>;
        let guest = Permit { instances: 1, ..Permit::NONE };
        let programs: Programs = [("native".into(), players(Permit::NONE)), ("guest".into(), players(guest))].into();
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
        Self {
            kernel: Kernel::new(Clock::starting_at(EPOCH)),
            root: players(Permit::NONE),
            effects: Arc::default(),
            table,
            programs,
            started: Vec::new(),
            started_max: 1 + dice.below(4) as usize,
            instances: 1 + dice.below(6) as u32,
            limits,
        }
    }

    fn start(&mut self, dice: &mut Dice) {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&dice.roll().to_le_bytes());
        let granted: BTreeMap<_, _> = [("kv".to_owned(), Vec::new())].into_iter().filter(|_| dice.chance(80)).collect();
        let spec = RunSpec {
            id: format!("run-{}", self.started.len()).into(),
            seed,
            root: Arc::clone(&self.root),
            entry: "root".into(),
            input: Payload::NULL,
            limits: self.limits.clone(),
            grants: Grants(Arc::new(granted)),
            bounds: Bounds { bytes: 200 + dice.below(2_000), exposed: dice.below(5), ..Bounds::default() },
            programs: self.programs.clone(),
            log: Box::new(Memory::default()),
            effects: Arc::clone(&self.effects) as _,
            sink: None,
            origin: None,
        };
        // The host may be shutting down.
        if let Ok(run) = self.kernel.start(spec) {
            self.started.push(run);
        }
    }

    fn answer(&self, dice: &mut Dice) {
        let (call, reply) = {
            let mut waiting = self.effects.0.lock();
            if waiting.is_empty() {
                return;
            }
            let at = dice.below(waiting.len() as u64) as usize;
            waiting.swap_remove(at)
        };
        let answer: Answer = if dice.chance(70) {
            Ok(call.args.clone())
        } else {
            Err(Box::new(Problem::new("theirs", "It did not work").with_class(ProblemClass::Retryable)))
        };
        match dice.below(10) {
            // It gives none.
            0 => {}
            1 => {
                reply.answer(answer.clone());
                reply.answer(answer);
            }
            2 => {
                let message =
                    Message { sender: Sender::Call(call.tag), topic: "progress".into(), body: call.args.clone() };
                let _ = reply.message(message);
                self.effects.0.lock().push((call, reply));
            }
            _ => reply.answer(answer),
        }
    }

    fn operate(&self, dice: &mut Dice) {
        let Some(run) = dice.pick(&self.started) else { return };
        // What the run refuses, because it has ended or is full, is no matter here.
        let _ = match dice.below(20) {
            0 => run.cancel("somebody asked", Some(Duration::from_micros(dice.below(5_000)))),
            1 if dice.chance(30) => {
                run.kill("somebody insisted");
                Ok(())
            }
            2..6 => run.pause(),
            6..12 => run.resume(),
            _ => run.signal(&format!("name-{}", dice.below(5)), Payload::json(&dice.roll())),
        };
    }
}

impl World for Runs {
    type Commit = Kernel;

    fn commit(&self) -> (Arc<Kernel>, Permit) {
        (Arc::new(self.kernel.clone()), Permit { instances: self.instances, ..Permit::NONE })
    }

    fn act(&mut self, handle: &mut Handle<Kernel>, dice: &mut Dice) {
        self.kernel.attach(handle.clone());
        match dice.below(10) {
            0..2 if self.started.len() < self.started_max => self.start(dice),
            0..4 => self.operate(dice),
            _ => self.answer(dice),
        }
    }

    fn calm(&mut self, handle: &mut Handle<Kernel>, dice: &mut Dice) {
        self.kernel.attach(handle.clone());
        self.table.faults.store(false, Relaxed);
        if self.started.is_empty() {
            self.start(dice);
        }
        for run in &self.started {
            let _ = run.resume();
        }
    }

    fn settle(&mut self, _: &mut Handle<Kernel>) -> bool {
        let waiting = std::mem::take(&mut *self.effects.0.lock());
        let owes = !waiting.is_empty();
        for (call, reply) in waiting {
            reply.answer(Ok(call.args));
        }
        if owes {
            return true;
        }
        // Players wait for messages that nobody sends.
        let unfinished: Vec<&RunHandle> = self.started.iter().filter(|run| run.outcome().is_none()).collect();
        unfinished.iter().filter(|run| run.cancel("the game is over", None).is_ok()).count() > 0
    }

    fn verify(&self, _: &Stats) -> Result<(), String> {
        self.kernel.detach();
        if let Some(breach) = self.table.breaches.lock().first() {
            return Err(breach.clone());
        }
        self.started.iter().try_for_each(|run| self.verify_run(run).map_err(|why| format!("{}: {why}", run.id())))
    }
}

impl Runs {
    fn verify_run(&self, run: &RunHandle) -> Result<(), String> {
        let records = run.records().ok_or("its log has lost records")?;
        if std::env::var_os("WFHOST_SIM_RECORDS").is_some() {
            records.iter().enumerate().for_each(|(number, record)| eprintln!("{} {} {record:?}", run.id(), number + 1));
        }
        for record in &records {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            if Record::decode(bytes.into()).as_ref() != Ok(record) {
                return Err(format!("it is read otherwise than written: {record:?}"));
            }
        }
        let outcome = run.outcome().ok_or_else(|| format!("it did not end: {:?}", run.processes()))?;
        verify_exits(&records)?;
        let rebuilt = rebuild(&records, &self.root, &self.programs).map_err(|error| format!("{error}: {error:?}"))?;
        if !rebuilt.is_finished() || rebuilt.result() != Some(&outcome.result) {
            return Err(format!("rebuilt, it came to {:?} and not to {:?}", rebuilt.result(), outcome.result));
        }
        if rebuilt.steps != outcome.counts.steps {
            return Err(format!("rebuilt, it took {} steps and not {}", rebuilt.steps, outcome.counts.steps));
        }
        // The players that were rebuilt have watched too.
        self.table.breaches.lock().first().map_or(Ok(()), |breach| Err(breach.clone()))
    }

    /// What happened in all runs: steps, messages, calls, retries, drops.
    #[must_use]
    pub fn sums(&self) -> [u64; 5] {
        let mut sums = [0; 5];
        for run in &self.started {
            let counts = run.counts();
            let all = [counts.steps, counts.messages, counts.calls, counts.retried, counts.dropped];
            sums.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
        }
        sums
    }
}

/// Every process has one end, after which it is not stepped.
fn verify_exits(records: &[Record]) -> Result<(), String> {
    let mut ended = BTreeSet::new();
    let mut seen = BTreeSet::from([Pid::ROOT]);
    for record in records {
        let (pid, ends) = match record {
            Record::Stepped(stepped) => {
                (stepped.pid, matches!(stepped.status, Status::Complete(_) | Status::Failed(_)))
            }
            Record::Died(died) => (died.pid, true),
            _ => continue,
        };
        seen.insert(pid);
        if ended.contains(&pid) {
            return Err(format!("process {pid} goes on after its end"));
        }
        if ends {
            ended.insert(pid);
        }
    }
    match seen.difference(&ended).next() {
        Some(pid) => Err(format!("process {pid} has no end")),
        None => Ok(()),
    }
}
