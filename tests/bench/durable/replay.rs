//! How many steps a second are replayed from a run's records, against executing them live without
//! records; and what it takes to recover a run of many steps, from a snapshot and from its records
//! alone.

use crate::rig;
use crate::wat_guest;
use std::path::Path;
use std::time::{Duration, Instant};
use wfhost::host::{Host, ReplayOptions, RunHandle, RunOptions, Workflow};
use wfhost::run::{Record, Replay, SnapshotPolicy};

const ROUNDS: usize = 21;
const SIGNAL: &str = "go";

/// One guest that makes this many calls, one after the other.
const CALLS: &str = "
name: calls
components: { caller: ./caller.wasm }
steps:
  - { id: a, uses: caller }
";

/// Two guests that send a ball to and fro: two steps for each ball.
const MESSAGES: &str = "
name: messages
components: { pingpong: ./pingpong.wasm }
steps:
  - { id: a, uses: pingpong, with: { rounds: ROUNDS } }
";

/// Calls `echo` this often, then waits for a signal and completes.
fn caller(calls: u32) -> Vec<u8> {
    let core = format!(
        r#"
        (data (i32.const 128) "echo")
        (data (i32.const 136) "\"hello, it is me\"")
        (data (i32.const 160) "signal")
        (data (i32.const 168) "{{\"name\":\"{SIGNAL}\"}}")
        (data (i32.const 192) "null")
        (func $step (param i32 i32) (result i32)
            (local $tag i64)
            (local.set $tag (i64.add (i64.load (i32.const 2048)) (i64.const 1)))
            (i64.store (i32.const 2048) (local.get $tag))
            (i32.store8 (i32.const 1024) (i32.const 1)) ;; blocked
            (i32.store (i32.const 1104) (i32.const 2048))
            (i32.store (i32.const 1108) (i32.const 1))
            (i32.store8 (i32.const 2056) (i32.const 2)) ;; call
            (i32.store (i32.const 2064) (i32.const 128))
            (i32.store (i32.const 2068) (i32.const 4))
            (i32.store (i32.const 2080) (i32.const 136))
            (i32.store (i32.const 2084) (i32.const 17))
            (if (i64.gt_u (local.get $tag) (i64.const {calls}))
                (then
                    (i32.store (i32.const 2064) (i32.const 160))
                    (i32.store (i32.const 2068) (i32.const 6))
                    (i32.store (i32.const 2080) (i32.const 168))
                    (i32.store (i32.const 2084) (i32.const {}))))
            (if (i64.gt_u (local.get $tag) (i64.const {}))
                (then
                    (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
                    (i32.store (i32.const 1040) (i32.const 192))
                    (i32.store (i32.const 1044) (i32.const 4))
                    (i32.store (i32.const 1108) (i32.const 0))))
            (i32.const 1024))
        "#,
        format!("{{\"name\":\"{SIGNAL}\"}}").len(),
        calls + 1,
    );
    wat_guest::component("process", &wat_guest::module(&core))
}

pub(crate) fn figures(data: &Path, steps: u32) {
    let folder = rig::folder(data);
    let guests = folder.path();
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/built");
    std::fs::copy(built.join("pingpong.wasm"), guests.join("pingpong.wasm")).expect("it is built");
    std::fs::write(guests.join("caller.wasm"), caller(steps)).expect("a file");
    let messages = MESSAGES.replace("ROUNDS", &(steps / 2).to_string());

    let never =
        SnapshotPolicy { tail: Duration::MAX, steps_max: u64::MAX, parked_tail: Duration::MAX, ..Default::default() };
    let hosts = [("saved", SnapshotPolicy::default()), ("unsaved", never)].map(|(name, policy)| {
        let host = rig::builder().data(guests.join(name)).snapshots(policy).build().expect("a host");
        let workflow = rig::load_from(&host, CALLS, guests);
        (host, workflow)
    });
    let begun = Instant::now();
    let waiting = hosts.each_ref().map(|(host, workflow)| rig::start(host, workflow, true));
    for run in &waiting {
        wait_for_step(run, u64::from(steps) + 2);
    }
    println!("replay: {steps} calls in a row, written in {:.1?}", begun.elapsed());
    let (host, _) = &hosts[1];
    let workflow = rig::load_from(host, &messages, guests);
    let sent = rig::start(host, &workflow, true);
    assert!(sent.wait().result.is_ok());
    let [calls, sent] = [waiting[1].id(), sent.id()].map(|id| {
        let journal = host.journal().expect("the journal opens").expect("it has a folder");
        let begun = Instant::now();
        let records = journal.records(id).expect("they are whole");
        (records, begun.elapsed())
    });
    // The steps after the last snapshot do not justify another one.
    let kept = hosts[0].0.snapshot_counts().kept;
    waiting[0].inner().snapshot();
    while hosts[0].0.snapshot_counts().kept == kept {
        std::thread::sleep(Duration::from_millis(1));
    }
    for (host, _) in &hosts {
        host.suspend(Duration::ZERO).expect("the journal is whole");
    }
    let id = waiting.each_ref().map(|run| run.id().to_string());
    drop((waiting, workflow, hosts));

    let host = rig::builder().build().expect("a host");
    replay(&host, "calls of a handler", &rig::load_from(&host, CALLS, guests), calls);
    replay(&host, "messages between two guests", &rig::load_from(&host, &messages, guests), sent);
    take_up(guests, [("saved", &id[0]), ("unsaved", &id[1])]);
}

/// Waits until a run has reached the signal.
fn wait_for_step(run: &RunHandle, steps: u64) {
    let mut last = 0;
    loop {
        let now = run.inner().counts().steps;
        if now >= steps && now == last {
            return;
        }
        last = now;
        assert!(run.outcome().is_none(), "{:?}", run.outcome());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn replay(host: &Host, what: &str, workflow: &Workflow, (records, read): (Vec<Record>, Duration)) {
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        let begun = Instant::now();
        let run = rig::start(host, workflow, false);
        // It is stored until the guest asks for it, or until the run ends.
        let _ = run.signal(SIGNAL, &true.into());
        let outcome = run.wait();
        let live = run.inner().counts().steps as f64 / begun.elapsed().as_secs_f64();
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
        let begun = Instant::now();
        let replayed = host.replay(workflow, &records, ReplayOptions::default(), |_| ()).expect("there is room");
        let took = begun.elapsed().as_secs_f64();
        let Replay::Same { steps, .. } = replayed else { panic!("{replayed:?}") };
        if round > 0 {
            rates[0].push(steps as f64 / took);
            rates[1].push(live);
        }
    }
    let [(again, low, high), (live, ..)] = rates.map(quarters);
    let steps = records.iter().filter(|record| matches!(record, Record::Stepped(_))).count();
    println!(
        "  {what}, {steps} steps: {again:.0} steps a second [{low:.0}..{high:.0}], {:.2} of live without records ({live:.0}); {} records read in {read:.1?}",
        again / live,
        records.len(),
    );
}

/// The median, the first and the third quarter.
fn quarters(mut rates: Vec<f64>) -> (f64, f64, f64) {
    rates.sort_by(f64::total_cmp);
    let at = |quarter: usize| rates[(rates.len() - 1) * quarter / 4];
    (at(2), at(1), at(3))
}

/// The two by turns, each in a copy of its folder: from `resume` until it is back, and from the
/// signal until the run has ended.
fn take_up(folder: &Path, runs: [(&str, &str); 2]) {
    let mut times = [const { [Vec::new(), Vec::new()] }; 2];
    for round in 0..=ROUNDS {
        for (kind, (name, id)) in runs.into_iter().enumerate() {
            let copied = rig::folder(folder);
            copy(&folder.join(name), copied.path());
            let host = rig::host(copied.path());
            let workflow = host.workflow_of(id).expect("it is there");
            let begun = Instant::now();
            let run = host.recover(&workflow, id, RunOptions::default()).expect("nobody has it");
            let resumed = begun.elapsed();
            let signalled = Instant::now();
            run.signal(SIGNAL, &true.into()).expect("it waits");
            let outcome = run.wait();
            let took = signalled.elapsed();
            assert!(outcome.result.is_ok(), "{:?}", outcome.result);
            assert_eq!(run.inner().ignored_snapshots().1, 0);
            if round > 0 {
                times[kind][0].push(resumed.as_secs_f64() * 1e3);
                times[kind][1].push(took.as_secs_f64() * 1e3);
            }
        }
    }
    let [saved, unsaved] = times.map(|times| times.map(|times| quarters(times).0));
    println!(
        "  the calls taken up with a snapshot: resumed in {:.1} ms, signalled and ended in {:.1} ms; from records alone {:.1} and {:.1} ms: {:.2} and {:.2}",
        saved[0],
        saved[1],
        unsaved[0],
        unsaved[1],
        saved[0] / unsaved[0],
        saved[1] / unsaved[1]
    );
}

/// Copies a folder, but no sockets.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (kind, to) = (entry.file_type().expect("a kind"), to.join(entry.file_name()));
        if kind.is_dir() {
            std::fs::create_dir(&to).expect("a folder");
            copy(&entry.path(), &to);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to).expect("a file");
        }
    }
}
