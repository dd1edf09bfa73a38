//! Two generations: many parents, each with children that it waits for. And guests that only wait.
//!
//! - `run` spawns `parents`, and completes with the number of all children that completed.
//! - `parent` does the same with `children`; each child sleeps for `micros` (1,000 by default).
//! - `idle` waits for a message, and completes with its body.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wfhost_guest::{Ctx, Ignored, Payload, Problem, try_join_all};

#[derive(Clone, Copy, Deserialize, Serialize)]
struct Family {
    parents: u32,
    children: u32,
    #[serde(default = "a_millisecond")]
    micros: u64,
}

fn a_millisecond() -> u64 {
    1_000
}

async fn run(ctx: Ctx, family: Family) -> Result<u64, Problem> {
    let home = try_join_all((0..family.parents).map(|_| ctx.spawn::<u64>("parent", family))).await?;
    Ok(home.into_iter().sum())
}

async fn parent(ctx: Ctx, family: Family) -> Result<usize, Problem> {
    let home = try_join_all((0..family.children).map(|_| ctx.spawn::<()>("child", family.micros))).await?;
    Ok(home.len())
}

async fn child(ctx: Ctx, micros: u64) -> Result<(), Problem> {
    ctx.sleep(Duration::from_micros(micros)).await
}

async fn idle(ctx: Ctx, _: Ignored) -> Result<Payload, Problem> {
    Ok(ctx.receive().await.body)
}

wfhost_guest::export! { "run" => run, "parent" => parent, "child" => child, "idle" => idle }
