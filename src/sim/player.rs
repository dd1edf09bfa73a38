//! A process that asks for anything at random, and checks the events that it receives.
//!
//! Its commands are a function of its init and its events, so that it can be rebuilt; only faults
//! of the host come from outside.

use crate::process::{
    Action, Allocation, Body, Call, Command, Death, Ending, Event, Eviction, Json, Micros, Output, Payload, Permit,
    Pid, Problem, ProcessInit, Program, Progress, Random, Send, Sender, Spawn, Status, Tag, Target, Timestamp,
    problem::kind,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The state that all players of a world share.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Events that players should not have received.
    pub(super) breaches: Mutex<Vec<String>>,
    /// Whether the host fails and natives panic now and then.
    pub(super) faults: AtomicBool,
    /// The state from which faults of the host are drawn.
    pub(super) draws: AtomicU64,
    /// Faults of the host that happened.
    pub(super) faulted: AtomicU64,
    /// The capacity for instances in the pool and outside it.
    pub(super) pool: Capacity,
    pub(super) outside: Capacity,
    /// Whether capacity is checked: the instances of a rebuilt run do not count.
    pub(super) counts: AtomicBool,
    /// Whether the host shuts down: parked runs stay parked.
    pub(super) closing: AtomicBool,
}

/// The capacity for instances of one allocation, and how much of it is in use.
#[derive(Debug, Default)]
pub(super) struct Capacity {
    max: u64,
    taken: AtomicU64,
}

impl Capacity {
    pub(super) fn new(max: u64) -> Self {
        Self { max, taken: AtomicU64::new(0) }
    }
}

impl Table {
    /// Notes a new instance.
    fn enter(&self, allocation: Allocation, permit: Permit) {
        let (capacity, size) = self.capacity(allocation, permit);
        let taken = capacity.taken.fetch_add(size, Relaxed) + size;
        if self.counts.load(Relaxed) && taken > capacity.max {
            self.breaches.lock().push(format!("instances take {taken} of {} ({allocation:?})", capacity.max));
        }
    }

    /// Notes that an instance was dropped.
    fn leave(&self, allocation: Allocation, permit: Permit) {
        let (capacity, size) = self.capacity(allocation, permit);
        capacity.taken.fetch_sub(size, Relaxed);
    }

    fn capacity(&self, allocation: Allocation, permit: Permit) -> (&Capacity, u64) {
        match allocation {
            Allocation::Pool => (&self.pool, permit.instances.into()),
            Allocation::OnDemand => (&self.outside, 1),
        }
    }
}

/// A program of players: guests take a permit, natives none.
pub(super) struct Players {
    pub(super) table: Arc<Table>,
    pub(super) permit: Permit,
    /// Whether some sleeps take seconds: their timers are armed early.
    pub(super) far: bool,
}

impl Program for Players {
    fn permit(&self) -> Permit {
        self.permit
    }

    fn digest(&self) -> Arc<str> {
        match self.permit.instances {
            0 => "sim:native".into(),
            1 => "sim:guest".into(),
            _ => "sim:large".into(),
        }
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        if &*init.entry == "nowhere" {
            return Err(Problem::new(kind::UNKNOWN_ENTRY, "There is no such entry point"));
        }
        Ok(Box::new(Player::new(init, Arc::clone(&self.table), self.permit, self.far)))
    }
}

struct Player {
    table: Arc<Table>,
    permit: Permit,
    /// Where its next instance is made.
    allocation: Allocation,
    /// Where its instance is; `None` while it has none.
    instance_in: Option<Allocation>,
    far: bool,
    init: ProcessInit,
    random: Random,
    next_tag: Tag,
    /// Steps until it ends by itself.
    left: u64,
    /// Slices left of the step in progress.
    slices: u64,
    /// Tags that may still be answered, and whether each must be.
    open: BTreeMap<Tag, bool>,
    answered: BTreeSet<Tag>,
    children: Vec<Tag>,
    known: Vec<Pid>,
    /// The number of the last message from each sender.
    last_from: BTreeMap<Pid, u64>,
    sent: u64,
    exits: BTreeSet<(Pid, Tag)>,
    now: Timestamp,
    cancelled: bool,
    stubborn: bool,
}

impl Player {
    fn new(init: ProcessInit, table: Arc<Table>, permit: Permit, far: bool) -> Self {
        let mut random = Random::new(&init.seed, init.pid);
        // A renewed player continues elsewhere in its stream.
        random.resume(u128::from(init.next_tag.0) * 1_000);
        let mut player = Self {
            table,
            permit,
            allocation: Allocation::Pool,
            instance_in: None,
            far,
            next_tag: init.next_tag,
            left: 0,
            slices: 0,
            open: BTreeMap::new(),
            answered: BTreeSet::new(),
            children: Vec::new(),
            known: vec![Pid::ROOT, init.pid],
            last_from: BTreeMap::new(),
            sent: init.next_tag.0 * 1_000,
            exits: BTreeSet::new(),
            now: Timestamp(0),
            cancelled: false,
            stubborn: false,
            init,
            random,
        };
        player.left = player.below(12);
        player.stubborn = player.below(100) < 15;
        player
    }

    fn below(&mut self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound.max(1)
    }

    fn breach(&self, what: String) {
        self.table.breaches.lock().push(format!("run {} process {}: {what}", self.init.run, self.init.pid));
    }

    fn receive(&mut self, event: Event) {
        match event {
            Event::Completed { tag, .. } => {
                // After a renewal, answers come to tags of the previous instance.
                let mine = tag >= self.init.next_tag;
                if mine && self.open.remove(&tag).is_none() || !self.answered.insert(tag) {
                    self.breach(format!("tag {tag} was answered twice, or never asked"));
                }
            }
            Event::Message(message) => self.receive_message(&message.sender, &message.body),
            Event::Exited(exit) => {
                if exit.pid.0 > 0 && !self.exits.insert((exit.pid, exit.by)) {
                    self.breach(format!("the end of {} was reported twice by {}", exit.pid, exit.by));
                }
                if exit.by >= self.next_tag {
                    self.breach(format!("an exit names the tag {}, which was never used", exit.by));
                }
                if let Ending::Failed(problem) = exit.ending {
                    drop(problem);
                }
            }
            Event::Cancel { .. } => {
                // The root gets it again if its grace was over before a host was back.
                if self.cancelled && self.init.pid != Pid::ROOT {
                    self.breach("it received cancel twice".to_owned());
                }
                self.cancelled = true;
            }
        }
    }

    /// Messages of players are `[pid of the sender, its number]`.
    fn receive_message(&mut self, sender: &Sender, body: &Payload) {
        let (Sender::Process(_) | Sender::Child(_)) = sender else { return };
        let Payload::Json(json) = body else { return };
        let Ok((from, number)) = serde_json::from_str::<(u64, u64)>(json.as_str()) else { return };
        let from = Pid(from);
        if matches!(sender, Sender::Process(pid) if *pid != from) {
            self.breach(format!("a message of {from} says that it is from {sender:?}"));
        }
        let last = self.last_from.insert(from, number);
        if last.is_some_and(|last| last >= number) {
            self.breach(format!("messages of {from} came out of order: {number} after {last:?}"));
        }
        if self.known.len() < 20 && !self.known.contains(&from) {
            self.known.push(from);
        }
    }

    fn target(&mut self) -> Target {
        let pick = self.below(10);
        match pick {
            0..4 => {
                let at = self.below(self.known.len() as u64) as usize;
                Target::Process(self.known[at])
            }
            4..7 if !self.children.is_empty() => {
                let at = self.below(self.children.len() as u64) as usize;
                Target::Child(self.children[at])
            }
            7 => Target::Process(Pid(self.below(40))),
            8 => Target::Run { run: "elsewhere".into(), name: "x".into() },
            _ => Target::Name(self.name()),
        }
    }

    fn name(&mut self) -> Arc<str> {
        format!("name-{}", self.below(5)).into()
    }

    fn spawn(&mut self) -> Spawn {
        let component = ["native", "native", "guest", "guest", "large"][self.below(5) as usize];
        Spawn {
            component: Some(component.into()),
            entry: if self.below(30) == 0 { "nowhere".into() } else { "somewhere".into() },
            input: Payload::json(&self.below(1_000)),
            name: (self.below(8) == 0).then(|| self.name()),
            link: self.below(5) == 0,
            detached: self.below(6) == 0,
            narrow: (self.below(6) == 0).then(|| {
                let mailbox = self.below(30);
                Json::from_value(&serde_json::json!({ "limits": { "mailbox": mailbox } }))
            }),
            placement: None,
        }
    }

    fn call(&mut self) -> Call {
        let handlers = ["safe", "unsafe", "inline", "kv"];
        let handler = handlers[self.below(4) as usize];
        let args = match handler {
            "kv" => {
                let (op, key, value) = (self.below(4), self.below(4), self.below(9));
                let key = format!("key-{key}");
                Payload::json(&match op {
                    0 => serde_json::json!({ "op": "get", "key": key }),
                    1 => serde_json::json!({ "op": "set", "key": key, "value": value }),
                    2 => serde_json::json!({ "op": "compare-and-set", "key": key, "expected": value, "value": 1 }),
                    _ => serde_json::json!({ "op": "list" }),
                })
            }
            _ => Payload::json(&self.below(100)),
        };
        Call {
            handler: handler.into(),
            args,
            timeout: (self.below(3) == 0).then(|| Micros(self.below(3_000))),
            idempotency_key: (self.below(9) == 0).then(|| "mine".into()),
            placement: None,
        }
    }

    /// Draws an action, and whether its tag is certain to be answered; `None` if it has no answer.
    fn action(&mut self) -> (Action, Option<bool>) {
        match self.below(14) {
            0 if self.far => (Action::Sleep(Micros(1_000_000 + self.below(3_000_000))), Some(true)),
            0 | 1 => (Action::Sleep(Micros(self.below(2_000))), Some(true)),
            2..5 => {
                self.children.push(self.next_tag);
                (Action::Spawn(Box::new(self.spawn())), Some(true))
            }
            5 | 6 => (Action::Call(Box::new(self.call())), Some(true)),
            7 | 8 => {
                self.sent += 1;
                let body = Payload::json(&(self.init.pid.0, self.sent));
                let to = self.target();
                (Action::Send(Send::new(to, "play".into(), body)), Some(false))
            }
            9 => (Action::Cancel(Tag(1 + self.below(self.next_tag.0 + 2))), None),
            10 => {
                let target = self.target();
                let ties = [Action::Monitor, Action::Link, Action::Unlink];
                (ties[self.below(3) as usize](target), None)
            }
            11 if self.below(4) == 0 => (Action::Stop(self.target()), Some(false)),
            11 | 12 => (Action::Register(self.name()), Some(true)),
            _ => (Action::Expose { query: self.name(), value: Payload::json(&self.now) }, None),
        }
    }

    fn act(&mut self, output: &mut Output) {
        for _ in 0..self.below(5) {
            let tag = self.next_tag;
            let (action, answered) = self.action();
            if let Some(certain) = answered {
                self.open.insert(tag, certain);
            }
            output.commands.push(Command { tag, action });
            self.next_tag.0 += 1 + self.below(2);
        }
        if self.below(200) == 0 {
            // A tag out of order.
            output.commands.push(Command { tag: Tag(0), action: Action::Sleep(Micros(1)) });
        }
    }

    fn status(&mut self) -> Status {
        if self.cancelled && !self.stubborn || self.left == 0 {
            return match self.below(4) {
                0 => Status::Failed(Arc::new(Problem::new("mine", "It failed"))),
                _ => Status::Complete(Payload::json(&self.below(1_000))),
            };
        }
        self.left -= 1;
        match self.below(12) {
            0..3 => Status::Ready,
            3 if self.below(4) == 0 => Status::Renew { entry: "again".into(), input: Payload::json(&self.below(9)) },
            4..8 if self.open.values().any(|certain| *certain) => Status::Blocked,
            8 if self.below(10) == 0 => Status::Blocked,
            _ => Status::Idle,
        }
    }
}

impl Body for Player {
    fn begin(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        if now < self.now {
            self.breach(format!("time went back from {:?} to {now:?}", self.now));
        }
        self.now = now;
        for event in events.drain(..) {
            self.receive(event);
        }
        self.slices = self.below(3);
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        output.fuel += 10;
        if self.instance_in.is_none() && !self.permit.is_none() {
            self.instance_in = Some(self.allocation);
            self.table.enter(self.allocation, self.permit);
        }
        if self.table.faults.load(Relaxed) {
            let draw = self.table.draws.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
            match (draw ^ draw >> 29) % 150 {
                0 => {
                    self.table.faulted.fetch_add(1, Relaxed);
                    self.drop_instance();
                    return Progress::Died(Death::Host(Problem::new(kind::HOST_FAULT, "No memory")));
                }
                1 if self.permit.is_none() => std::panic::panic_any(super::INJECTED),
                _ => {}
            }
        }
        if self.slices > 0 {
            self.slices -= 1;
            return Progress::Preempted;
        }
        match self.below(100) {
            0 => return Progress::Died(Death::Guest(Problem::new(kind::TRAP, "It trapped"))),
            1 => return Progress::Died(Death::Guest(Problem::new(kind::FUEL_EXHAUSTED, "It used too much fuel"))),
            _ => {}
        }
        self.act(output);
        Progress::Stepped(self.status())
    }

    fn evict(&mut self) -> Eviction {
        // Not drawn from its stream: an eviction must not change its later draws.
        if self.init.pid.0.is_multiple_of(7) {
            return Eviction::Stays;
        }
        self.drop_instance();
        Eviction::Done
    }

    fn allocate(&mut self, allocation: Allocation) {
        self.allocation = allocation;
    }
}

impl Player {
    /// Drops its instance, if it has one.
    fn drop_instance(&mut self) {
        if let Some(allocation) = self.instance_in.take() {
            self.table.leave(allocation, self.permit);
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.drop_instance();
    }
}
