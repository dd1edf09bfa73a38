//! An order: the prices of all items at once, their total, an approval.
use std::time::Duration;
use wfhost_guest::{Ctx, Level, Problem, json, serde_json::Value, try_join_all};

#[derive(serde::Deserialize)]
struct Order {
    ids: Vec<u64>,
}
async fn run(ctx: Ctx, order: Order) -> Result<Value, Problem> {
    let calls = order.ids.iter().map(|id| ctx.call::<u64>("price", json!({ "id": id })));
    let prices = try_join_all(calls).await?;
    ctx.sleep(Duration::from_millis(10)).await?;
    let total: u64 = ctx.spawn("total", prices).await?;
    ctx.log(Level::Info, &format!("total is {total}"));
    Ok(json!({ "total": total, "by": ctx.signal::<Value>("approve").await?["by"] }))
}
async fn total(_: Ctx, prices: Vec<u64>) -> Result<u64, Problem> {
    Ok(prices.iter().sum())
}
wfhost_guest::export! { "run" => run, "total" => total }
