//! Messages and names.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wfhost_guest::serde_json::{Value, json};
use wfhost_guest::{Ctx, Ignored, Problem, Sender, Target};

use crate::Ms;

fn parent() -> Target {
    Target::Name("parent".into())
}

pub(crate) async fn names(ctx: Ctx, _: Ignored) -> Result<Value, Problem> {
    ctx.register("parent").await?;
    let taken: Value = ctx.spawn("namesake", ()).await?;
    let hello: Value = ctx.receive().topic("hello").await.parse()?;
    Ok(json!({ "taken": taken, "hello": hello }))
}

pub(crate) async fn namesake(ctx: Ctx, _: Ignored) -> Result<Option<String>, Problem> {
    let refusal = ctx.register("parent").await.err();
    ctx.send(parent(), "hello", 1)?;
    Ok(refusal.map(|problem| problem.kind))
}

pub(crate) async fn nowhere(ctx: Ctx, _: Ignored) -> Result<Option<String>, Problem> {
    let mut sent = ctx.send(Target::Name("nobody".into()), "hello", ())?;
    ctx.sleep(Duration::from_millis(20)).await?;
    Ok(sent.refusal().map(|problem| problem.kind))
}

pub(crate) async fn inbox(ctx: Ctx, _: Ignored) -> Result<Vec<u32>, Problem> {
    ctx.register("parent").await?;
    ctx.spawn::<()>("talker", ()).await?;
    let mut bodies = Vec::new();
    for _ in 0..2 {
        bodies.push(ctx.receive().topic("b").await.parse()?);
    }
    for _ in 0..4 {
        bodies.push(ctx.receive().await.parse()?);
    }
    Ok(bodies)
}

pub(crate) async fn talker(ctx: Ctx, _: Ignored) -> Result<(), Problem> {
    for (topic, body) in [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6)] {
        ctx.send(parent(), topic, body)?;
    }
    Ok(())
}

pub(crate) async fn from(ctx: Ctx, _: Ignored) -> Result<[String; 2], Problem> {
    ctx.register("parent").await?;
    let x = ctx.spawn::<()>("speaker", "x").start()?;
    let y = ctx.spawn::<()>("speaker", "y").start()?;
    let second = ctx.receive().sender(y.sender()).await.parse()?;
    let first = ctx.receive().sender(x.sender()).await.parse()?;
    Ok([second, first])
}

pub(crate) async fn speaker(ctx: Ctx, text: String) -> Result<(), Problem> {
    ctx.send(parent(), "said", text)?;
    Ok(())
}

pub(crate) async fn patience(ctx: Ctx, ms: Ms) -> Result<Value, Problem> {
    let message = ctx.timeout(ms.duration(), ctx.receive().topic("none")).await.ok();
    let got: Option<Value> = message.map(|message| message.parse()).transpose()?;
    Ok(json!({ "got": got }))
}

#[derive(Clone, Copy, Deserialize, Serialize)]
pub(crate) struct Rounds {
    rounds: u32,
}

pub(crate) async fn pingpong(ctx: Ctx, input: Rounds) -> Result<u32, Problem> {
    let child = ctx.spawn::<()>("ponger", input).start()?;
    let mut number = 0;
    for _ in 0..input.rounds {
        child.send("ping", number)?;
        number = ctx.receive().topic("pong").await.parse()?;
    }
    Ok(number)
}

pub(crate) async fn ponger(ctx: Ctx, input: Rounds) -> Result<(), Problem> {
    for _ in 0..input.rounds {
        let ping = ctx.receive().topic("ping").await;
        let number: u32 = ping.parse()?;
        if let Sender::Process(pid) = ping.sender {
            ctx.send(Target::Process(pid), "pong", number + 1)?;
        }
    }
    Ok(())
}

pub(crate) async fn mailbox(ctx: Ctx, _: Ignored) -> Result<Value, Problem> {
    ctx.register("mailbox").await?;
    let message = ctx.receive().topic("wfhost.signal").await;
    let body: Value = message.parse()?;
    match message.sender {
        Sender::Outside(name) => Ok(json!({ "from": name, "body": body })),
        _ => Err(Problem::new("not-outside", "The message is not from outside")),
    }
}
