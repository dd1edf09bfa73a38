//! Lists of runs, and how many fit.

use super::runs::LABELS_MAX;
use crate::journal::{Filter, Stored};
use crate::process::Timestamp;
use crate::run::EndStatus;
use crate::serve::access::Caller;
use crate::serve::body::Params;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query;
use crate::serve::service::Service;
use crate::serve::view::RunView;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Which runs are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// `unfinished`, `queued`, `ended`, `damaged`, `succeeded`, `failed`, `cancelled` or
    /// `timed-out`.
    pub state: Option<String>,
    /// The name of the workflow.
    pub workflow: Option<String>,
    /// The number of a version of that workflow.
    #[param(minimum = 1)]
    pub version: Option<u64>,
    /// A label, as `key=value`; several are separated by commas.
    pub label: Option<String>,
    /// What the id begins with.
    pub q: Option<String>,
    /// Created at this time of RFC 3339 or later.
    pub created_after: Option<String>,
    /// Created before this time.
    pub created_before: Option<String>,
    /// Runs of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

/// A page of runs, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunView>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Lists runs, the newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(ListParams),
    responses((status = 200, body = RunPage),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Answered<Json<RunPage>> {
    let limit = query::limit(params.limit)?;
    let (mut filter, digest) = filter(&params)?;
    let last = query::last_run(params.cursor.as_deref(), &digest)?;
    caller.workflows().clone_into(&mut filter.workflows);
    service
        .with_store(move |service| {
            of_version(service, &caller, &params, &mut filter)?;
            filter.after = last.map(|last| last.place(service)).transpose()?;
            filter.limit = Some(limit + 1);
            let found = service.store.list(&filter)?;
            let page = &found[..found.len().min(limit as usize)];
            let next = page.last().filter(|_| found.len() > page.len()).map(|last| query::cursor(last, &digest));
            let run = |stored: &Stored| service.run_view(stored, service.manifest(&stored.id).as_ref());
            Ok(Json(RunPage { runs: page.iter().map(run).collect(), next }))
        })
        .await
}

/// Runs that are counted: beyond, to count them would take as long as to read them.
const COUNT_MAX: u32 = 10_000;

/// How many runs there are.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunCount {
    /// Their number, at most 10,000.
    pub count: u64,
    /// There are more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Counts runs, up to 10,000.
#[utoipa::path(get, path = "/v1/runs/count", tag = "runs", params(ListParams),
    responses((status = 200, body = RunCount),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn count(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Answered<Json<RunCount>> {
    let (mut filter, _) = filter(&params)?;
    query::limit(params.limit)?;
    if !caller.may_touch_all() {
        match &filter.name {
            Some(name) => caller.check_workflow(name)?,
            None => {
                return Err(ServeProblem::new(ProblemKind::NotGranted)
                    .detail("the token is for some workflows: count those of one, with `workflow`"));
            }
        }
    }
    service
        .with_store(move |service| {
            of_version(service, &caller, &params, &mut filter)?;
            filter.limit = Some(COUNT_MAX + 1);
            let count = service.store.count(&filter)?;
            let at_least = count > u64::from(COUNT_MAX);
            Ok(Json(RunCount { count: count.min(COUNT_MAX.into()), at_least }))
        })
        .await
}

/// Adds the version that is asked for to the filter of a list.
pub(super) fn of_version(service: &Service, caller: &Caller, params: &ListParams, filter: &mut Filter) -> Answered<()> {
    let Some(number) = query::number("version", params.version)? else { return Ok(()) };
    let name = params.workflow.as_deref().ok_or_else(|| query::unfit("version", "it needs `workflow`"))?;
    let version = if caller.may_touch(name) { service.store.version(name, number)? } else { None };
    let version = version.ok_or_else(|| ServeProblem::unknown(format_args!("version {number} of `{name}`")))?;
    filter.version = Some(version.row);
    Ok(())
}

/// The filter of a list but for its version, and a text that differs for each.
pub(super) fn filter(params: &ListParams) -> Answered<(Filter, String)> {
    let mut filter = Filter {
        name: params.workflow.clone(),
        id_prefix: params.q.clone(),
        created_min: query::time("created-after", params.created_after.as_deref())?,
        created_before: query::time("created-before", params.created_before.as_deref())?,
        ..Filter::default()
    };
    match params.state.as_deref() {
        None => {}
        Some("unfinished") => filter.ended = Some(false),
        Some("queued") => filter.queued = true,
        Some("ended") => filter.ended = Some(true),
        Some("damaged") => filter.damaged = true,
        Some(word) => match EndStatus::named(word) {
            Some(status) => filter.status = Some(status),
            None => {
                let states = "it is unfinished, queued, ended, damaged, succeeded, failed, cancelled or timed-out";
                let problem = ServeProblem::new(ProblemKind::DoesNotFit).part("state", states);
                return Err(match word {
                    "running" | "waiting" | "paused" => problem.hint(
                        "what a run does changes with each step: `unfinished` lists those that may do it, and \
                         `GET /v1/inbox` those that wait for a person",
                    ),
                    _ => problem,
                });
            }
        },
    }
    for label in params.label.iter().flat_map(|labels| labels.split(',')) {
        let (key, value) = label
            .split_once('=')
            .ok_or_else(|| ServeProblem::new(ProblemKind::DoesNotFit).part("label", "it is `key=value`"))?;
        if filter.labels.len() == LABELS_MAX.0 {
            return Err(query::unfit("label", format!("at most {} at one time", LABELS_MAX.0)));
        }
        filter.labels.push((key.to_owned(), value.to_owned()));
    }
    let time = |at: Option<Timestamp>| at.map(|at| at.0);
    let digest = format!(
        "{:?}",
        (
            &params.state,
            &params.workflow,
            &params.version,
            &params.label,
            &params.q,
            time(filter.created_min),
            time(filter.created_before)
        )
    );
    Ok((filter, digest))
}
