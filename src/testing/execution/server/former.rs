//! Calls of the run that another one retries.

use super::super::Stage;
use super::{Inner, SeenCall};
use crate::process::{Pid, Tag};

/// What servers have seen before a run. Pids and tags of the run are its own, so a call of it
/// repeats one of these by its key alone.
pub(super) fn begun(stage: &Stage) -> Inner {
    let former = stage.oracle.iter().filter_map(|oracle| oracle.former.as_ref());
    let calls = former.flat_map(|former| former.calls.iter().cloned());
    Inner { calls: calls.map(|seen| SeenCall { origin: (Pid(0), Tag(0)), ..seen }).collect(), ..Inner::default() }
}
