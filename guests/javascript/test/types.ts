// What the types must accept, and what they must refuse. `tsc` checks it; it never runs.
import type { Child, Context, Entry, Message } from "wfhost";
import { Problem, call, map, now, race, receive, send, sleep, within } from "wfhost";
import { later, run, start } from "wfhost/testing";

const price = async (ctx: Context, item: { id: number }) => item.id * 2;
const typed: Entry<{ id: number }, number> = price;

export async function accepted(ctx: Context) {
  const child: Child<number> = ctx.spawn(price, { id: 1 });
  const number: number = await child;
  const texts: string[] = await map(2, [1, 2], async (n, index) => `${n + index}`);
  const message: Message = await receive({ topic: "word", sender: child, timeout: "5s" });
  const reply = send(message.sender, "reply", number);
  const kind: string | undefined = reply.refusal?.kind;
  const sent = send("ear", "word", [1]);
  await sleep("1h");
  if (sent.refusal) throw sent.refusal;
  await within(100, race([call("echo"), sleep(10)]));
  const time: number = now();
  return { texts, kind, time, typed };
}

export async function refused(ctx: Context) {
  // @ts-expect-error: the input is another one
  ctx.spawn(price, { id: "one" });
  // @ts-expect-error: a child of it gives a number
  const text: string = await ctx.spawn(price, { id: 1 });
  // @ts-expect-error: there is no such level
  ctx.log("text", {}, "loud");
  // @ts-expect-error: a duration is no object
  await ctx.sleep({ seconds: 1 });
  // @ts-expect-error: a problem has no such class
  throw new Problem("kind", "Title", { class: "sometimes" });
}

export async function tested() {
  const order = await start(new URL("./order.js", "file:///"), "run", {}, { handlers: { price: () => later("1s", 1) }, signals: { go: [1] } });
  await (await order.advance("1h")).signal("go", 1);
  const level: "trace" | "debug" | "info" | "warn" | "error" = order.logs[0].level;
  // @ts-expect-error: a signal has a list of bodies
  await run("file:///order.js", "run", null, { signals: { go: 1 } });
  return level;
}
