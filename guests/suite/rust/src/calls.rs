//! Calls, races and signals.

use std::cell::RefCell;
use std::time::Duration;

use serde::Deserialize;
use wfhost_guest::serde_json::{self, Value, json};
use wfhost_guest::{Ctx, Either, Ignored, Problem, ProblemClass, join_all, select, select_all, try_join_all, try_map};

use crate::Ms;

#[derive(Deserialize)]
pub(crate) struct Call {
    handler: String,
    args: Value,
    timeout: Option<u64>,
    key: Option<String>,
}

impl Call {
    fn of(self, ctx: &Ctx) -> wfhost_guest::Call<Value> {
        let mut call = ctx.call(&self.handler, self.args);
        if let Some(ms) = self.timeout {
            call = call.timeout(Duration::from_millis(ms));
        }
        match self.key {
            Some(key) => call.idempotency_key(&key),
            None => call,
        }
    }
}

pub(crate) async fn call(ctx: Ctx, call: Call) -> Result<Value, Problem> {
    call.of(&ctx).await
}

pub(crate) async fn caught(ctx: Ctx, call: Call) -> Result<Value, Problem> {
    let problem = match call.of(&ctx).await {
        Ok(answer) => return Ok(json!({ "answer": answer })),
        Err(problem) => problem,
    };
    let class = match problem.class {
        ProblemClass::Definite => "definite",
        ProblemClass::Retryable => "retryable",
        ProblemClass::Uncertain => "uncertain",
    };
    Ok(json!({
        "kind": problem.kind,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "class": class,
        "retry": problem.retry_after.map(|micros| micros / 1_000),
        "data": problem.data.map(|data| serde_json::from_str::<Value>(&data)).transpose()?,
    }))
}

pub(crate) async fn parallel(ctx: Ctx, calls: Vec<Call>) -> Result<Value, Problem> {
    let finished = RefCell::new(Vec::new());
    let calls = calls.into_iter().enumerate().map(|(index, call)| {
        let answer = call.of(&ctx).start();
        let finished = &finished;
        async move {
            let answer = answer.await?;
            finished.borrow_mut().push(index);
            Ok::<_, Problem>(answer)
        }
    });
    let outputs = try_join_all(calls).await?;
    Ok(json!({ "outputs": outputs, "finished": finished.into_inner() }))
}

pub(crate) async fn settle(ctx: Ctx, calls: Vec<Call>) -> Result<Vec<Value>, Problem> {
    let answers = join_all(calls.into_iter().map(|call| call.of(&ctx))).await;
    let settled = |answer: Result<Value, Problem>| match answer {
        Ok(value) => json!({ "value": value }),
        Err(problem) => json!({ "problem": problem.kind }),
    };
    Ok(answers.into_iter().map(settled).collect())
}

#[derive(Deserialize)]
pub(crate) struct Limited {
    limit: usize,
    items: u32,
}

pub(crate) async fn limited(ctx: Ctx, input: Limited) -> Result<Vec<u32>, Problem> {
    try_map(input.limit, 0..input.items, |i| ctx.call("delay", json!({ "ms": 20, "value": i }))).await
}

#[derive(Deserialize)]
pub(crate) struct Loop {
    handler: String,
    n: u64,
}

pub(crate) async fn in_sequence(ctx: Ctx, input: Loop) -> Result<u64, Problem> {
    let mut sum = 0;
    for i in 1..=input.n {
        let answer: Value = ctx.call(&input.handler, json!({ "value": i })).await?;
        sum += answer.get("value").unwrap_or(&answer).as_u64().unwrap_or(0);
    }
    Ok(sum)
}

async fn go(ctx: &Ctx) -> Result<Ignored, Problem> {
    ctx.signal("go").await
}

pub(crate) async fn race(ctx: Ctx, ms: Ms) -> Result<&'static str, Problem> {
    let winner = match select(ctx.sleep(ms.duration()), ctx.call::<Value>("hang", "race")).await {
        Either::Left(_) => "sleep",
        Either::Right(_) => "call",
    };
    go(&ctx).await?;
    Ok(winner)
}

pub(crate) async fn revoke(ctx: Ctx, _: Ignored) -> Result<&'static str, Problem> {
    let call = ctx.call::<Value>("hang", "revoke").start();
    ctx.sleep(Duration::from_millis(20)).await?;
    drop(call);
    go(&ctx).await?;
    Ok("revoked")
}

#[derive(Deserialize)]
pub(crate) struct Names {
    names: Vec<String>,
}

pub(crate) async fn first(ctx: Ctx, Names { names }: Names) -> Result<Value, Problem> {
    let (index, body) = select_all(names.iter().map(|name| ctx.signal::<Value>(name))).await;
    Ok(json!({ "name": names[index], "body": body? }))
}

#[derive(Deserialize)]
pub(crate) struct Signal {
    name: String,
    timeout: Option<u64>,
}

pub(crate) async fn signal(ctx: Ctx, input: Signal) -> Result<Value, Problem> {
    let signal = ctx.signal(&input.name);
    match input.timeout {
        Some(ms) => signal.timeout(Duration::from_millis(ms)).await,
        None => signal.await,
    }
}
