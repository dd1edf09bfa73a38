//! Which worker runs which process when two compute fib(4) by spawning: the rules of fork and join,
//! turn by turn.

use std::sync::{Arc, Mutex};
use wfhost::base::Monotonic;
use wfhost::process::Permit;
use wfhost::scheduler::{Commit, Config, Next, Port, Slot, Turn, TurnOutcome, VirtualScheduler, Wake};

/// Notes what is stepped, and what came of it.
#[derive(Default)]
struct Fib {
    log: Mutex<Vec<String>>,
}

struct Call {
    n: u64,
    parent: Option<Slot>,
    need: usize,
    sum: u64,
}

impl Fib {
    fn note(&self, text: String) {
        self.log.lock().unwrap().push(text);
    }
}

impl Commit for Fib {
    type Event = u64;
    type Process = Call;
    type Timer = ();

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, call: &mut Call, events: &mut Vec<u64>) -> Next {
        let Call { n, parent, need, sum } = call;
        let name = parent.map_or("main".to_owned(), |_| format!("fib({n})"));
        if *need == 0 {
            let forks: Vec<u64> = match (&parent, *n) {
                (None, n) => vec![n],
                (Some(_), 1 | 2) => vec![],
                (Some(_), n) => vec![n - 1, n - 2],
            };
            if !forks.is_empty() {
                *need = forks.len();
                let names: Vec<String> = forks.iter().map(|n| format!("fib({n})")).collect();
                self.note(format!("{name} forks {}", names.join(", ")));
                for n in forks {
                    let child = Call { n, parent: Some(turn.slot), need: 0, sum: 0 };
                    port.spawn(child, Permit::NONE).ok().expect("the scheduler is open");
                }
                return Next::Blocked;
            }
            *sum = 1;
        } else {
            *need -= events.len();
            *sum += events.drain(..).sum::<u64>();
            if *need > 0 {
                self.note(format!("{name} hears one of two"));
                return Next::Blocked;
            }
        }
        self.note(format!("{name} = {sum}"));
        if let Some(parent) = parent {
            port.post(*parent, *sum, Wake::Event);
        }
        Next::Complete
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, _: Slot, _: &mut Call, message: &str) {
        panic!("{message}");
    }

    fn fired<P: Port<Self>>(&self, _: &mut P, _: &mut Vec<()>) {}
}

#[test]
fn fib_of_4_on_two_workers() {
    let commit = Arc::new(Fib::default());
    let config = Config { workers: 2, ..Config::default() };
    let mut scheduler = VirtualScheduler::new(Arc::clone(&commit), &config);
    let main = Call { n: 4, parent: None, need: 0, sum: 0 };
    scheduler.handle().spawn(main, Permit::NONE).ok().expect("the scheduler is open");

    let mut turn = |worker: usize, expected: &str| {
        let steals = scheduler.stats().steals;
        assert_ne!(scheduler.turn(worker - 1), TurnOutcome::Nothing, "worker {worker} has nothing to do: {expected}");
        let stole = if scheduler.stats().steals > steals { " (stolen)" } else { "" };
        let did = commit.log.lock().unwrap().drain(..).collect::<Vec<_>>().join("; ");
        assert_eq!(format!("W{worker}: {did}{stole}"), format!("W{worker}: {expected}"));
    };
    turn(1, "main forks fib(4)");
    turn(1, "fib(4) forks fib(3), fib(2)");
    turn(2, "fib(3) forks fib(2), fib(1) (stolen)");
    turn(1, "fib(2) = 1");
    turn(2, "fib(1) = 1");
    // fib(2) of fib(3) lies at W2's head, behind fib(3) itself, which fib(1) woke and which W2
    // takes first.
    turn(1, "fib(4) hears one of two");
    turn(1, "fib(2) = 1 (stolen)");
    turn(2, "fib(3) = 2");
    turn(2, "fib(4) = 3");
    turn(2, "main = 3");
    assert_eq!((scheduler.turn(0), scheduler.turn(1)), (TurnOutcome::Nothing, TurnOutcome::Nothing));
    assert_eq!(scheduler.next_timer(), None::<Monotonic>);
}
