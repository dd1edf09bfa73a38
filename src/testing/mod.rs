//! Tests of workflows: cases in a file, run with real guests in virtual time.
//!
//! A [`CaseFile`] has cases for one workflow: its inputs, the answers to its calls, signals at
//! times, and what is expected. An [`Execution`](execution::Execution) runs a case: the kernel,
//! the interpreter, guests and expressions are those of every run; the clock, the disk and the
//! servers behind `call` are simulated. So a workflow that waits a week is tested in
//! milliseconds, nothing leaves the machine, and a case that fails today fails tomorrow.
//!
//! # Protocol
//! 1. [`CaseFile::read`] reads a file and reports all its problems; [`Suite::load`] finds its
//!    workflow and checks what only both together show.
//! 2. [`Suite::run`] executes each case, and with [`Options::seeds`] many times more, with faults
//!    that a seed draws; what fails is shrunk to the fewest [`Fault`]s that still show it.
//! 3. What is expected is compared with what happened; a failure is a diagnostic in the case file.
//!
//! # Invariants
//! - **I1** The same case with the same faults has the same records, byte for byte: one virtual
//!   worker, one thread, a clock that only the execution moves, a seed that follows from the case's
//!   name.
//! - **I2** No call leaves the machine: one that no answer matches ends the case.
//! - **I3** An execution ends: its turns, its records and its real time are bounded.
//!
//! It does not test services, schedules, or concurrency groups: each case is one run.

pub mod case_file;
pub mod execution;
pub mod faults;
mod judge;
pub mod outcome;
pub mod suite;
#[cfg(test)]
mod tests;

pub use case_file::{Case, CaseFile};
pub use faults::{Fault, Faults};
pub use outcome::{CaseResult, SuiteResult};
pub use suite::{Options, Suite, SuiteError};
