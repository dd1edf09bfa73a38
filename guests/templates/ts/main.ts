// A step of a workflow: what it exports are its entries, and `run` is the one that a step takes.
// `ctx` reaches the world: ctx.call("http", …), ctx.sleep(…), ctx.signal(…), ctx.spawn(…).
import { Problem, type Context } from "wfhost";

interface Person {
  name: string;
}

/** Greets somebody after a moment. */
export async function run(ctx: Context, { name }: Person) {
  if (!name) throw new Problem("no-name", "There is nobody to greet");
  await ctx.sleep("10ms");
  return { greeting: `Hello, ${name}!` };
}
