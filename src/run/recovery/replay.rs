//! Replaying a run from its records, without effects, to see whether it does the same.
//!
//! There are three results: it does the same; a step gives other commands; or this host cannot
//! repeat a step that ended well, for example if an engine with other limits traps, which proves
//! nothing about the process.

use super::describe::{describe_act, describe_status};
use super::rebuild::{Rebuild, RebuildError};
use crate::process::{Body, Budget, Pid, Problem, Program, Status};
use crate::run::record::kinds::{Record, Stepped};
use crate::run::state::config::Programs;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a run is replayed with.
pub struct ReplaySpec {
    /// The program of its root process.
    pub root: Arc<dyn Program>,
    /// The programs that its processes may spawn.
    pub programs: Programs,
    /// Whether other programs than those that the run began with are given on purpose: they are
    /// compared by what they do.
    pub substituted: bool,
    /// The number of the last record to replay, from 1; `None` for all.
    pub until: Option<u64>,
    /// What instances are taken from; `None` for slots that are not counted.
    pub budget: Option<Arc<Budget>>,
}

/// A step that was replayed and was the same.
pub struct ReplayedStep<'a> {
    /// The number of its record, from 1.
    pub record: u64,
    /// The recorded step.
    pub stepped: &'a Stepped,
    /// The place of its process in the workflow, if it has one.
    pub scope: Option<Arc<str>>,
    /// The component of its process; `None` for the root's program.
    pub component: Option<Arc<str>>,
    /// The process after the step, if it has not ended.
    pub body: Option<&'a mut (dyn Body + 'static)>,
}

/// The result of a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replay {
    /// Every step gave what its record says.
    Same {
        /// Steps that were replayed.
        steps: u64,
        /// Steps among them that used another amount of fuel. It means nothing unless the engine is
        /// the same.
        fuel_differs: u64,
        /// Records that were read.
        records: u64,
    },
    /// A step gave something else.
    Diverged(Box<Difference>),
    /// This host ends a step that ended otherwise in its record.
    CannotReplay(Box<Unrepeatable>),
}

impl Replay {
    /// The result for programs: the shape that `wfhost replay --help` documents.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let named = |answer: &str, rest: Value| {
            let mut value = json!({ "answer": answer });
            if let (Some(members), Value::Object(rest)) = (value.as_object_mut(), rest) {
                members.extend(rest);
            }
            value
        };
        match self {
            Self::Same { steps, fuel_differs, records } => {
                named("same", json!({ "steps": steps, "fuel-differs": fuel_differs, "records": records }))
            }
            Self::Diverged(difference) => named("diverged", json!(difference)),
            Self::CannotReplay(unrepeatable) => named("cannot-replay", json!(unrepeatable)),
        }
    }
}

/// Where a run diverges from its records.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Difference {
    /// The number of the record, from 1.
    pub record: u64,
    /// The process that diverges.
    pub pid: Pid,
    /// The number of its step, from 1.
    pub step: u64,
    /// The place of the process in the workflow, `<step>/<item>/<n>`, if it has one.
    pub scope: Option<Arc<str>>,
    /// The component of the process; `None` for the root's program.
    pub component: Option<Arc<str>>,
    /// The recorded commands and the status, one line each.
    pub expected: Vec<String>,
    /// What the step gave this time, in the same form.
    pub got: Vec<String>,
    /// The first line that differs, from 0.
    pub line: usize,
}

/// A step that this host cannot repeat.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Unrepeatable {
    /// The number of the record, from 1.
    pub record: u64,
    /// The process that diverges.
    pub pid: Pid,
    /// The number of its step, from 1; 0 if the process could not be made.
    pub step: u64,
    /// The place of the process in the workflow, if it has one.
    pub scope: Option<Arc<str>>,
    /// The component of the process; `None` for the root's program.
    pub component: Option<Arc<str>>,
    /// How it ended this time.
    pub problem: Problem,
}

/// Replays a run from its records, and reports each step that was the same. Nothing leaves the
/// host.
///
/// # Errors
/// Fails if the records do not follow from each other, if a program is not the one that the run
/// began with although none was substituted, or if there is no room for the processes.
pub fn replay<'a>(
    spec: ReplaySpec,
    records: impl IntoIterator<Item = &'a Record>,
    mut on_step: impl FnMut(ReplayedStep<'_>),
) -> Result<Replay, RebuildError> {
    let ReplaySpec { root, programs, substituted, until, budget } = spec;
    let mut rebuild = Rebuild::new(root, programs.clone()).substituted(substituted);
    if let Some(budget) = budget {
        rebuild = rebuild.outside(budget);
    }
    let mut count = 0;
    let until = usize::try_from(until.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    for record in records.into_iter().take(until) {
        count += 1;
        if let (Record::Started(started), false) = (record, substituted) {
            check_programs(&started.programs, &programs)?;
        }
        let before = rebuild.steps;
        if let Err(error) = rebuild.apply(record) {
            return answer(&rebuild, count, record, error, substituted);
        }
        if let (Record::Stepped(stepped), true) = (record, rebuild.steps > before) {
            let (scope, component) = rebuild.place_of(stepped.pid);
            on_step(ReplayedStep { record: count, stepped, scope, component, body: rebuild.body_mut(stepped.pid) });
        }
    }
    Ok(Replay::Same { steps: rebuild.steps, fuel_differs: rebuild.fuel_differs, records: count })
}

/// Checks that the programs are those that a run began with.
pub(in crate::run) fn check_programs(
    recorded: &[(Arc<str>, Arc<str>)],
    programs: &Programs,
) -> Result<(), RebuildError> {
    for (name, expected) in recorded {
        let got = programs.get(name).map_or_else(|| "no program of that name".into(), |program| program.digest());
        if got != *expected {
            let (name, expected) = (Arc::clone(name), Arc::clone(expected));
            return Err(RebuildError::OtherProgram { name, expected, got });
        }
    }
    Ok(())
}

fn answer(
    rebuild: &Rebuild,
    record: u64,
    at: &Record,
    error: RebuildError,
    substituted: bool,
) -> Result<Replay, RebuildError> {
    match (error, at) {
        (RebuildError::Diverged { pid, step, got, .. }, Record::Stepped(stepped)) => {
            let (status, commands) = *got;
            Ok(differ(rebuild, record, (pid, step), stepped, describe_act(&status, &commands)))
        }
        // Another program that traps does something else.
        (RebuildError::CannotReplay { pid, step, problem }, Record::Stepped(stepped)) if substituted => {
            let got = vec![describe_status(&Status::Failed(problem.into()))];
            Ok(differ(rebuild, record, (pid, step), stepped, got))
        }
        (RebuildError::CannotReplay { pid, step, problem }, _) => {
            let (scope, component) = rebuild.place_of(pid);
            Ok(Replay::CannotReplay(Box::new(Unrepeatable { record, pid, step, scope, component, problem: *problem })))
        }
        (RebuildError::Body { pid, problem }, _) => {
            let (scope, component) = rebuild.place_of(pid);
            Ok(Replay::CannotReplay(Box::new(Unrepeatable {
                record,
                pid,
                step: 0,
                scope,
                component,
                problem: *problem,
            })))
        }
        (error, _) => Err(error),
    }
}

fn differ(rebuild: &Rebuild, record: u64, at: (Pid, u64), stepped: &Stepped, got: Vec<String>) -> Replay {
    let (scope, component) = rebuild.place_of(at.0);
    let expected = describe_act(&stepped.status, stepped.decided.iter().map(|decided| &decided.command));
    let same = expected.iter().zip(&got).take_while(|(expected, got)| expected == got).count();
    let (pid, step) = at;
    Replay::Diverged(Box::new(Difference { record, pid, step, scope, component, expected, got, line: same }))
}
