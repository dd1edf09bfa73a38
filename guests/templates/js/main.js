// A step of a workflow: what it exports are its entries, and `run` is the one that a step takes.
// `ctx` reaches the world: ctx.call("http", …), ctx.sleep(…), ctx.signal(…), ctx.spawn(…).
import { Problem } from "wfhost";

/** @param {import("wfhost").Context} ctx @param {{ name: string }} person */
export async function run(ctx, { name }) {
  if (!name) throw new Problem("no-name", "There is nobody to greet");
  await ctx.sleep("10ms");
  return { greeting: `Hello, ${name}!` };
}
run.description = "Greets somebody after a moment.";
run.input = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
