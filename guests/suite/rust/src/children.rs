//! Children: spawned, stopped, linked, watched, left alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wfhost_guest::serde_json::{Value, json};
use wfhost_guest::{Cancellation, Ctx, Either, Ending, Ignored, Problem, Target, select, try_join_all};

use crate::Ms;

#[derive(Deserialize)]
pub(crate) struct Child {
    entry: String,
    #[serde(default)]
    input: Value,
    component: Option<String>,
}

pub(crate) async fn child(ctx: Ctx, child: Child) -> Result<Value, Problem> {
    let spawn = ctx.spawn(&child.entry, child.input);
    match child.component {
        Some(name) => spawn.component(&name).await,
        None => spawn.await,
    }
}

#[derive(Deserialize)]
pub(crate) struct Count {
    n: i64,
}

pub(crate) async fn children(ctx: Ctx, count: Count) -> Result<Vec<i64>, Problem> {
    try_join_all((1..=count.n).map(|i| ctx.spawn("twice", i))).await
}

pub(crate) async fn fib(ctx: Ctx, n: i64) -> Result<i64, Problem> {
    if n < 2 {
        return Ok(n);
    }
    Ok(try_join_all([n - 1, n - 2].map(|n| ctx.spawn::<i64>("fib", n))).await?.into_iter().sum())
}

pub(crate) async fn stop(ctx: Ctx, of: Child) -> Result<Value, Problem> {
    ctx.register("parent").await?;
    let child = ctx.spawn::<Value>(&of.entry, ()).start()?;
    ctx.receive().topic("ready").sender(child.sender()).await;
    child.stop();
    Ok(match child.join().await {
        Ok(output) => json!({ "output": output }),
        Err(problem) => json!({ "problem": problem.kind }),
    })
}

/// Says that it is ready, calls a handler that never answers, and returns why it was cancelled.
async fn hangs(ctx: &Ctx, name: &str) -> Result<Cancellation, Problem> {
    ctx.send(Target::Name("parent".into()), "ready", ())?;
    match select(ctx.cancelled(), ctx.call::<Value>("hang", name)).await {
        Either::Left(cancellation) => Ok(cancellation),
        Either::Right(_) => Err(Problem::new("not-cancelled", "It was not cancelled")),
    }
}

pub(crate) async fn cleanup(ctx: Ctx, _: Ignored) -> Result<(), Problem> {
    // Held to the end: else the guest ends as soon as it is cancelled.
    let _cancelled = ctx.cancelled();
    let cancellation = hangs(&ctx, "cleanup").await?;
    ctx.call::<Ignored>("note", "cleanup").await?;
    Err(Problem::new("cancelled", "Cancelled").detail(cancellation.reason))
}

pub(crate) async fn stubborn(ctx: Ctx, _: Ignored) -> Result<&'static str, Problem> {
    hangs(&ctx, "stubborn").await?;
    Ok("completed anyway")
}

pub(crate) async fn deaf(ctx: Ctx, _: Ignored) -> Result<(), Problem> {
    let _cancelled = ctx.cancelled();
    hangs(&ctx, "deaf").await?;
    ctx.call::<Ignored>("note", "deaf").await?;
    ctx.sleep(Duration::from_hours(1)).await
}

pub(crate) async fn waits(ctx: Ctx, _: Ignored) -> Result<Value, Problem> {
    ctx.call("hang", "waits").await
}

#[derive(Clone, Copy, Deserialize, Serialize)]
pub(crate) struct Detached {
    detached: bool,
}

pub(crate) async fn outlive(ctx: Ctx, input: Detached) -> Result<Value, Problem> {
    let output = ctx.spawn("leaves", input).await?;
    let _: Ignored = ctx.signal("go").await?;
    Ok(output)
}

pub(crate) async fn leaves(ctx: Ctx, input: Detached) -> Result<&'static str, Problem> {
    let late = ctx.spawn::<Ignored>("late", ());
    let _late = if input.detached { late.detached().start()? } else { late.start()? };
    ctx.sleep(Duration::from_millis(50)).await?;
    Ok("left")
}

pub(crate) async fn late(ctx: Ctx, _: Ignored) -> Result<(), Problem> {
    ctx.call::<()>("delay", json!({ "ms": 200, "value": null })).await?;
    ctx.call("note", "late").await
}

pub(crate) async fn linked(ctx: Ctx, _: Ignored) -> Result<Value, Problem> {
    let _child = ctx.spawn::<Ignored>("own", ()).linked().start()?;
    ctx.call("hang", "linked").await
}

pub(crate) async fn monitor(ctx: Ctx, of: Child) -> Result<Value, Problem> {
    let child = ctx.spawn::<Ignored>(&of.entry, of.input).start()?;
    Ok(match ctx.monitor(child.target()).await.ending {
        Ending::Completed => json!({ "ending": "completed" }),
        Ending::Failed(problem) => json!({ "ending": "failed", "kind": problem.kind }),
        Ending::Cancelled(_) => json!({ "ending": "cancelled" }),
    })
}

pub(crate) async fn deadline(ctx: Ctx, ms: Ms) -> Result<&'static str, Problem> {
    let ended = ctx.timeout(ms.duration(), ctx.spawn::<Ignored>("waits", ())).await;
    let _: Ignored = ctx.signal("go").await?;
    Ok(if ended.is_ok() { "ended" } else { "timed out" })
}
