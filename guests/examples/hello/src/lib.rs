//! Greets.

use serde::{Deserialize, Serialize};
use wfhost_guest::{Ctx, Problem};

#[derive(Deserialize)]
struct Input {
    name: String,
}

#[derive(Serialize)]
struct Output {
    greeting: String,
}

async fn run(_ctx: Ctx, input: Input) -> Result<Output, Problem> {
    Ok(Output { greeting: format!("Hello, {}!", input.name) })
}

wfhost_guest::export! { "run" => run }
