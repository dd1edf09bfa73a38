//! The conformance suite in Rust. `../README.md` says what each entry does.

mod calls;
mod children;
mod messages;

use std::time::Duration;

use serde::Deserialize;
use wfhost_guest::serde_json::{Value, json};
use wfhost_guest::{Bytes, Ctx, Ignored, Level, Problem, join_all};

#[derive(Clone, Copy, Deserialize)]
pub(crate) struct Ms {
    ms: u64,
}

impl Ms {
    pub(crate) fn duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

async fn echo(_: Ctx, input: Value) -> Result<Value, Problem> {
    Ok(input)
}

async fn clock(ctx: Ctx, ms: Ms) -> Result<Value, Problem> {
    let (before, again) = (ctx.now(), ctx.now());
    ctx.sleep(ms.duration()).await?;
    let waited = ctx.now().checked_sub(before).is_some_and(|passed| passed >= ms.duration());
    Ok(json!({ "still": before == again, "waited": waited, "recent": before.as_secs() > 1_735_689_600 }))
}

async fn sleeps(ctx: Ctx, all: Vec<u64>) -> Result<Vec<usize>, Problem> {
    let ends = std::cell::RefCell::new(Vec::new());
    let sleep = async |index, ms| {
        let slept = ctx.sleep(Duration::from_millis(ms)).await;
        ends.borrow_mut().push(index);
        slept
    };
    for slept in join_all(all.into_iter().enumerate().map(|(index, ms)| sleep(index, ms))).await {
        slept?;
    }
    Ok(ends.into_inner())
}

async fn twice(_: Ctx, n: i64) -> Result<i64, Problem> {
    Ok(2 * n)
}

async fn own(_: Ctx, _: Ignored) -> Result<(), Problem> {
    let problem = Problem::retryable("out-of-stock", "Sold out").detail("sku a1");
    let problem = problem.data(&json!({ "sku": "a1", "left": 0 }));
    Err(Problem { status: 409, retry_after: Some(250_000), ..problem })
}

async fn crash(ctx: Ctx, _: Ignored) -> Result<(), Problem> {
    ctx.sleep(Duration::from_millis(1)).await?;
    fails();
    Ok(())
}

fn fails() {
    panic!("no good");
}

async fn progress(ctx: Ctx, _: Ignored) -> Result<&'static str, Problem> {
    ctx.expose("progress", json!({ "done": 0 }))?;
    let _: Value = ctx.signal("go").await?;
    ctx.expose("progress", json!({ "done": 1 }))?;
    let _: Value = ctx.signal("end").await?;
    Ok("ok")
}

async fn logs(ctx: Ctx, _: Ignored) -> Result<(), Problem> {
    for level in [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error] {
        ctx.log_with(level, "a line", &json!({ "n": 1 }))?;
    }
    Ok(())
}

async fn random(ctx: Ctx, _: Ignored) -> Result<Value, Problem> {
    let (one, other) = (ctx.random::<16>(), ctx.random::<16>());
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    ctx.call::<()>("note", [hex(&one), hex(&other)]).await?;
    Ok(json!({ "length": one.len(), "differ": one != other }))
}

#[derive(Deserialize)]
struct Renewed {
    left: u32,
    seen: Vec<u32>,
}

async fn renew(ctx: Ctx, mut state: Renewed) -> Result<Vec<u32>, Problem> {
    ctx.sleep(Duration::from_millis(1)).await?;
    if state.left == 0 {
        return Ok(state.seen);
    }
    state.seen.push(state.left);
    ctx.renew("renew", json!({ "left": state.left - 1, "seen": state.seen })).await
}

async fn never(_: Ctx, _: Ignored) -> Result<(), Problem> {
    std::future::pending().await
}

#[derive(Deserialize)]
struct Depth {
    depth: usize,
}

async fn nested(_: Ctx, of: Depth) -> Result<Value, Problem> {
    Ok((1..of.depth).fold(json!([]), |inner, _| json!([inner])))
}

async fn reverse(ctx: Ctx, _: Ignored) -> Result<Bytes, Problem> {
    let mut bytes: Bytes = ctx.call("bytes", ()).await?;
    bytes.0.reverse();
    ctx.spawn("pass", bytes).await
}

async fn pass(_: Ctx, bytes: Bytes) -> Result<Bytes, Problem> {
    Ok(bytes)
}

wfhost_guest::export! {
    "echo" => echo, "clock" => clock, "sleeps" => sleeps, "twice" => twice, "own" => own, "crash" => crash,
    "progress" => progress, "logs" => logs, "random" => random, "renew" => renew, "never" => never,
    "nested" => nested, "reverse" => reverse, "pass" => pass,
    "call" => calls::call, "caught" => calls::caught, "parallel" => calls::parallel, "settle" => calls::settle,
    "limited" => calls::limited, "loop" => calls::in_sequence, "race" => calls::race, "revoke" => calls::revoke,
    "first" => calls::first, "signal" => calls::signal,
    "child" => children::child, "children" => children::children, "fib" => children::fib, "stop" => children::stop,
    "cleanup" => children::cleanup, "stubborn" => children::stubborn, "deaf" => children::deaf,
    "waits" => children::waits, "outlive" => children::outlive, "leaves" => children::leaves,
    "late" => children::late, "linked" => children::linked, "monitor" => children::monitor,
    "deadline" => children::deadline,
    "names" => messages::names, "namesake" => messages::namesake, "nowhere" => messages::nowhere,
    "inbox" => messages::inbox, "talker" => messages::talker, "from" => messages::from,
    "speaker" => messages::speaker, "patience" => messages::patience, "pingpong" => messages::pingpong,
    "ponger" => messages::ponger, "mailbox" => messages::mailbox,
}
