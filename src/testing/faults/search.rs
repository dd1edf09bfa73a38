//! Searches for faults that a case does not survive, and shrinks what it finds.

use super::draw::is_fair;
use super::{Fault, Faults, draw};
use crate::process::Micros;
use crate::sim::Dice;
use crate::testing::case_file::Case;
use crate::testing::execution::{Execution, Stage};
use crate::testing::judge::judge;
use crate::workflow::diagnostics::Diagnostic;

/// Executions that shrinking takes at most. Arbitrary.
const SHRINKS_MAX: u32 = 200;

/// Faults that a case does not survive.
pub(in crate::testing) struct Found {
    /// The fewest and simplest that still show it.
    pub(in crate::testing) faults: Faults,
    /// The execution with these.
    pub(in crate::testing) execution: Execution,
    /// Why it has failed.
    pub(in crate::testing) failures: Vec<Diagnostic>,
    /// The number of the execution that found it, from 1.
    pub(in crate::testing) number: u64,
}

/// Executes a case so many times, each with faults that follow from the seed and the number.
/// `None` if it survives all.
pub(in crate::testing) fn search(
    stage: &Stage,
    case: &Case,
    calm: &Execution,
    (seeds, seed): (u64, u64),
) -> Option<Found> {
    for number in 1..=seeds {
        let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(number));
        let faults = draw(&mut dice, stage.workflow().plan(), case, calm);
        if faults.is_empty() {
            continue;
        }
        if let Some((execution, failures)) = fails(stage, case, &faults) {
            let mut shrinking =
                Shrinking { stage, case, left: SHRINKS_MAX, best: Found { faults, execution, failures, number } };
            shrinking.shrink();
            return Some(shrinking.best);
        }
    }
    None
}

/// Why a case fails with these faults; `None` if it passes, or if no workflow would.
fn fails(stage: &Stage, case: &Case, faults: &Faults) -> Option<(Execution, Vec<Diagnostic>)> {
    let execution = stage.execute(case, faults);
    let failures = judge(stage, case, &execution, true);
    let is_found = !failures.is_empty() && is_fair(stage.workflow().plan(), &execution);
    is_found.then_some((execution, failures))
}

struct Shrinking<'a> {
    stage: &'a Stage,
    case: &'a Case,
    left: u32,
    best: Found,
}

impl Shrinking<'_> {
    /// Leaves out what can be left out, then makes each fault as simple as it can be.
    fn shrink(&mut self) {
        let mut index = 0;
        while index < self.best.faults.0.len() && self.best.faults.0.len() > 1 {
            let mut fewer = self.best.faults.clone();
            fewer.0.remove(index);
            if self.attempt(fewer) {
                // What could not be left out before may be now.
                index = 0;
            } else {
                index += 1;
            }
        }
        for index in 0..self.best.faults.0.len() {
            while let Some(next) = simpler(&self.best.faults.0[index]).into_iter().find(|simple| {
                let mut faults = self.best.faults.clone();
                faults.0[index] = simple.clone();
                self.attempt(faults)
            }) {
                debug_assert_eq!(self.best.faults.0[index], next);
            }
        }
    }

    /// Keeps these faults if the case fails with them, too.
    fn attempt(&mut self, faults: Faults) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let Some((execution, failures)) = fails(self.stage, self.case, &faults) else { return false };
        self.best = Found { faults, execution, failures, number: self.best.number };
        true
    }
}

/// Simpler faults, the simplest first.
fn simpler(fault: &Fault) -> Vec<Fault> {
    let half = |time: Micros| Micros(time.0 / 2 / 1_000 * 1_000);
    match fault {
        Fault::Crash { record, down } if *down > Micros(0) => vec![Fault::Crash { record: *record, down: Micros(0) }],
        Fault::Lost { call, down } if *down > Micros(0) => vec![Fault::Lost { call: call.clone(), down: Micros(0) }],
        Fault::Late { call, by } if half(*by) > Micros(0) => vec![Fault::Late { call: call.clone(), by: half(*by) }],
        Fault::Jump { record, by } if half(*by) > Micros(0) => vec![Fault::Jump { record: *record, by: half(*by) }],
        Fault::Fail { call, times } if *times > 1 => {
            vec![Fault::Fail { call: call.clone(), times: 1 }, Fault::Fail { call: call.clone(), times: times - 1 }]
        }
        _ => Vec::new(),
    }
}
