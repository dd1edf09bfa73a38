//! The oracle: keeps books of what was posted, heard, begun and ended, and notes every breach.

use crate::process::Allocation;
use crate::scheduler::{Next, Permitted, Slot, Turn, Wake};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a process of a [`Scripted`](super::Scripted) world hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The number-th message of a sender.
    Message {
        /// Who sent it; 0 is the outside.
        from: u32,
        /// Counted per sender.
        number: u64,
    },
    /// The answer to a call or timer.
    Answer {
        /// The tag of its command.
        tag: u64,
    },
    /// A child has ended.
    Exit {
        /// Which one.
        child: u32,
    },
}

#[derive(Debug)]
struct Account {
    slot: Slot,
    /// Posted and not heard, in order.
    unheard: VecDeque<(Heard, Wake)>,
    /// How the last step ended; nothing before the first.
    next: Option<Next>,
    is_running: bool,
    ended: bool,
    /// Interrupted since the last fresh step began.
    interrupted: bool,
    paused: bool,
    /// Paused when its last slice ended: it holds.
    held: bool,
    needs_permit: bool,
    /// How many instances it takes.
    size: u32,
    /// Where its next instance is made.
    allocation: Allocation,
    /// Has an instance: stepped, and not evicted since.
    has_instance: bool,
    had_instance: bool,
    /// The turn in which it last became ready.
    ready_since: Option<u64>,
}

/// The books.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<u32, Account>,
    breaches: Vec<String>,
    /// Slices so far: the clock of the starvation check.
    slices: u64,
    /// Instances in the pool and outside it, and how many there may be.
    instances: [u32; 2],
    instances_max: [u32; 2],
    last_message: BTreeMap<(u32, u32), u64>,
    answered: BTreeSet<(u32, u64)>,
    exits: BTreeSet<u32>,
    /// Events that were posted in vain, and those that somebody did not hear before its end.
    pub(crate) dropped: u64,
}

/// A process that is ready runs within this many slices of all workers, for each one that is alive. Generous: what the rules
/// promise is a bound, and the deque order makes it wide.
const STARVED_AFTER: u64 = 400;

impl Ledger {
    pub(crate) fn new(instances_max: [u32; 2]) -> Self {
        Self { instances_max, ..Self::default() }
    }

    pub(crate) fn breach(&mut self, text: String) {
        // The first ones say most; the others follow from them.
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

    /// A process is there that takes so many instances.
    pub(crate) fn born(&mut self, id: u32, slot: Slot, size: u32) {
        let needs_permit = size > 0;
        let account = Account {
            slot,
            unheard: VecDeque::new(),
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

    /// An event was posted, and the scheduler said whether somebody is there to hear it.
    pub(crate) fn posted(&mut self, to: u32, event: Heard, wake: Wake, was_taken: bool) {
        let slices = self.slices;
        let Some(account) = self.accounts.get_mut(&to) else { return };
        if was_taken == account.ended {
            let text = format!("{event:?} to {to}, ended {}, was taken {was_taken}", account.ended);
            return self.breach(text);
        }
        if !was_taken {
            self.dropped += 1;
            return;
        }
        account.unheard.push_back((event, wake));
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

    /// A process that waited for its permit has got it there.
    pub(crate) fn admitted(&mut self, id: u32, allocation: Allocation) {
        if let Some(account) = self.accounts.get_mut(&id) {
            account.allocation = allocation;
            if account.has_instance {
                self.breach(format!("{id} was admitted although it has an instance"));
            }
        }
    }

    /// A slice begins.
    pub(crate) fn begin(&mut self, id: u32, turn: Turn, batch: &[Heard]) {
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
        // Who had a permit once comes back, whatever room there is.
        let is_refused = turn.permitted == Permitted::Never && account.needs_permit && !account.had_instance;
        check(turn.permitted == Permitted::Yes || lacks_permit || is_refused, "stepped without its permit");
        let waited = account.ready_since.map_or(0, |since| slices - since);
        check(waited <= STARVED_AFTER * (living + 4), "starved");
        if turn.resumed {
            check(batch.is_empty(), "events in the middle of a step");
        } else {
            let expected = account.unheard.iter().map(|(event, _)| event);
            check(expected.eq(batch.iter()), "heard something else than what was posted");
            check(account.may_begin(), "stepped for nothing that wakes it");
        }
        account.is_running = true;
        account.ready_since = None;
        if !turn.resumed {
            account.unheard.clear();
            account.interrupted = false;
        }
        if account.needs_permit && !account.has_instance && turn.permitted == Permitted::Yes {
            (account.has_instance, account.had_instance) = (true, true);
            self.instances[account.allocation as usize] += account.size;
        }
        if self.instances.iter().zip(&self.instances_max).any(|(there, max)| there > max) {
            breaches.push(format!("{:?} instances, {:?} permits", self.instances, self.instances_max));
        }
        for event in batch {
            self.hear(id, *event);
        }
        for breach in breaches {
            self.breach(breach);
        }
    }

    fn hear(&mut self, id: u32, event: Heard) {
        let is_new = match event {
            Heard::Message { from, number } => {
                let last = self.last_message.insert((from, id), number);
                last.is_none_or(|last| last < number)
            }
            Heard::Answer { tag } => self.answered.insert((id, tag)),
            Heard::Exit { child } => self.exits.insert(child),
        };
        if !is_new {
            self.breach(format!("{id} heard {event:?} again, or out of order"));
        }
    }

    /// A slice is over.
    pub(crate) fn end(&mut self, id: u32, next: Next) {
        let slices = self.slices;
        let Some(account) = self.accounts.get_mut(&id) else { return };
        account.is_running = false;
        account.next = Some(next);
        account.held = account.paused && next != Next::Complete;
        let goes_on = matches!(next, Next::Ready | Next::Preempted) || account.wakes();
        // Who has no permit waits for it as long as others have it.
        let has_permit = !account.needs_permit || account.has_instance;
        account.ready_since = (goes_on && has_permit && !account.held).then_some(slices);
        if next != Next::Complete {
            return;
        }
        self.dropped += account.unheard.len() as u64;
        account.unheard.clear();
        if std::mem::take(&mut account.has_instance) {
            self.instances[account.allocation as usize] -= account.size;
        }
        if std::mem::replace(&mut account.ended, true) {
            self.breach(format!("{id} ended twice"));
        }
    }

    /// It gave up its instance.
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
    /// Whether what it has not heard ends its waiting.
    fn wakes(&self) -> bool {
        let has_event = self.interrupted || self.unheard.iter().any(|(_, wake)| *wake == Wake::Event);
        let wakes = match self.next {
            Some(Next::Blocked) => has_event,
            Some(Next::Idle) => has_event || !self.unheard.is_empty(),
            _ => false,
        };
        wakes && !self.paused && !self.is_running
    }

    /// Whether a fresh step has a cause. A pause does not hold what was ready before.
    fn may_begin(&self) -> bool {
        match self.next {
            None | Some(Next::Ready) => true,
            Some(Next::Blocked) => self.interrupted || self.unheard.iter().any(|(_, wake)| *wake == Wake::Event),
            Some(Next::Idle) => self.interrupted || !self.unheard.is_empty(),
            Some(Next::Preempted | Next::Complete) => false,
        }
    }
}
