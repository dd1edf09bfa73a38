//! Every route, with the scope that it needs.

use super::access::{Scope, guard};
use super::api::{
    acts, batches, blobs, checks, components, deploy, events, host, host_trace, inbox, jobs, links, metrics, outcome,
    parts, problems, replay, reruns, run_lists, runs, schedule_acts, schedules, sessions, timeline, tokens, upgrades,
    webhooks, workflows,
};
use super::hook::receive;
use super::problem::{ProblemKind, ServeProblem};
use super::service::Service;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use tracing::Instrument as _;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

/// What a route asks of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// A token with this scope.
    Scope(Scope),
    /// Nothing: it says nothing about runs, or proves the caller's right by itself.
    Nothing,
}

/// Collects routes. There is no way to add one without saying what it needs.
struct Routes {
    service: Arc<Service>,
    router: OpenApiRouter<Arc<Service>>,
    table: NeedsTable,
}

impl Routes {
    fn add(mut self, needs: Needs, (schemas, mut paths, methods): UtoipaMethodRouter<Arc<Service>>) -> Self {
        for (path, item) in &mut paths.paths {
            let operations = [
                ("GET", &mut item.get),
                ("PUT", &mut item.put),
                ("POST", &mut item.post),
                ("DELETE", &mut item.delete),
                ("HEAD", &mut item.head),
            ];
            for (method, operation) in operations {
                let Some(operation) = operation else { continue };
                self.table.push((method.to_owned(), path.clone(), needs));
                if let Needs::Scope(scope) = needs {
                    let requirement = SecurityRequirement::new("token", [scope.word()]);
                    operation.security.get_or_insert_default().push(requirement);
                }
            }
        }
        let service = Arc::clone(&self.service);
        let methods: MethodRouter<Arc<Service>> = match needs {
            Needs::Scope(scope) => methods.layer(from_fn(move |request: Request, next: Next| {
                guard::scoped(Arc::clone(&service), scope, request, next)
            })),
            Needs::Nothing => methods
                .layer(from_fn(move |request: Request, next: Next| guard::open(Arc::clone(&service), request, next))),
        };
        self.router = self.router.routes((schemas, paths, methods));
        self
    }

    fn scope(self, scope: Scope, routes: UtoipaMethodRouter<Arc<Service>>) -> Self {
        self.add(Needs::Scope(scope), routes)
    }
}

/// The document's head.
#[derive(OpenApi)]
#[openapi(info(
    title = "wfhost",
    description = "Runs workflows that survive crashes. Everything that this API answers is read from durable records.",
))]
struct Head;

/// Method, path, and what the route asks of its caller.
type NeedsTable = Vec<(String, String, Needs)>;

fn routes(service: &Arc<Service>) -> (OpenApiRouter<Arc<Service>>, NeedsTable) {
    let start = Routes {
        service: Arc::clone(service),
        router: OpenApiRouter::with_openapi(Head::openapi()),
        table: Vec::new(),
    };
    let all = server_routes(trigger_routes(run_routes(deployed_routes(start))));
    (all.router, all.table)
}

/// Workflows, their versions and components.
fn deployed_routes(routes: Routes) -> Routes {
    use Scope::{Deploy, RunsRead};
    routes
        .scope(RunsRead, routes!(workflows::list))
        .scope(RunsRead, routes!(workflows::show))
        .scope(RunsRead, routes!(workflows::versions))
        .scope(RunsRead, routes!(workflows::version))
        .scope(Deploy, routes!(deploy::deploy))
        .scope(Deploy, routes!(deploy::activate))
        .scope(Deploy, routes!(deploy::remove))
        .scope(Deploy, routes!(checks::create))
        .scope(Deploy, routes!(components::upload))
        .scope(Deploy, routes!(components::show))
}

/// Runs, and acting on them.
fn run_routes(routes: Routes) -> Routes {
    use Scope::{RunsAct, RunsPayloads, RunsRead, RunsResolve, RunsStart};
    routes
        .scope(RunsStart, routes!(runs::start))
        .scope(RunsStart, routes!(blobs::upload))
        .scope(RunsPayloads, routes!(blobs::list))
        .scope(RunsPayloads, routes!(blobs::download))
        .scope(RunsRead, routes!(run_lists::list))
        .scope(RunsRead, routes!(run_lists::count))
        .scope(RunsRead, routes!(runs::show))
        .scope(RunsAct, routes!(runs::remove))
        .scope(RunsRead, routes!(outcome::outcome))
        .scope(RunsPayloads, routes!(events::history))
        .scope(RunsPayloads, routes!(events::logs))
        .scope(RunsPayloads, routes!(events::events))
        .scope(RunsRead, routes!(events::all))
        .scope(RunsPayloads, routes!(events::query))
        .scope(RunsRead, routes!(events::queries))
        .scope(RunsRead, routes!(parts::step))
        .scope(RunsRead, routes!(parts::graph))
        .scope(RunsRead, routes!(parts::at))
        .scope(RunsRead, routes!(parts::snapshots))
        .scope(RunsRead, routes!(timeline::timeline))
        .scope(RunsRead, routes!(timeline::processes))
        .scope(RunsRead, routes!(timeline::process))
        .scope(RunsRead, routes!(timeline::causes))
        .scope(RunsAct, routes!(acts::signal))
        .scope(RunsAct, routes!(acts::cancel))
        .scope(RunsAct, routes!(acts::pause))
        .scope(RunsAct, routes!(acts::resume))
        .scope(RunsResolve, routes!(acts::resolve))
        .scope(RunsAct, routes!(reruns::retry))
        .scope(RunsAct, routes!(reruns::fork))
        .scope(RunsAct, routes!(replay::replay))
        .scope(RunsAct, routes!(upgrades::upgrade))
        .scope(RunsAct, routes!(links::create))
        .scope(RunsAct, routes!(batches::create))
        .scope(RunsRead, routes!(jobs::list))
        .scope(RunsRead, routes!(jobs::show))
        .scope(RunsAct, routes!(jobs::cancel))
}

/// What starts runs by itself, and what waits for a person.
fn trigger_routes(routes: Routes) -> Routes {
    use Scope::{RunsRead, Schedules};
    routes
        .scope(RunsRead, routes!(inbox::list))
        .scope(RunsRead, routes!(webhooks::list))
        .scope(RunsRead, routes!(webhooks::show))
        .scope(RunsRead, routes!(webhooks::deliveries))
        .scope(Schedules, routes!(webhooks::put))
        .scope(Schedules, routes!(webhooks::remove))
        .scope(RunsRead, routes!(schedules::list))
        .scope(RunsRead, routes!(schedules::show))
        .scope(RunsRead, routes!(schedules::next))
        .scope(RunsRead, routes!(schedules::history))
        .scope(Schedules, routes!(schedules::put))
        .scope(Schedules, routes!(schedules::remove))
        .scope(Schedules, routes!(schedule_acts::pause))
        .scope(Schedules, routes!(schedule_acts::resume))
        .scope(Schedules, routes!(schedule_acts::run))
        .scope(Schedules, routes!(schedule_acts::backfill))
}

/// The server itself, and what needs no token.
fn server_routes(routes: Routes) -> Routes {
    use Scope::{Admin, Metrics, RunsRead};
    routes
        .scope(Admin, routes!(tokens::list))
        .scope(Admin, routes!(tokens::create))
        .scope(Admin, routes!(tokens::revoke))
        .scope(Admin, routes!(host::audit))
        .scope(Admin, routes!(host::drain))
        .scope(RunsRead, routes!(host::show))
        .scope(Scope::Admin, routes!(host_trace::trace))
        .scope(Metrics, routes!(metrics::show))
        .add(Needs::Nothing, routes!(sessions::open))
        .add(Needs::Nothing, routes!(sessions::close))
        .add(Needs::Nothing, routes!(host::alive))
        .add(Needs::Nothing, routes!(host::ready))
        .add(Needs::Nothing, routes!(receive::receive))
        .add(Needs::Nothing, routes!(links::show))
        .add(Needs::Nothing, routes!(links::answer))
        .add(Needs::Nothing, routes!(problems::explain))
        .add(Needs::Nothing, routes!(problems::document))
}

/// The API of a service, to be mounted or served.
pub fn router(service: &Arc<Service>) -> axum::Router {
    let (router, _) = routes(service);
    let (router, _) = router.split_for_parts();
    answering(router, service)
}

/// What all routes have around them.
pub(in crate::serve) fn answering(router: axum::Router<Arc<Service>>, service: &Arc<Service>) -> axum::Router {
    let counted = Arc::clone(service);
    router
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn(finish))
        .layer(from_fn(move |request: Request, next: Next| super::metrics::count(Arc::clone(&counted), request, next)))
        .with_state(Arc::clone(service))
}

/// The API's document: OpenAPI 3.1.
pub fn document(service: &Arc<Service>) -> Document {
    let (router, _) = routes(service);
    let (_, mut document) = router.split_for_parts();
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(token));
    document
}

/// What each route needs: method, path, need.
pub fn table(service: &Arc<Service>) -> NeedsTable {
    routes(service).1
}

async fn unknown(request: Request) -> ServeProblem {
    ServeProblem::unknown(format_args!("route `{}`", request.uri().path()))
        .hint("`GET /v1/openapi.json` has all routes")
}

async fn not_allowed() -> ServeProblem {
    ServeProblem::new(ProblemKind::MethodNotAllowed)
}

/// The answer; that of a request which ends by a panic is a problem. Others of its connection go
/// on.
async fn unharmed(answer: impl Future<Output = Response>) -> Response {
    let mut answer = std::pin::pin!(answer);
    // What it shares with others is behind locks that a panic opens again.
    let caught = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    });
    caught.await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(panic = text, "a request ended by a defect");
        ServeProblem::new(ProblemKind::HostFault).into_response()
    })
}

/// Names the request in its answer, and says how answers may be kept and used.
async fn finish(request: Request, next: Next) -> Response {
    let id = super::server::request_id();
    let is_api = request.uri().path().starts_with("/v1");
    let span = tracing::info_span!("request", "request-id" = %id, token = tracing::field::Empty);
    let mut response = match guard::check_header(&request) {
        Ok(()) => unharmed(next.run(request)).instrument(span).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(mut problem) = response.extensions_mut().remove::<ServeProblem>() {
        let kept: Vec<_> = [header::ALLOW, header::CONTENT_RANGE]
            .into_iter()
            .filter_map(|name| Some((name.clone(), response.headers().get(name)?.clone())))
            .collect();
        problem.request_id = Some(id.clone());
        response = problem.into_response();
        response.headers_mut().extend(kept.into_iter().map(|(name, value)| (Some(name), value)));
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert("x-request-id", id);
    }
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    // A page with a form has its own.
    if !headers.contains_key(header::REFERRER_POLICY) {
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    }
    if is_api && !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
