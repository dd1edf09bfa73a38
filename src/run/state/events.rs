//! What observers of a run hear, and what a run comes to.

use super::run_state::{Abandoned, Counts};
use crate::process::{Answer, Ending, LogLine, Micros, Pid, Problem, Tag, Timestamp};
use std::sync::Arc;

/// Something that happened in a run, in the order of its log.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEvent {
    /// A process was started.
    Spawned {
        /// The process.
        pid: Pid,
        /// Who spawned it; none for the root.
        parent: Option<Pid>,
        /// Its component; none is the root's program.
        component: Option<Arc<str>>,
        /// Its entry point.
        entry: Arc<str>,
        /// Its place in the workflow, `<node path>/<item>/<n>`, where its parent gave it one.
        scope: Option<Arc<str>>,
    },
    /// A process has a name.
    Named {
        /// The process.
        pid: Pid,
        /// The name.
        name: Arc<str>,
    },
    /// A process called a handler.
    Called {
        /// The process.
        pid: Pid,
        /// The call.
        tag: Tag,
        /// The handler.
        handler: Arc<str>,
        /// Its place in the workflow, where the process gave it one.
        scope: Option<Arc<str>>,
    },
    /// A call that was made in the run that this one repeats has another key here, because its arguments are others.
    Rekeyed {
        /// The process.
        pid: Pid,
        /// The call.
        tag: Tag,
        /// The key that it had.
        former: Arc<str>,
        /// The key that it has.
        key: Arc<str>,
    },
    /// A call has its answer.
    Answered {
        /// The process.
        pid: Pid,
        /// The call.
        tag: Tag,
        /// What went wrong, where something did.
        problem: Option<Arc<Problem>>,
    },
    /// A process wrote a line, or a handler did for a call of it.
    Logged {
        /// The process.
        pid: Pid,
        /// Of a handler's line: the call's place in the workflow, where the process gave it one.
        scope: Option<Arc<str>>,
        /// When, in microseconds since 1970: the time of the record that has the line.
        at: Timestamp,
        /// The line.
        line: LogLine,
    },
    /// A process has ended.
    Ended {
        /// The process.
        pid: Pid,
        /// How.
        ending: Ending,
    },
}

/// What a run came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How the root ended.
    pub ending: Ending,
    /// The root's output, or why there is none.
    pub result: Answer,
    /// How long it was to take at most, where it was asked to end for taking longer.
    pub late: Option<Micros>,
    /// Calls that processes did not wait for when they completed, as far as they are listed.
    pub abandoned: Vec<Abandoned>,
    /// Abandoned calls beyond the list.
    pub abandoned_more: u64,
    /// What happened, in numbers.
    pub counts: Counts,
}

impl Outcome {
    /// That of a run which goes on no more in this host, for a reason that is not its own.
    pub(in crate::run) fn of_problem(problem: Problem, counts: Counts) -> Self {
        let problem = Arc::new(problem);
        let (ending, result) = (Ending::Failed(Arc::clone(&problem)), Err(problem));
        Self { ending, result, late: None, abandoned: Vec::new(), abandoned_more: 0, counts }
    }
}
