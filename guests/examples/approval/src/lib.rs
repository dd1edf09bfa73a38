//! Waits for people: for a number of signals with one name, each within a time limit.

use std::time::Duration;

use serde::Deserialize;
use wfhost_guest::{Ctx, Problem, serde_json::Value};

#[derive(Deserialize)]
struct Input {
    signal: String,
    count: u32,
    /// The limit for each of them; without it, there is none.
    timeout_ms: Option<u64>,
}

/// Returns what the signals carried, in order.
async fn run(ctx: Ctx, input: Input) -> Result<Vec<Value>, Problem> {
    let mut heard = Vec::new();
    for _ in 0..input.count {
        let mut signal = ctx.signal(&input.signal);
        if let Some(timeout) = input.timeout_ms {
            signal = signal.timeout(Duration::from_millis(timeout));
        }
        heard.push(signal.await?);
    }
    Ok(heard)
}

wfhost_guest::export! { "run" => run }
