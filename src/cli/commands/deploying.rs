//! Sending workflows to a server, with their components: for `deploy`, `run`, `retry` and `fork`.

use crate::cli::args::http::{Ask, Body, Refused, Server};
use crate::cli::report::error::{UserError, kind};
use crate::host::Workflow;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of a component that a server takes.
const COMPONENT_BYTES_MAX: usize = 64 << 20;

/// How a version is deployed.
#[derive(Default)]
pub(in crate::cli) struct Deployment<'a> {
    pub(in crate::cli) activate: bool,
    pub(in crate::cli) expect_active: Option<u64>,
    pub(in crate::cli) note: Option<&'a str>,
    pub(in crate::cli) dry_run: bool,
}

/// Sends a workflow, with the components that the server does not have. Returns whether it is new,
/// and the version.
pub(in crate::cli) fn send(
    server: &Server,
    workflow: &Workflow,
    how: &Deployment<'_>,
) -> Result<(bool, Value), UserError> {
    let source = workflow.source();
    let name = Path::new(source.name()).file_name().map(|name| name.to_string_lossy().into_owned());
    let components: BTreeMap<&str, &str> =
        workflow.component_files().map(|(source, digest, _)| (source, digest)).collect();
    let mut body = json!({
        "file": name.unwrap_or_else(|| source.name().to_owned()),
        "source": source.text(),
        "components": components,
        "activate": how.activate && !how.dry_run,
    });
    if let Some(expected) = how.expect_active {
        body["expect-active"] = json!(expected);
    }
    if let Some(note) = how.note {
        body["note"] = json!(note);
    }
    let query = [("dry-run", how.dry_run.to_string())];
    let ask = || server.ask(Ask::post(&["workflows"], &body).query(&query));
    let answer = match ask() {
        Err(Refused::Problem(problem)) if problem.kind == "missing-components" => {
            let missing = problem.value["missing"].as_array().into_iter().flatten();
            for digest in missing.filter_map(Value::as_str) {
                upload(server, workflow, digest)?;
            }
            ask()
        }
        answer => answer,
    };
    let (status, version) = answer.map_err(UserError::from)?;
    Ok((status == StatusCode::CREATED, version))
}

/// Sends a component.
fn upload(server: &Server, workflow: &Workflow, digest: &str) -> Result<(), UserError> {
    let found = workflow.component_files().find(|(_, hash, _)| *hash == digest);
    let Some((source, _, Some(bytes))) = found else {
        return Err(UserError::new(kind::HOST_FAULT, format!("the server asks for an unknown component {digest}")));
    };
    if bytes.len() > COMPONENT_BYTES_MAX {
        let most = COMPONENT_BYTES_MAX >> 20;
        let title = format!("`{source}` is too large for a server: {} bytes; the limit is {most} MiB", bytes.len());
        return Err(UserError::new(kind::USAGE, title).hint("a release build without debug symbols is smaller"));
    }
    store(server, bytes)
}

/// Stores the bytes of a component on a server.
pub(in crate::cli) fn store(server: &Server, bytes: &Bytes) -> Result<(), UserError> {
    let (path, body) = (["components"], Body::Component(bytes));
    let ask = Ask { method: Method::POST, path: &path, query: &[], body, key: None };
    server.ask(ask).map(drop).map_err(UserError::from)
}
