//! The init of a guest that a test or bench steps without a host.

use std::sync::Arc;
use wfhost::process::{Grants, Json, Limits, Payload, Pid, ProcessInit, Tag};

/// The init of a process with default limits. The input is JSON text.
pub(crate) fn init(entry: &str, input: &str) -> ProcessInit {
    ProcessInit {
        run: "run-1".into(),
        holder: "run-1".into(),
        pid: Pid(7),
        seed: [3; 32],
        entry: entry.into(),
        input: Payload::Json(Json::parse(input.to_owned()).expect("JSON")),
        limits: Arc::new(Limits::default()),
        grants: Grants::default(),
        next_tag: Tag(1),
        is_anonymous: false,
    }
}
