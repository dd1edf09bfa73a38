//! Harmful components, each with the problem with which it ends, and with bounds on what it costs
//! others.
//!
//! Every case runs in a process of its own, so the growth of the process and its processor time are
//! due to the case. Time is never taken by the clock: it is compared with that of a loop that does
//! nothing, by turns, each a slice of fuel at most. Beside a neighbour that is always ready, on one
//! worker, each turn of the case must be followed by one of the neighbour's.

mod cases;
mod measure;
mod refused;
mod returning;
mod wat;

use crate::neighbour::Neighbour;
use crate::support::{cause, host, options};
use cases::{Case, End};
use measure::{Used, alone, used_by};
use refused::REFUSED;
use serde_json::Map;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wat::Guest;
use wfhost::guest::{Component, GuestEngine};
use wfhost::host::{Host, Outcome, RunHandle, RunOptions, Status, Workflow};

/// How much longer than a plain turn an average turn may be.
const TURN_MAX: f64 = 4.0;

/// Plain turns that a run may take in addition to its own: its start, its end, and what the host
/// does for itself in the meantime.
const RUN_TURNS: f64 = 200.0;

/// Other work on a processor's other thread makes one run dearer than another, and never cheaper.
const COST_TRIES: usize = 3;

/// Plain turns that refusing or compiling a component may take.
const LOAD_TURNS: f64 = 3_000.0;

/// Bytes by which a case may make the process grow: a guest's memory, what its step returns, and
/// once more as much.
const GROWTH_MAX: u64 = 200 << 20;

/// Bytes that a refused component may take: a few times its own size.
const REFUSED_GROWTH_MAX: u64 = 64 << 20;

/// The time of a turn of a loop that does nothing.
fn plain_turn(host: &Host) -> f64 {
    let workflow = load(host, &Guest::new().forever("").build(), ", limits: { fuel-per-step: 400M }");
    let (used, turns) = run(host, &workflow, |outcome| assert_eq!(cause(&outcome)["kind"], "fuel-exhausted"));
    used.cpu_ns / turns
}

fn load(host: &Host, component: &[u8], step: &str) -> Workflow {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("case.wasm"), component).unwrap();
    let text = format!("steps: [{{ id: x, uses: ./case.wasm{step} }}]");
    host.parse("case.yaml", &text, folder.path()).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs it to its end. Returns what that took, and its turns.
fn run(host: &Host, workflow: &Workflow, check: impl FnOnce(Outcome)) -> (Used, f64) {
    let before = host.stats().preemptions;
    let mut steps = 0;
    let (used, ()) = used_by(|| {
        let run = begin(host, workflow);
        check(run.wait());
        // Its last step may not have been committed.
        steps = run.inner().counts().steps + 1;
    });
    (used, (host.stats().preemptions - before + steps) as f64)
}

fn begin(host: &Host, workflow: &Workflow) -> RunHandle {
    host.start(workflow, Map::new(), RunOptions::default()).unwrap()
}

fn check(case: &Case, outcome: &Outcome) {
    match case.end {
        End::Fails(kind) => {
            let cause = cause(outcome);
            assert_eq!(cause["kind"], kind, "{}: {cause}", case.name);
        }
        End::Succeeds => assert_eq!(outcome.status, Status::Succeeded, "{}: {:?}", case.name, outcome.result),
    }
}

/// Whether a run of a case costs what its turns may cost, beside a plain turn of the same time.
fn is_cheap(host: &Host, case: &Case, workflow: &Workflow) -> bool {
    let plain = plain_turn(host);
    let (used, turns) = run(host, workflow, |outcome| check(case, &outcome));
    let (name, turn) = (case.name, used.cpu_ns / plain);
    println!("{name}: {turn:.0} plain turns in {turns}, {} KiB", used.grown >> 10);
    assert!(used.grown < case.growth_max, "{name}: the process grew by {} bytes", used.grown);
    turn < turns * TURN_MAX + RUN_TURNS
}

/// Runs a case alone, and then beside a neighbour.
fn meet(host: &Host, case: &Case) {
    let plain = plain_turn(host);
    let (loaded, workflow) = used_by(|| load(host, &(case.guest)(), case.step));
    let loading = loaded.cpu_ns / plain;
    assert!(loading < LOAD_TURNS, "{}: loading it takes {loading:.0} turns", case.name);
    let is_cheap = (0..COST_TRIES).any(|_| is_cheap(host, case, &workflow));
    assert!(is_cheap, "{}: its turns cost too much", case.name);

    let neighbour = Neighbour::move_in(host);
    let (steps, before) = (neighbour.steps(), host.stats().preemptions);
    let run = begin(host, &workflow);
    check(case, &run.wait());
    let preempted = host.stats().preemptions - before;
    let (meanwhile, processes) = (neighbour.steps() - steps, run.inner().counts().processes.max(1));
    // All that are ready take their turns in a circle.
    if preempted > 2 {
        assert!(
            meanwhile * processes >= preempted,
            "{}: {meanwhile} steps of the neighbour in {preempted} slices",
            case.name
        );
    }
    neighbour.waits_for_steps(10);
    neighbour.move_out();
}

fn all_of(test: &str, cases: &[Case]) {
    alone(&format!("corpus::{test}"), || {
        let host = host(1, 64);
        let met = |case: &Case| catch_unwind(AssertUnwindSafe(|| meet(&host, case)));
        let wrong: Vec<&str> = cases.iter().filter(|case| met(case).is_err()).map(|case| case.name).collect();
        assert!(wrong.is_empty(), "{}", wrong.join(", "));
    });
}

#[test]
fn harm_at_the_start() {
    all_of("harm_at_the_start", cases::BEGINNING);
}

#[test]
fn harmful_returns() {
    all_of("harmful_returns", returning::RETURNING);
}

#[test]
fn endless_computation() {
    all_of("endless_computation", cases::COMPUTING);
}

#[test]
fn crowds() {
    all_of("crowds", cases::CROWDS);
}

#[test]
fn components_are_refused_before_they_cost_anything() {
    alone("corpus::components_are_refused_before_they_cost_anything", || {
        let plain = plain_turn(&host(1, 2));
        let engine = Arc::new(GuestEngine::new(options(2)).unwrap());
        let mut wrong = Vec::new();
        for (name, component, expected) in REFUSED {
            let Ok(bytes) = catch_unwind(component) else {
                wrong.push(format!("{name}: cannot be made"));
                continue;
            };
            let (used, refused) = used_by(|| Component::load(&engine, &bytes).map(|_| ()));
            let refused = refused.err().map_or_else(|| "it is taken".to_owned(), |error| error.to_string());
            let (turns, grown) = (used.cpu_ns / plain, used.grown);
            println!("{name}: {turns:.0} plain turns, {} KiB: {refused:.200}", grown >> 10);
            if !refused.contains(expected) || turns > LOAD_TURNS || grown > REFUSED_GROWTH_MAX {
                wrong.push(format!("{name}: {turns:.0} turns, {grown} bytes, and not `{expected}`: {refused:.500}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn there_are_many_and_each_has_a_name_of_its_own() {
    let cases = [cases::BEGINNING, returning::RETURNING, cases::COMPUTING, cases::CROWDS].concat();
    let names: BTreeSet<&str> =
        cases.iter().map(|case| case.name).chain(REFUSED.iter().map(|(name, ..)| *name)).collect();
    assert_eq!(names.len(), cases.len() + REFUSED.len());
    assert!(names.len() >= 60, "{}", names.len());
}
