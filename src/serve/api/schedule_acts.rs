//! What can be done with a schedule: pause, resume, run now, fill holes.

use super::schedules::{FiringView, ScheduleView, found, read};
use crate::journal::catalog::Firing;
use crate::process::Timestamp;
use crate::run::system_time;
use crate::serve::access::Caller;
use crate::serve::body::{JsonBody, Segments};
use crate::serve::idempotency::{self, Key};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query::{self, rfc3339};
use crate::serve::schedule::{BACKFILL, FIRINGS_MAX, manual, outcome, run_id};
use crate::serve::service::Service;
use crate::workflow::schedule::Timetable;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Due times of a backfill.
const BACKFILL_MAX: usize = 1_000;

/// Pauses a schedule: nothing fires until it is resumed.
#[utoipa::path(post, path = "/v1/schedules/{name}/pause", tag = "schedules", params(("name" = String, Path)),
    responses((status = 200, body = ScheduleView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn pause(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Answered<Response> {
    set_paused(&service, caller, name, true).await
}

/// Resumes a schedule. Due times that passed meanwhile are not caught up.
#[utoipa::path(post, path = "/v1/schedules/{name}/resume", tag = "schedules", params(("name" = String, Path)),
    responses((status = 200, body = ScheduleView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn resume(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Answered<Response> {
    set_paused(&service, caller, name, false).await
}

async fn set_paused(service: &Arc<Service>, caller: Caller, name: String, pause: bool) -> Answered<Response> {
    service
        .with_store(move |service| {
            let before = found(service, &caller, &name)?;
            let now = system_time();
            let unknown = || ServeProblem::unknown(format_args!("schedule `{name}`"));
            let stored = service.store.pause_schedule(&name, pause, now)?.ok_or_else(unknown)?;
            if let (Some(since), false) = (before.paused, pause) {
                let (_, table) = read(&stored)?;
                note_pause(service, &name, &table, since, now)?;
            }
            service.schedules.wake();
            let act = if pause { "schedules.pause" } else { "schedules.resume" };
            service.note(&caller, act, &name, None)?;
            Ok(ScheduleView::of(stored, &caller)?.answer(StatusCode::OK))
        })
        .await
}

/// Notes the due times that passed while a schedule was paused, together.
fn note_pause(service: &Service, name: &str, table: &Timetable, since: Timestamp, now: Timestamp) -> Answered<()> {
    let Some(due) = table.next(since).filter(|due| *due <= now) else { return Ok(()) };
    let reason = format!("it was paused from {} to {}", rfc3339(since), rfc3339(now));
    let outcome = outcome::SKIPPED.to_owned();
    let firing = Firing { due, at: now, outcome, run: None, reason: Some(reason) };
    Ok(service.store.note_firings(name, &[firing], None, FIRINGS_MAX)?)
}

/// Starts a run of a schedule now, besides its due times.
///
/// The same request with the same `Idempotency-Key` gives the same run.
#[utoipa::path(post, path = "/v1/schedules/{name}/run", tag = "schedules",
    params(("name" = String, Path), ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")),
    responses((status = 201, body = FiringView, description = "The run has begun"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn run(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments(name): Segments<String>,
) -> Answered<Response> {
    service
        .with_store(move |service| {
            found(service, &caller, &name)?;
            let id = key.map(|key| idempotency::run_id(&caller, &format!("schedule {name}"), &key));
            let (id, firing) = manual(service, &name, id, caller.name())?;
            service.note(&caller, "schedules.run", &name, Some(serde_json::json!({ "run": id }).to_string()))?;
            let location = HeaderValue::from_str(&format!("/v1/runs/{id}"));
            let mut response = (StatusCode::CREATED, Json(FiringView::of(firing))).into_response();
            response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
            Ok(response)
        })
        .await
}

/// The due times to fill in.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Backfill {
    /// From this time of RFC 3339 on.
    pub from: String,
    /// Until this time, which is over.
    pub until: String,
    /// Says what would be started, and starts nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// A due time of a backfill.
#[derive(Debug, Serialize, ToSchema)]
pub struct BackfillItem {
    /// The due time.
    pub due: String,
    /// The id of its run.
    pub run: String,
    /// Whether there was no such run: it is queued, or would be.
    pub missing: bool,
}

/// Starts the runs of due times that have passed and have none.
///
/// The ids of the runs are those that the due times have anyway, so this fills holes only, and the
/// same request again starts nothing twice. When this answers, the runs are queued durably. They
/// start one after another, or all at once if the schedule's overlap is `allow`.
#[utoipa::path(post, path = "/v1/schedules/{name}/backfill", tag = "schedules", params(("name" = String, Path)),
    request_body = Backfill,
    responses((status = 200, body = Vec<BackfillItem>, description = "What would be started"),
        (status = 202, body = Vec<BackfillItem>, description = "What is queued"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn backfill(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
    JsonBody(body): JsonBody<Backfill>,
) -> Answered<Response> {
    let time = |key: &str, text: &str| query::time(key, Some(text)).map(Option::unwrap_or_default);
    let (from, until) = (time("/from", &body.from)?, time("/until", &body.until)?);
    let now = system_time();
    if until < from || until > now {
        let message = "it is not before `from`, and not in the future";
        return Err(ServeProblem::new(ProblemKind::DoesNotFit).part("/until", message));
    }
    service
        .with_store(move |service| {
            let (_, table) = read(&found(service, &caller, &name)?)?;
            let mut dues = Vec::new();
            let mut at = Timestamp(from.0.saturating_sub(1));
            while let Some(due) = table.next(at).filter(|due| *due <= until) {
                if dues.len() == BACKFILL_MAX {
                    let message = format!("there are more than {BACKFILL_MAX} due times in this range");
                    return Err(ServeProblem::new(ProblemKind::DoesNotFit).part("/until", message));
                }
                dues.push(due);
                at = due;
            }
            let (mut items, mut queued) = (Vec::new(), Vec::new());
            for due in dues {
                let run = run_id(&name, due);
                let is_queued =
                    service.store.firing(&name, due)?.is_some_and(|firing| firing.outcome == outcome::QUEUED);
                let missing = !is_queued && service.store.run(&run)?.is_none();
                items.push(BackfillItem { due: rfc3339(due), run: run.clone(), missing });
                if missing {
                    let reason = Some(format!("{BACKFILL} by {}", caller.name()));
                    let outcome = outcome::QUEUED.to_owned();
                    queued.push(Firing { due, at: now, outcome, run: Some(run), reason });
                }
            }
            if body.dry_run {
                return Ok((StatusCode::OK, Json(items)).into_response());
            }
            service.store.note_firings(&name, &queued, None, FIRINGS_MAX)?;
            service.schedules.wake();
            let detail =
                serde_json::json!({ "from": body.from, "until": body.until, "runs": queued.len() }).to_string();
            service.note(&caller, "schedules.backfill", &name, Some(detail))?;
            Ok((StatusCode::ACCEPTED, Json(items)).into_response())
        })
        .await
}
