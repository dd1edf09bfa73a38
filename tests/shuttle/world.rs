//! The processes that shuttle steps.

use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use wfhost::base::Monotonic;
use wfhost::process::{Allocation, Permit};
use wfhost::scheduler::{Commit, Next, Permitted, Port, Slot, Turn, Wake};

/// A permit that takes one of everything.
pub(crate) const ONE: Permit = Permit { instances: 1, core_instances: 1, memories: 1, tables: 1, bytes: 0 };

/// The same for a process that refuses its eviction, after a long time.
pub(crate) const STAYS: Permit = Permit { bytes: 1, ..ONE };

/// The same for a process whose evictions, admissions and drops take long.
pub(crate) const SLOW: Permit = Permit { bytes: 2, ..ONE };

/// The commit point.
#[derive(Default)]
pub(crate) struct World {
    complaints: Mutex<Vec<String>>,
    results: Mutex<Option<Done>>,
    /// How many have come to the meeting point.
    met: (Mutex<usize>, Condvar),
}

/// Waits for a number of results.
#[derive(Clone)]
pub(crate) struct Done(Arc<(Mutex<Vec<u64>>, Condvar, usize)>);

impl Done {
    /// The results.
    pub(crate) fn wait(&self) -> Vec<u64> {
        let (results, changed, expected) = &*self.0;
        let mut results = results.lock().unwrap();
        while results.len() < *expected {
            results = changed.wait(results).unwrap();
        }
        results.clone()
    }
}

impl World {
    pub(crate) fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self::default())
    }

    pub(crate) fn expect_results(&self, expected: usize) -> Done {
        let done = Done(Arc::new((Mutex::new(Vec::new()), Condvar::new(), expected)));
        *self.results.lock().unwrap() = Some(done.clone());
        done
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap().clone()
    }

    fn result(&self, value: u64) -> Next {
        if let Some(Done(done)) = &*self.results.lock().unwrap() {
            done.0.lock().unwrap().push(value);
            done.1.notify_all();
        }
        Next::Complete
    }
}

/// A process.
pub(crate) struct Process {
    role: Role,
    /// Evictions, admissions and drops of it take long.
    is_slow: bool,
    running: AtomicBool,
    evictions: AtomicU64,
}

enum Role {
    /// Takes so many numbers; those of one sender, the hundreds, must be in order.
    Sink {
        left: usize,
        last: [u64; 3],
    },
    Fib {
        n: u64,
        permit: Permit,
        parent: Option<Slot>,
        need: usize,
        sum: u64,
    },
    Sleeper {
        due: Monotonic,
        set: bool,
    },
    /// Waits to be woken, unless it is already, and then ends its step when so many are in theirs.
    Meets {
        count: usize,
        woken: bool,
    },
    /// Wakes them, and goes on so before it meets them.
    Wakes {
        whom: Vec<Slot>,
        then: Next,
    },
    /// Has so many short steps.
    Ready {
        left: u32,
    },
    /// Starts so many processes, one a step, unless it can start no more or is cancelled.
    Starts {
        left: u32,
    },
    WaitsForCancel,
    Panics,
}

impl Process {
    fn new(role: Role) -> Self {
        Self { role, is_slow: false, running: AtomicBool::new(false), evictions: AtomicU64::new(0) }
    }

    fn stays(&self) -> bool {
        matches!(self.role, Role::Fib { permit: STAYS, .. })
    }

    pub(crate) fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    pub(crate) fn sink(left: usize) -> Self {
        Self::new(Role::Sink { left, last: [0; 3] })
    }

    pub(crate) fn fib(n: u64, permit: Permit) -> Self {
        Self::fib_of(n, permit, None)
    }

    fn fib_of(n: u64, permit: Permit, parent: Option<Slot>) -> Self {
        Self { is_slow: permit == SLOW, ..Self::new(Role::Fib { n, permit, parent, need: 0, sum: 0 }) }
    }

    pub(crate) fn sleeper(due: Monotonic) -> Self {
        Self::new(Role::Sleeper { due, set: false })
    }

    pub(crate) fn meets(count: usize) -> Self {
        Self::new(Role::Meets { count, woken: false })
    }

    pub(crate) fn wakes(whom: Vec<Slot>, then: Next) -> Self {
        Self::new(Role::Wakes { whom, then })
    }

    pub(crate) fn ready(left: u32) -> Self {
        Self::new(Role::Ready { left })
    }

    pub(crate) fn starts(left: u32) -> Self {
        Self::new(Role::Starts { left })
    }

    pub(crate) fn waits_for_cancel() -> Self {
        Self::new(Role::WaitsForCancel)
    }

    pub(crate) fn panics() -> Self {
        Self::new(Role::Panics)
    }
}

impl Commit for World {
    type Event = u64;
    type Process = Process;
    type Timer = Slot;
    const TIMED: bool = false;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, process: &mut Process, events: &mut Vec<u64>) -> Next {
        assert!(!process.running.swap(true, Ordering::SeqCst), "stepped twice at once");
        let next = self.play(port, turn, &mut process.role, events);
        process.running.store(false, Ordering::SeqCst);
        next
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, _: Slot, process: &mut Process, message: &str) {
        if !matches!(process.role, Role::Panics) {
            self.complaints.lock().unwrap().push(message.to_owned());
        }
    }

    fn evict(&self, process: &mut Process) -> bool {
        assert!(!process.running.load(Ordering::SeqCst), "evicted while it runs");
        process.evictions.fetch_add(1, Ordering::SeqCst);
        !process.stays()
    }

    fn evicts_slowly(&self, process: &Process) -> bool {
        process.stays() || process.is_slow
    }

    fn admits_slowly(&self, process: &Process, _: Allocation) -> bool {
        process.is_slow
    }

    fn drops_slowly(&self, process: &Process) -> bool {
        process.is_slow
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Slot>) {
        for slot in timers.drain(..) {
            port.post(slot, 0, Wake::Event);
        }
    }
}

impl World {
    fn meet(&self, count: usize) {
        let mut met = self.met.0.lock().unwrap();
        *met += 1;
        self.met.1.notify_all();
        while *met < count {
            met = self.met.1.wait(met).unwrap();
        }
    }

    fn play<P: Port<Self>>(&self, port: &mut P, turn: Turn, role: &mut Role, events: &mut Vec<u64>) -> Next {
        match role {
            Role::Sink { left, last } => {
                for event in events.drain(..) {
                    let last = &mut last[(event / 100) as usize];
                    assert!(event >= *last, "{event} after {last}");
                    *last = event + 1;
                    *left -= 1;
                }
                if *left == 0 {
                    return self.result(0);
                }
                if turn.interrupted.is_some() { Next::Complete } else { Next::Idle }
            }
            Role::Fib { parent, .. } if turn.permitted == Permitted::Never => match parent {
                None => self.result(0),
                Some(parent) => {
                    assert!(port.post(*parent, 0, Wake::Event));
                    Next::Complete
                }
            },
            Role::Fib { n, permit, parent, need, sum } => {
                if *need == 0 && *n > 1 {
                    *need = 2;
                    for n in [*n - 1, *n - 2] {
                        assert!(port.spawn(Process::fib_of(n, *permit, Some(turn.slot)), *permit).is_ok());
                    }
                    return Next::Blocked;
                }
                assert!(*n < 2 || !events.is_empty(), "stepped for nothing");
                if *n < 2 {
                    *sum = *n;
                }
                *need -= events.len();
                *sum += events.drain(..).sum::<u64>();
                match (*need, parent) {
                    (1.., _) => Next::Blocked,
                    (0, None) => self.result(*sum),
                    (0, Some(parent)) => {
                        assert!(port.post(*parent, *sum, Wake::Event));
                        Next::Complete
                    }
                }
            }
            Role::Sleeper { due, set } => {
                if !std::mem::replace(set, true) {
                    port.timer(*due, turn.slot);
                    return Next::Blocked;
                }
                assert!(port.monotonic() >= *due, "fired early");
                self.result(0)
            }
            _ => self.play_briefly(port, turn, role, events),
        }
    }

    /// The roles that neither count nor wait for a time.
    fn play_briefly<P: Port<Self>>(&self, port: &mut P, turn: Turn, role: &mut Role, events: &[u64]) -> Next {
        match role {
            Role::Meets { woken: false, .. } if events.is_empty() => {
                if turn.interrupted.is_some() {
                    Next::Complete
                } else {
                    Next::Blocked
                }
            }
            Role::Meets { count, .. } => {
                self.meet(*count);
                self.result(0)
            }
            Role::Wakes { whom, then } => {
                let meets = Role::Meets { count: whom.len() + 1, woken: true };
                for slot in whom.drain(..) {
                    assert!(port.post(slot, 0, Wake::Event));
                }
                let then = *then;
                *role = meets;
                then
            }
            Role::Ready { left: 0 } => self.result(0),
            Role::Ready { left } => {
                *left -= 1;
                Next::Ready
            }
            Role::Starts { left } => {
                let started = port.spawn(Process::waits_for_cancel(), Permit::NONE);
                *left -= 1;
                if started.is_err() || turn.interrupted.is_some() || *left == 0 { Next::Complete } else { Next::Ready }
            }
            Role::WaitsForCancel if turn.interrupted.is_some() => Next::Complete,
            Role::WaitsForCancel => Next::Blocked,
            Role::Panics => panic!("on purpose"),
            _ => unreachable!("`play` has the others"),
        }
    }
}
