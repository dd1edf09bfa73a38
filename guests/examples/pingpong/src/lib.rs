//! Two processes that send a ball to and fro.

use serde::Deserialize;
use wfhost_guest::{Ctx, Ignored, OrProblem, Problem, Sender, Target};

#[derive(Deserialize)]
struct Input {
    rounds: u32,
}

/// Serves, and completes with the number of times that the ball came back.
async fn run(ctx: Ctx, input: Input) -> Result<u32, Problem> {
    let pong = ctx.spawn::<u32>("pong", ()).start()?;
    for round in 1..=input.rounds {
        pong.send("ping", round)?;
        let back: u32 = ctx.receive().topic("pong").sender(pong.sender()).await.parse()?;
        (back == round).then_some(()).or_problem("wrong-ball", "Another ball came back")?;
    }
    pong.send("end", ())?;
    pong.join().await
}

/// Sends messages back until it is told to end; completes with their number.
async fn pong(ctx: Ctx, _: Ignored) -> Result<u32, Problem> {
    let mut count = 0;
    loop {
        let ball = ctx.receive().await;
        if ball.topic == "end" {
            return Ok(count);
        }
        let Sender::Process(pid) = ball.sender else { continue };
        ctx.send(Target::Process(pid), "pong", ball.body)?;
        count += 1;
    }
}

wfhost_guest::export! { "run" => run, "pong" => pong }
