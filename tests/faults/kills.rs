//! Hosts that are killed at random points, again and again, with 50 runs in flight.

use crate::dice::{self, Dice};
use crate::hosted::{Line, Orders};
use crate::judge;
use crate::life::{Life, bad, ended};
use crate::program;
use crate::server::Server;
use std::time::{Duration, Instant};

/// Runs at one time. When their host dies, some may not be durable yet, and some may have ended
/// without a report: 50 must remain.
const IN_FLIGHT: usize = 64;
/// Kills of hosts of one folder; then its runs come to their end.
const KILLS_PER_FOLDER: u32 = 15;
/// How long to wait for what must be seen before a kill. Only a host that hangs takes this long.
const MARK: Duration = Duration::from_secs(30);

/// The number of hosts to kill: a few, or as many as the environment says.
fn kills() -> u32 {
    std::env::var("WFHOST_KILLS").map_or(10, |text| text.parse().expect("WFHOST_KILLS is a number"))
}

#[derive(Default, Debug)]
struct Tally {
    kills: u32,
    in_flight: u64,
    runs: u64,
    effects: usize,
    repeated: usize,
}

#[test]
fn every_run_ends_correctly_however_often_its_host_is_killed() {
    let seed = dice::seed();
    let mut dice = Dice::new(seed);
    let mut tally = Tally::default();
    while tally.kills < kills() {
        let wanted = KILLS_PER_FOLDER.min(kills() - tally.kills);
        if let Err(why) = campaign(dice.roll(), wanted, &mut tally) {
            panic!(
                "after {} kills:\n{why}\nrun it again: WFHOST_SEED={seed} WFHOST_KILLS={} cargo test --test faults kills",
                tally.kills,
                kills()
            );
        }
    }
    let Tally { kills, in_flight, runs, effects, repeated } = tally;
    println!(
        "{kills} kills with {} runs in flight on average, {runs} runs, {effects} effects, {repeated} of them repeated under their key",
        in_flight / u64::from(kills)
    );
}

/// One folder: its hosts are killed, except the last one.
fn campaign(seed: u64, kills: u32, tally: &mut Tally) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::start(dice.roll());
    let mut orders = Orders {
        data: folder.path().join("data"),
        server: server.address,
        in_flight: IN_FLIGHT,
        first: 0,
        end: u64::MAX,
        slots: [8, 16, 64][dice.below(3) as usize],
        snapshots: false,
    };
    for number in 0..kills {
        orders.snapshots = dice.below(2) == 0;
        if number > 0 && dice.below(6) == 0 {
            program::kill_while_it_takes_up(&mut dice, folder.path(), &orders, &server)?;
            let census = judge::inspect(&orders.data);
            orders.first = census.next;
            tally.kills += 1;
            tally.in_flight += census.unfinished;
            continue;
        }
        let life = Life::begin(&orders);
        if number == 0 {
            // So that there are runs to recover.
            life.wait_for(1, |line| *line == Line::Up, Instant::now() + MARK);
        }
        wait_for_a_moment(&mut dice, &life, &server);
        let lines = life.kill();
        check_what_was_printed(&lines)?;
        let census = judge::inspect(&orders.data);
        orders.first = census.next;
        tally.kills += 1;
        tally.in_flight += census.unfinished;
    }
    orders.end = orders.first;
    let (status, lines) = Life::begin(&orders).end(Duration::from_mins(2));
    check_what_was_printed(&lines)?;
    if status != Some(0) {
        return Err(format!("the last host ended with {status:?}"));
    }
    judge::inspect(&orders.data);
    let against = judge::against(&orders.data, &server, orders.end);
    if !against.is_empty() {
        return Err(format!(
            "{} of {} runs:\n{}",
            against.len(),
            orders.end,
            against[..against.len().min(20)].join("\n")
        ));
    }
    let (effects, repeated) = server.effects();
    tally.runs += orders.end;
    tally.effects += effects;
    tally.repeated += repeated;
    Ok(())
}

/// A random mark of progress, and a random while after it.
fn wait_for_a_moment(dice: &mut Dice, life: &Life, server: &Server) {
    let until = Instant::now() + MARK;
    let is_up = |line: &Line| *line == Line::Up;
    let is_end = |line: &Line| matches!(line, Line::Ended(..));
    let while_ms = match dice.below(20) {
        // While it starts, and recovers what it finds.
        0..3 => 400,
        3..7 => {
            life.wait_for(1, is_up, until);
            60
        }
        7..15 => {
            life.wait_for(1, is_up, until);
            server.wait_for(server.requests() + 1 + dice.below(80), until);
            5
        }
        _ => {
            life.wait_for(1 + dice.below(40) as usize, is_end, until);
            5
        }
    };
    std::thread::sleep(Duration::from_micros(dice.below(while_ms * 1000)));
}

/// What a host reports before its end must already be right.
fn check_what_was_printed(lines: &[Line]) -> Result<(), String> {
    if let Some(first) = bad(lines).first() {
        return Err(format!("a host printed: {first}"));
    }
    for (job, outputs) in ended(lines) {
        if *outputs != job.outputs() {
            return Err(format!("{} gave {outputs} and not {}", job.id(), job.outputs()));
        }
    }
    Ok(())
}
