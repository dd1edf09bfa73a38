//! The processes of the workloads. A message is one `u64`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};
use wfhost::base::Monotonic;
use wfhost::process::Permit;
use wfhost::scheduler::{Commit, Next, Port, Slot, Turn, Wake};

/// Signals that a workload has ended, with its result.
#[derive(Clone)]
pub(crate) struct Done(Arc<DoneInner>);

struct DoneInner {
    left: AtomicU64,
    is_over: Mutex<bool>,
    changed: Condvar,
    found: Mutex<Found>,
}

#[derive(Default)]
pub(crate) struct Found {
    pub(crate) pongs_ns: Vec<u64>,
    pub(crate) wakes_ns: Vec<u64>,
}

impl Done {
    pub(crate) fn new(left: u64) -> Self {
        Self(Arc::new(DoneInner {
            left: left.into(),
            is_over: Mutex::new(false),
            changed: Condvar::new(),
            found: Mutex::default(),
        }))
    }

    pub(crate) fn one(&self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.0.is_over.lock().unwrap() = true;
            self.0.changed.notify_all();
        }
    }

    pub(crate) fn expect(&self, more: u64) {
        self.0.left.fetch_add(more, Ordering::AcqRel);
    }

    pub(crate) fn wait(&self) {
        let over = self.0.changed.wait_while(self.0.is_over.lock().unwrap(), |over| !*over);
        drop(over.unwrap());
    }

    pub(crate) fn found(&self) -> Found {
        std::mem::take(&mut self.0.found.lock().unwrap())
    }
}

#[derive(Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn pack(slot: Slot) -> u64 {
    u64::from(slot.index) << 32 | u64::from(slot.generation)
}

fn unpack(packed: u64) -> Slot {
    Slot { index: (packed >> 32) as u32, generation: packed as u32 }
}

/// About 10 us of arithmetic.
fn spin() {
    let mut x = 10_000u64;
    for _ in 0..10_000 {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

const GO: u64 = 1 << 63;

/// A process.
pub(crate) enum Machine {
    /// Spawns the pairs, then ends.
    Pairs {
        pairs: u64,
        n: u64,
        done: Done,
    },
    Ping {
        pong: Slot,
        left: u64,
        done: Done,
    },
    Pong {
        ping: Option<Slot>,
    },
    Ring {
        n: u64,
        done: Done,
    },
    Hop {
        next: Option<Slot>,
        done: Done,
    },
    Count {
        n: u64,
        done: Done,
    },
    Producer {
        consumer: Slot,
        next: u64,
        n: u64,
    },
    Consumer {
        sum: u64,
        got: u64,
        n: u64,
        done: Done,
    },
    Fib {
        n: u64,
        parent: Result<Slot, Done>,
        sum: u64,
        need: u64,
    },
    Skynet {
        number: u64,
        size: u64,
        parent: Result<Slot, Done>,
        sum: u64,
        need: u64,
    },
    Yields {
        processes: u64,
        n: u64,
        done: Done,
    },
    Yield {
        left: u64,
        done: Done,
    },
    Big {
        actors: u64,
        n: u64,
        done: Done,
    },
    Actor {
        me: u64,
        all: Arc<OnceLock<Vec<Slot>>>,
        rng: Rng,
        left: u64,
        done: Done,
    },
    Park {
        n: u64,
        done: Done,
    },
    Parked,
    Hog {
        cooperative: bool,
    },
    Latency(Box<Latency>),
    Sleeper {
        due_us: u64,
        done: Done,
    },
}

pub(crate) struct Latency {
    pong: Option<Slot>,
    until: Duration,
    paced: bool,
    start: Instant,
    due: Monotonic,
    sent: Instant,
    found: Found,
    done: Done,
}

impl Machine {
    pub(crate) fn pairs(pairs: u64, n: u64, done: Done) -> Self {
        Self::Pairs { pairs, n, done }
    }

    pub(crate) fn ring(n: u64, done: Done) -> Self {
        Self::Ring { n, done }
    }

    pub(crate) fn count(n: u64, done: Done) -> Self {
        Self::Count { n, done }
    }

    pub(crate) fn fib(n: u64, done: Done) -> Self {
        Self::Fib { n, parent: Err(done), sum: 0, need: 0 }
    }

    pub(crate) fn skynet(size: u64, done: Done) -> Self {
        Self::Skynet { number: 0, size, parent: Err(done), sum: 0, need: 0 }
    }

    pub(crate) fn yields(processes: u64, n: u64, done: Done) -> Self {
        Self::Yields { processes, n, done }
    }

    pub(crate) fn big(actors: u64, n: u64, done: Done) -> Self {
        Self::Big { actors, n, done }
    }

    pub(crate) fn parked(n: u64, done: Done) -> Self {
        Self::Park { n, done }
    }

    pub(crate) fn hog(cooperative: bool) -> Self {
        Self::Hog { cooperative }
    }

    pub(crate) fn latency(until: Duration, paced: bool, done: Done) -> Self {
        let now = Instant::now();
        let found = Found::default();
        let latency = Latency { pong: None, until, paced, start: now, due: Monotonic(0), sent: now, found, done };
        Self::Latency(Box::new(latency))
    }

    pub(crate) fn sleeper(due_us: u64, done: Done) -> Self {
        Self::Sleeper { due_us, done }
    }
}

/// A commit point that only steps.
pub(crate) struct Bench;

fn spawn<P: Port<Bench>>(port: &mut P, machine: Machine) -> Slot {
    port.spawn(machine, Permit::NONE).ok().expect("the scheduler is open")
}

fn send<P: Port<Bench>>(port: &mut P, to: Slot, message: u64) {
    port.post(to, message, Wake::Message);
}

/// The end of a branch of a tree: the sum goes to the parent, or is the result.
fn join<P: Port<Bench>>(port: &mut P, parent: &Result<Slot, Done>, sum: u64) -> Next {
    match parent {
        Ok(parent) => {
            port.post(*parent, sum, Wake::Event);
        }
        Err(done) => done.one(),
    }
    Next::Complete
}

impl Commit for Bench {
    type Event = u64;
    type Process = Machine;
    type Timer = Slot;

    // No peer reads the clock at each step either.
    const TIMED: bool = false;

    #[inline]
    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, machine: &mut Machine, events: &mut Vec<u64>) -> Next {
        match machine {
            Machine::Ping { pong, left, done } => {
                let Some(v) = events.first() else { return Next::Idle };
                if *left == 0 {
                    done.one();
                    return Next::Complete;
                }
                *left -= 1;
                send(port, *pong, *v);
                Next::Idle
            }
            Machine::Pong { ping } => {
                for v in events.drain(..) {
                    match ping {
                        // The first message names the partner.
                        None => *ping = Some(unpack(v)),
                        Some(ping) => send(port, *ping, v + 1),
                    }
                }
                Next::Idle
            }
            Machine::Hop { next, done } => {
                for v in events.drain(..) {
                    match next {
                        None => *next = Some(unpack(v)),
                        Some(_) if v == 0 => done.one(),
                        Some(next) => send(port, *next, v - 1),
                    }
                }
                Next::Idle
            }
            Machine::Producer { consumer, next, n } => {
                for _ in 0..32 {
                    if next == n {
                        return Next::Complete;
                    }
                    send(port, *consumer, *next);
                    *next += 1;
                }
                Next::Ready
            }
            Machine::Consumer { sum, got, n, done } => {
                for v in events.drain(..) {
                    *sum += v;
                    *got += 1;
                }
                if got == n {
                    assert_eq!(*sum, *n * (*n - 1) / 2);
                    done.one();
                    return Next::Complete;
                }
                Next::Idle
            }
            Machine::Fib { n, parent, sum, need } => {
                if *need == 0 {
                    if *n < 2 {
                        return join(port, parent, *n);
                    }
                    for n in [*n - 1, *n - 2] {
                        spawn(port, Machine::Fib { n, parent: Ok(turn.slot), sum: 0, need: 0 });
                    }
                    *need = 2;
                    return Next::Blocked;
                }
                *need -= events.len() as u64;
                *sum += events.drain(..).sum::<u64>();
                if *need == 0 { join(port, parent, *sum) } else { Next::Blocked }
            }
            Machine::Skynet { number, size, parent, sum, need } => {
                if *need == 0 {
                    if *size == 1 {
                        return join(port, parent, *number);
                    }
                    let size = *size / 10;
                    for i in 0..10 {
                        let number = *number + i * size;
                        spawn(port, Machine::Skynet { number, size, parent: Ok(turn.slot), sum: 0, need: 0 });
                    }
                    *need = 10;
                    return Next::Blocked;
                }
                *need -= events.len() as u64;
                *sum += events.drain(..).sum::<u64>();
                if *need > 0 {
                    return Next::Blocked;
                }
                if parent.is_err() {
                    assert_eq!(*sum, *size * (*size - 1) / 2);
                }
                join(port, parent, *sum)
            }
            Machine::Yield { left, done } => {
                if *left == 0 {
                    done.one();
                    return Next::Complete;
                }
                *left -= 1;
                Next::Ready
            }
            Machine::Actor { me, all, rng, left, done } => {
                // The first step may come before the list is complete; the first message does not.
                let Some(all) = all.get() else { return Next::Idle };
                let my = *me << 1;
                for v in events.drain(..) {
                    if v == GO {
                        send(port, all[rng.next() as usize % all.len()], my);
                    } else if v & 1 == 0 {
                        send(port, all[(v >> 1) as usize], my | 1);
                    } else {
                        *left -= 1;
                        if *left > 0 {
                            send(port, all[rng.next() as usize % all.len()], my);
                        } else {
                            done.one();
                        }
                    }
                }
                Next::Idle
            }
            Machine::Parked => Next::Idle,
            Machine::Hog { cooperative } => {
                spin();
                if *cooperative { Next::Ready } else { Next::Preempted }
            }
            Machine::Latency(latency) => latency.step(port, turn.slot, events),
            Machine::Sleeper { due_us, done } => {
                if events.is_empty() {
                    port.timer(Monotonic(*due_us), turn.slot);
                    return Next::Blocked;
                }
                let late = port.monotonic().0.saturating_sub(*due_us);
                done.0.found.lock().unwrap().wakes_ns.push(late * 1000);
                done.one();
                Next::Complete
            }
            _ => begin(port, machine),
        }
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, _: Slot, _: &mut Machine, message: &str) {
        eprintln!("error: {message}");
        std::process::exit(1);
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Slot>) {
        for slot in timers.drain(..) {
            port.post(slot, 0, Wake::Event);
        }
    }
}

/// The processes that only start others.
fn begin<P: Port<Bench>>(port: &mut P, machine: &mut Machine) -> Next {
    match machine {
        Machine::Pairs { pairs, n, done } => {
            done.expect(*pairs - 1);
            for _ in 0..*pairs {
                let pong = spawn(port, Machine::Pong { ping: None });
                let ping = spawn(port, Machine::Ping { pong, left: *n, done: done.clone() });
                send(port, pong, pack(ping));
                send(port, ping, 0);
            }
        }
        Machine::Ring { n, done } => {
            let hops: Vec<Slot> =
                (0..503).map(|_| spawn(port, Machine::Hop { next: None, done: done.clone() })).collect();
            for (place, hop) in hops.iter().enumerate() {
                send(port, *hop, pack(hops[(place + 1) % hops.len()]));
            }
            send(port, hops[0], *n);
        }
        Machine::Count { n, done } => {
            let consumer = spawn(port, Machine::Consumer { sum: 0, got: 0, n: *n, done: done.clone() });
            spawn(port, Machine::Producer { consumer, next: 0, n: *n });
        }
        Machine::Yields { processes, n, done } => {
            done.expect(*processes - 1);
            for _ in 0..*processes {
                spawn(port, Machine::Yield { left: *n, done: done.clone() });
            }
        }
        Machine::Big { actors, n, done } => {
            done.expect(*actors - 1);
            let all = Arc::new(OnceLock::new());
            let slots: Vec<Slot> = (0..*actors)
                .map(|me| {
                    let rng = Rng(me * 7919 + 1);
                    spawn(port, Machine::Actor { me, all: Arc::clone(&all), rng, left: *n, done: done.clone() })
                })
                .collect();
            for slot in all.get_or_init(|| slots) {
                send(port, *slot, GO);
            }
        }
        Machine::Park { n, done } => {
            for _ in 0..*n {
                spawn(port, Machine::Parked);
            }
            done.one();
        }
        _ => unreachable!("the others have a step of their own"),
    }
    Next::Complete
}

impl Latency {
    /// One event is the timer, or the pong: it is known which one it waits for.
    fn step<P: Port<Bench>>(&mut self, port: &mut P, me: Slot, events: &mut Vec<u64>) -> Next {
        let Some(pong) = self.pong else {
            let pong = spawn(port, Machine::Pong { ping: None });
            send(port, pong, pack(me));
            self.pong = Some(pong);
            self.start = Instant::now();
            return self.pause(port, me, pong);
        };
        match events.pop() {
            None => Next::Idle,
            Some(0) => {
                let late = port.monotonic().0.saturating_sub(self.due.0);
                self.found.wakes_ns.push(late * 1000);
                self.ping(port, pong)
            }
            Some(_) => {
                self.found.pongs_ns.push(self.sent.elapsed().as_nanos() as u64);
                if self.start.elapsed() < self.until {
                    return self.pause(port, me, pong);
                }
                *self.done.0.found.lock().unwrap() = std::mem::take(&mut self.found);
                self.done.one();
                Next::Complete
            }
        }
    }

    fn pause<P: Port<Bench>>(&mut self, port: &mut P, me: Slot, pong: Slot) -> Next {
        if !self.paced {
            return self.ping(port, pong);
        }
        self.due = Monotonic(port.monotonic().0 + 1000);
        port.timer(self.due, me);
        Next::Idle
    }

    fn ping<P: Port<Bench>>(&mut self, port: &mut P, pong: Slot) -> Next {
        self.sent = Instant::now();
        send(port, pong, 1);
        Next::Idle
    }
}
