//! Fork and join: a Fibonacci number by spawning itself, two children for each number above 2.

use serde::{Deserialize, Serialize};
use wfhost_guest::{Ctx, Problem, join};

#[derive(Deserialize, Serialize)]
struct Input {
    n: u32,
}

async fn run(ctx: Ctx, input: Input) -> Result<u64, Problem> {
    if input.n <= 2 {
        return Ok(u64::from(input.n.min(1)));
    }
    let fib = |n| ctx.spawn::<u64>("run", Input { n });
    let (a, b) = join(fib(input.n - 1), fib(input.n - 2)).await;
    Ok(a? + b?)
}

wfhost_guest::export! { "run" => run }
