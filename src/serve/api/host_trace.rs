//! What the workers of the server do over some seconds, for a viewer.

use crate::scheduler::{Deed, WorkerTimeline};
use crate::serve::access::Caller;
use crate::serve::body::Params;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;

/// How long is recorded, unless the request says otherwise, and at most, in seconds.
const SECONDS: (u32, u32) = (10, 60);

/// What is recorded.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TraceParams {
    /// For how many seconds: 1 to 60; 10 if it is not given.
    #[param(minimum = 1, maximum = 60)]
    pub seconds: Option<u32>,
}

/// Records what the workers do: slices of processes, steals, sleeps.
///
/// The answer comes when the time is over. It is a trace in the JSON format of Chrome, which
/// <https://ui.perfetto.dev> opens; each worker has a track, with at most 65,536 events. One
/// recording is made at a time.
#[utoipa::path(get, path = "/v1/host/trace", tag = "server", params(TraceParams),
    responses((status = 200, body = Value),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn trace(
    State(service): State<Arc<Service>>,
    _: Caller,
    Params(params): Params<TraceParams>,
) -> Answered<impl IntoResponse> {
    let seconds = params.seconds.unwrap_or(SECONDS.0);
    if !(1..=SECONDS.1).contains(&seconds) {
        return Err(ServeProblem::new(ProblemKind::DoesNotFit).part("seconds", "1 to 60"));
    }
    let busy = || ServeProblem::new(ProblemKind::InUse).detail("somebody records already");
    let recording = service.host.record_workers().ok_or_else(busy)?;
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds.into())) => {}
        () = service.drained() => {}
    }
    let text = tokio::task::spawn_blocking(move || draw(recording.end()).to_string()).await;
    let text = text.map_err(|_| ServeProblem::new(ProblemKind::HostFault))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text))
}

/// The events in the JSON format of Chrome, in microseconds from the first of them.
fn draw(workers: Vec<WorkerTimeline>) -> Value {
    let first = workers.iter().flat_map(|worker| &worker.events).map(|event| event.begun.0).min().unwrap_or(0);
    let mut events = vec![json!({ "ph": "M", "name": "process_name", "pid": 1, "args": { "name": "wfhost" } })];
    let mut lost = BTreeMap::new();
    for (number, worker) in workers.into_iter().enumerate() {
        let name = format!("worker {number}");
        events.push(json!({ "ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": { "name": name } }));
        if worker.lost > 0 {
            lost.insert(name, worker.lost);
        }
        for event in worker.events {
            let word = word(event.deed);
            events.push(json!({
                "ph": "X", "pid": 1, "tid": number, "cat": word,
                "name": event.process.as_deref().unwrap_or(word),
                "ts": event.begun.0 - first, "dur": event.took.0,
            }));
        }
    }
    json!({ "traceEvents": events, "otherData": { "lost": lost } })
}

fn word(deed: Deed) -> &'static str {
    match deed {
        Deed::Slice => "slice",
        Deed::Preempted => "preempted",
        Deed::Last => "last slice",
        Deed::Steal => "steal",
        Deed::Park => "sleep",
        Deed::Fire => "timers",
        Deed::Admit => "admit",
    }
}
