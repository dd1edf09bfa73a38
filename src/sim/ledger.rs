//! The oracle: records every post, delivery, slice and end, and notes every breach.

use crate::process::Allocation;
use crate::scheduler::{Next, Permitted, Slot, Turn, Wake};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An event of a process in a [`Scripted`](super::Scripted) world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActorEvent {
    /// A message.
    Message {
        /// The id of the sender; 0 is the outside.
        from: u32,
        /// The number of the message among all, rising per sender.
        number: u64,
    },
    /// The answer to a call or timer.
    Answer {
        /// The tag of the command.
        tag: u64,
    },
    /// A child has ended.
    Exit {
        /// The id of the child.
        child: u32,
    },
}

#[derive(Debug)]
struct Account {
    slot: Slot,
    /// Events posted and not yet delivered, in order.
    pending: VecDeque<(ActorEvent, Wake)>,
    /// How the last slice ended; `None` before the first.
    next: Option<Next>,
    is_running: bool,
    ended: bool,
    /// Whether it was interrupted since the last fresh step began.
    interrupted: bool,
    paused: bool,
    /// Whether it was paused when its last slice ended, and so must not be stepped.
    held: bool,
    needs_permit: bool,
    /// Instances that it takes.
    size: u32,
    /// Where its next instance is made.
    allocation: Allocation,
    /// Whether it has an instance: it was stepped, and not evicted since.
    has_instance: bool,
    had_instance: bool,
    /// The slice at which it last became ready.
    ready_since: Option<u64>,
}

/// The books of all processes, and the breaches found.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<u32, Account>,
    breaches: Vec<String>,
    /// Slices so far: the clock of the starvation check.
    slices: u64,
    /// Instances in the pool and outside it, and their upper bounds.
    instances: [u32; 2],
    instances_max: [u32; 2],
    last_message: BTreeMap<(u32, u32), u64>,
    answered: BTreeSet<(u32, u64)>,
    exits: BTreeSet<u32>,
    /// Events that were posted to ended processes, or not delivered before the process ended.
    pub(crate) dropped: u64,
}

/// A ready process runs within this many slices of all workers, for each living process. Generous:
/// the rules promise a bound, and the order of the deques makes it wide.
const STARVED_AFTER: u64 = 400;

impl Ledger {
    pub(crate) fn new(instances_max: [u32; 2]) -> Self {
        Self { instances_max, ..Self::default() }
    }

    pub(crate) fn breach(&mut self, text: String) {
        // The first ones say most; the others are their consequences.
        if self.breaches.len() < 5 {
            self.breaches.push(text);
        }
    }

    pub(crate) fn verify(&self) -> Result<(), String> {
        if !self.breaches.is_empty() {
            return Err(self.breaches.join("; "));
        }
        let alive: Vec<String> = self
            .accounts
            .iter()
            .filter(|(_, account)| !account.ended)
            .map(|(id, account)| format!("{id} {account:?}"))
            .collect();
        if alive.is_empty() { Ok(()) } else { Err(format!("without an exit: {}", alive.join(", "))) }
    }

    /// Notes a new process that takes `size` instances.
    pub(crate) fn born(&mut self, id: u32, slot: Slot, size: u32) {
        let needs_permit = size > 0;
        let account = Account {
            slot,
            pending: VecDeque::new(),
            next: None,
            is_running: false,
            ended: false,
            interrupted: false,
            paused: false,
            held: false,
            needs_permit,
            size,
            allocation: Allocation::Pool,
            has_instance: false,
            had_instance: false,
            ready_since: (!needs_permit).then_some(self.slices),
        };
        if self.accounts.insert(id, account).is_some() {
            self.breach(format!("{id} was born twice"));
        }
    }

    pub(crate) fn living(&self) -> Vec<(u32, Slot)> {
        self.accounts.iter().filter(|(_, account)| !account.ended).map(|(id, account)| (*id, account.slot)).collect()
    }

    pub(crate) fn ended(&self) -> Vec<(u32, Slot)> {
        self.accounts.iter().filter(|(_, account)| account.ended).map(|(id, account)| (*id, account.slot)).collect()
    }

    /// Notes an event that was posted, and whether the scheduler accepted it.
    pub(crate) fn posted(&mut self, to: u32, event: ActorEvent, wake: Wake, was_accepted: bool) {
        let slices = self.slices;
        let Some(account) = self.accounts.get_mut(&to) else { return };
        if was_accepted == account.ended {
            let text = format!("{event:?} to {to}, ended {}, accepted {was_accepted}", account.ended);
            return self.breach(text);
        }
        if !was_accepted {
            self.dropped += 1;
            return;
        }
        account.pending.push_back((event, wake));
        if account.wakes() && !account.needs_permit {
            account.ready_since.get_or_insert(slices);
        }
    }

    pub(crate) fn interrupted(&mut self, id: u32) {
        let slices = self.slices;
        if let Some(account) = self.accounts.get_mut(&id) {
            account.interrupted = true;
            if account.wakes() && !account.needs_permit {
                account.ready_since.get_or_insert(slices);
            }
        }
    }

    pub(crate) fn paused(&mut self, id: u32, paused: bool) {
        let slices = self.slices;
        if let Some(account) = self.accounts.get_mut(&id) {
            account.paused = paused;
            if !paused {
                account.held = false;
                if account.wakes() && !account.needs_permit {
                    account.ready_since.get_or_insert(slices);
                }
            }
        }
    }

    /// Notes that a waiting process was admitted, and where its instance is made.
    pub(crate) fn admitted(&mut self, id: u32, allocation: Allocation) {
        if let Some(account) = self.accounts.get_mut(&id) {
            account.allocation = allocation;
            if account.has_instance {
                self.breach(format!("{id} was admitted although it has an instance"));
            }
        }
    }

    /// Notes that a slice begins, and checks that it may.
    pub(crate) fn begin(&mut self, id: u32, turn: Turn, batch: &[ActorEvent]) {
        self.slices += 1;
        let living = self.accounts.values().filter(|account| !account.ended).count() as u64;
        let slices = self.slices;
        let Some(account) = self.accounts.get_mut(&id) else {
            return self.breach(format!("{id} is stepped before it is born"));
        };
        let mut breaches = Vec::new();
        let mut check = |holds: bool, text: &str| {
            if !holds {
                breaches.push(format!("{id}: {text} ({turn:?}, {batch:?}, {account:?})"));
            }
        };
        check(!account.is_running, "stepped twice at once");
        check(!account.ended, "stepped after its end");
        check(account.slot == turn.slot, "stepped under another slot");
        check(!account.held, "stepped while it is paused");
        check(turn.resumed == (account.next == Some(Next::Preempted)), "resumed and preempted do not fit");
        check(turn.interrupted.is_some() == account.interrupted, "interrupts do not fit");
        let lacks_permit = account.needs_permit && !account.has_instance && account.interrupted;
        // A process that had a permit once may exceed the budget when it returns.
        let is_refused = turn.permitted == Permitted::Never && account.needs_permit && !account.had_instance;
        check(turn.permitted == Permitted::Yes || lacks_permit || is_refused, "stepped without its permit");
        let waited = account.ready_since.map_or(0, |since| slices - since);
        check(waited <= STARVED_AFTER * (living + 4), "starved");
        if turn.resumed {
            check(batch.is_empty(), "events in the middle of a step");
        } else {
            let expected = account.pending.iter().map(|(event, _)| event);
            check(expected.eq(batch.iter()), "received other events than were posted");
            check(account.may_begin(), "stepped without a cause");
        }
        account.is_running = true;
        account.ready_since = None;
        if !turn.resumed {
            account.pending.clear();
            account.interrupted = false;
        }
        if account.needs_permit && !account.has_instance && turn.permitted == Permitted::Yes {
            account.has_instance = true;
            account.had_instance = true;
            self.instances[account.allocation as usize] += account.size;
        }
        if self.instances.iter().zip(&self.instances_max).any(|(there, max)| there > max) {
            breaches.push(format!("{:?} instances, {:?} permits", self.instances, self.instances_max));
        }
        for event in batch {
            self.delivered(id, *event);
        }
        for breach in breaches {
            self.breach(breach);
        }
    }

    fn delivered(&mut self, id: u32, event: ActorEvent) {
        let is_new = match event {
            ActorEvent::Message { from, number } => {
                let last = self.last_message.insert((from, id), number);
                last.is_none_or(|last| last < number)
            }
            ActorEvent::Answer { tag } => self.answered.insert((id, tag)),
            ActorEvent::Exit { child } => self.exits.insert(child),
        };
        if !is_new {
            self.breach(format!("{id} received {event:?} again, or out of order"));
        }
    }

    /// Notes that a slice ended.
    pub(crate) fn end(&mut self, id: u32, next: Next) {
        let slices = self.slices;
        let Some(account) = self.accounts.get_mut(&id) else { return };
        account.is_running = false;
        account.next = Some(next);
        account.held = account.paused && next != Next::Complete;
        let goes_on = matches!(next, Next::Ready | Next::Preempted) || account.wakes();
        // A process without a permit waits as long as others hold it.
        let has_permit = !account.needs_permit || account.has_instance;
        account.ready_since = (goes_on && has_permit && !account.held).then_some(slices);
        if next != Next::Complete {
            return;
        }
        self.dropped += account.pending.len() as u64;
        account.pending.clear();
        if std::mem::take(&mut account.has_instance) {
            self.instances[account.allocation as usize] -= account.size;
        }
        if std::mem::replace(&mut account.ended, true) {
            self.breach(format!("{id} ended twice"));
        }
    }

    /// Notes that a process was evicted, and checks that it could be.
    pub(crate) fn evicted(&mut self, id: u32) {
        let Some(account) = self.accounts.get_mut(&id) else { return };
        let rests = match account.next {
            Some(Next::Blocked | Next::Idle) => !account.wakes(),
            Some(Next::Ready) => account.held,
            Some(Next::Preempted | Next::Complete) | None => false,
        };
        let is_right = account.has_instance && !account.is_running && rests;
        account.has_instance = false;
        let there = &mut self.instances[account.allocation as usize];
        *there = there.saturating_sub(account.size);
        account.allocation = Allocation::Pool;
        if !is_right {
            let text = format!("{id} was evicted while it should not be: {account:?}");
            self.breach(text);
        }
    }
}

impl Account {
    /// Returns whether its pending events end its waiting.
    fn wakes(&self) -> bool {
        let has_event = self.interrupted || self.pending.iter().any(|(_, wake)| *wake == Wake::Event);
        let wakes = match self.next {
            Some(Next::Blocked) => has_event,
            Some(Next::Idle) => has_event || !self.pending.is_empty(),
            _ => false,
        };
        wakes && !self.paused && !self.is_running
    }

    /// Returns whether a fresh step has a cause. A pause does not hold a process that was ready
    /// before.
    fn may_begin(&self) -> bool {
        match self.next {
            None | Some(Next::Ready) => true,
            Some(Next::Blocked) => self.interrupted || self.pending.iter().any(|(_, wake)| *wake == Wake::Event),
            Some(Next::Idle) => self.interrupted || !self.pending.is_empty(),
            Some(Next::Preempted | Next::Complete) => false,
        }
    }
}
