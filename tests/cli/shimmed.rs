//! Disks that are full and clocks that were set, as those see them who ask.

use super::command_in;
use super::shim::Shim;
use super::support::{Going, World, eventually};
use super::transcript;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};

const FULL: &str = "warning: the disk with the data folder is full: all runs wait until there is space";

/// A run with a disk and a clock that can be set, when it is at its step.
fn begun(world: &World, shim: &Shim, step: &str) -> Going {
    let run = world.spawn_by(&["run", "--json", "--run-id", "it", &world.file], |command| {
        shim.put(command);
    });
    eventually(|| world.is_at("it", step).then_some(()));
    run
}

#[test]
fn that_the_disk_of_a_run_is_full_is_said_by_whoever_asks_of_it_or_steers_it() {
    let world = World::new("steps: [{ id: asks, wait: { signal: go } }]\noutputs: { a: \"${ .steps.asks.output }\" }");
    let shim = Shim::of(&world.data);
    let run = begun(&world, &shim, "asks");
    assert_eq!(world.tells(&["status", "--json", "it"])["stalled"], false);
    shim.set("full", "");
    let mut signal = world.spawn(&["signal", "it", "go", "7"]);
    eventually(|| (world.tells(&["status", "--json", "it"])["stalled"] == true).then_some(()));
    assert!(shim.count("failed-writes") > 0);

    let mut others = [&["logs", "-f", "it"][..], &["run", "--run-id", "it", &world.file]].map(|one| world.spawn(one));
    for waits in others.iter_mut().chain([&mut signal]) {
        let said = BufReader::new(waits.stderr()).lines().map(Result::unwrap).find(|line| line == FULL);
        assert!(said.is_some(), "whoever waits hears why");
    }
    for (command, shown) in [(&["status", "it"][..], "running (stalled), by process"), (&["ps"], " stalled ")] {
        let output = world.does(command);
        assert!(String::from_utf8_lossy(&output.stdout).contains(shown), "{}", transcript(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains(FULL), "{}", transcript(&output));
    }
    assert_eq!(world.tells(&["ps", "--json"])[0]["stalled"], true);
    // It is found by what the host says, and by whoever is to write there itself.
    let mut doctor = command_in(&world.data, &["doctor", "--json"]);
    for doctor in [world.does(&["doctor", "--json"]), shim.put(&mut doctor).output().unwrap()] {
        let told: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let problems = told["problems"].as_array().unwrap();
        let is_said = |problem: &&Value| FULL.ends_with(problem["message"].as_str().unwrap());
        assert_eq!((doctor.status.code(), problems.iter().filter(is_said).count()), (Some(1), 1), "{told}");
    }

    shim.unset("full");
    assert_eq!((signal.ends(), others.map(|mut other| other.ends())), (Some(0), [Some(0); 2]));
    let (told, code) = run.told();
    assert_eq!((&told["outputs"], code), (&json!({ "a": 7 }), Some(0)), "{told}");
}

/// When each record was written, in microseconds since 1970, with the steps that it says run or
/// have succeeded.
fn times(world: &World, id: &str) -> Vec<(u64, Vec<String>)> {
    let records = world.says(&["history", "--json", id]);
    let read = |line: &str| -> Option<_> {
        let record: Value = serde_json::from_str(line).unwrap();
        let stepped = record.get("stepped")?;
        let lines = stepped["log"].as_array().unwrap().iter();
        let text = lines.map(|line| line["text"].as_str().unwrap().to_owned());
        Some((stepped["at"].as_u64().unwrap(), text.collect()))
    };
    records.lines().filter_map(read).collect()
}

fn time_of(times: &[(u64, Vec<String>)], text: &str) -> u64 {
    times.iter().find(|(_, texts)| texts.iter().any(|one| one == text)).unwrap().0
}

#[test]
fn what_a_step_took_is_what_its_records_say() {
    let steps = ["a", "b", "c", "d"];
    let after = |index: usize| if index == 0 { String::new() } else { format!(", needs: [{}]", steps[index - 1]) };
    let step = |(index, id)| format!("  - {{ id: {id}, wait: 20ms{} }}\n", after(index));
    let world = World::new(&format!("steps:\n{}", steps.iter().enumerate().map(step).collect::<String>()));
    let output = world.does(&["run", "--durability", "journal", "--run-id", "it", &world.file]);
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    let times = times(&world, "it");
    for step in steps {
        let took = time_of(&times, &format!("{step}: succeeded")) - time_of(&times, &format!("{step}: running"));
        // A machine that is busy may take seconds.
        let took = if took < 1_000_000 { format!("{} ms", took / 1_000) } else { format!("{}.", took / 1_000_000) };
        assert!(shown.contains(&format!("✓ {step}: succeeded in {took}")), "{took}: {}", transcript(&output));
    }
}

#[test]
fn a_clock_that_was_set_back_between_two_commands_holds_no_step_up_and_takes_no_time_away() {
    let world = World::new(
        "steps: [{ id: asks, wait: { signal: go } }, { id: waits, wait: 300ms, needs: [asks] }]\noutputs: { a: 1 }",
    );
    let shim = Shim::of(&world.data);
    begun(&world, &shim, "asks").kill();
    let ten_days = 10 * 86_400;
    shim.set("clock", &format!("-{ten_days}"));
    let resumed = world.spawn_by(&["resume", "--json", "it"], |command| {
        shim.put(command);
    });
    world.says(&["signal", "it", "go", "1"]);
    let (told, code) = resumed.told();
    assert_eq!((&told["outputs"], code), (&json!({ "a": 1 }), Some(0)), "{told}");
    let times = times(&world, "it");
    assert!(times.is_sorted_by_key(|(at, _)| *at), "{times:?}");
    let took = time_of(&times, "waits: succeeded") - time_of(&times, "waits: running");
    assert!((300_000..ten_days * 1_000_000).contains(&took), "{took} µs");
    // Nobody lists or tells it in another way than before.
    let mut list = command_in(&world.data, &["ls"]);
    let listed = String::from_utf8(shim.put(&mut list).output().unwrap().stdout).unwrap();
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert!(row.contains(&"succeeded") && matches!(row.last(), Some(&("ms" | "s"))), "{listed}");
}
