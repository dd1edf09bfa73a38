//! The events that observers of a run get, and the outcome of a run.

use super::run_state::{Abandoned, Counts};
use crate::process::{Answer, Ending, LogLine, Micros, Pid, Problem, Tag, Timestamp};
use std::sync::Arc;

/// Something that happened in a run, in the order of its log.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEvent {
    /// A process was started.
    Spawned {
        /// The process that the event is about.
        pid: Pid,
        /// The process that spawned it; `None` for the root.
        parent: Option<Pid>,
        /// The component it runs; `None` for the root's program.
        component: Option<Arc<str>>,
        /// The entry point it begins at.
        entry: Arc<str>,
        /// Its place in the workflow, `<node path>/<item>/<n>`, if its parent gave it one.
        scope: Option<Arc<str>>,
    },
    /// A process has registered a name.
    Named {
        /// The process that the event is about.
        pid: Pid,
        /// The registered name.
        name: Arc<str>,
    },
    /// A process called a handler.
    Called {
        /// The process that the event is about.
        pid: Pid,
        /// The command that made the call.
        tag: Tag,
        /// The name of the handler.
        handler: Arc<str>,
        /// The call's place in the workflow, if the process gave it one.
        scope: Option<Arc<str>>,
    },
    /// A call that was made in the run that this one repeats has another key here, because its
    /// arguments differ.
    Rekeyed {
        /// The process that the event is about.
        pid: Pid,
        /// The command that made the call.
        tag: Tag,
        /// The key in the former run.
        former: Arc<str>,
        /// The key in this run.
        key: Arc<str>,
    },
    /// A call has its answer.
    Answered {
        /// The process that the event is about.
        pid: Pid,
        /// The command that made the call.
        tag: Tag,
        /// The problem, if the call failed.
        problem: Option<Arc<Problem>>,
    },
    /// A process wrote a line, or a handler did for a call of the process.
    Logged {
        /// The process that the event is about.
        pid: Pid,
        /// For a handler's line: the call's place in the workflow, if the process gave it one.
        scope: Option<Arc<str>>,
        /// Microseconds since 1970: the time of the record that has the line.
        at: Timestamp,
        /// The line and its level.
        line: LogLine,
    },
    /// A process has ended.
    Ended {
        /// The process that the event is about.
        pid: Pid,
        /// How it ended.
        ending: Ending,
    },
}

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How the root ended.
    pub ending: Ending,
    /// The root's output, or why there is none.
    pub result: Answer,
    /// How long the run was allowed to take, if it was asked to end because it took longer.
    pub late: Option<Micros>,
    /// Calls that processes did not wait for when they completed, up to a limit.
    pub abandoned: Vec<Abandoned>,
    /// The number of abandoned calls beyond that list.
    pub abandoned_more: u64,
    /// What happened in the run, in numbers.
    pub counts: Counts,
}

impl Outcome {
    /// The outcome of a run that does not continue in this host, for a reason outside the run.
    pub(in crate::run) fn of_problem(problem: Problem, counts: Counts) -> Self {
        let problem = Arc::new(problem);
        let (ending, result) = (Ending::Failed(Arc::clone(&problem)), Err(problem));
        Self { ending, result, late: None, abandoned: Vec::new(), abandoned_more: 0, counts }
    }
}
