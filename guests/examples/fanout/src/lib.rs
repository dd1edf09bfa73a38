//! Requests many URLs, a few at a time. A failure does not stop the others.

use serde::{Deserialize, Serialize};
use wfhost_guest::{Ctx, Problem, json, serde_json::Value, try_map};

#[derive(Deserialize)]
struct Input {
    urls: Vec<String>,
    #[serde(default = "get")]
    method: String,
    /// The number of requests at a time.
    #[serde(default = "eight")]
    limit: usize,
}

fn get() -> String {
    "GET".to_owned()
}

fn eight() -> usize {
    8
}

#[derive(Serialize)]
struct Output {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    /// The kind of the problem, if there was no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

async fn run(ctx: Ctx, input: Input) -> Result<Vec<Output>, Problem> {
    let method = &input.method;
    try_map(input.limit, input.urls, |url| {
        let call = ctx.call::<Value>("http", json!({ "url": url, "method": method })).start();
        async move {
            Ok(match call.await {
                Ok(mut response) => Output { url, status: Some(response["status"].take()), problem: None },
                Err(problem) => Output { url, status: None, problem: Some(problem.kind) },
            })
        }
    })
    .await
}

wfhost_guest::export! { "run" => run }
