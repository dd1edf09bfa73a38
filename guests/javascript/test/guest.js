// Entries for testing.test.js.
import * as wfhost from "wfhost";

let count = 0;

export async function sleeps(ctx, time) {
  const before = ctx.now();
  await ctx.sleep(time);
  return { slept: ctx.now() - before };
}

export const races = (ctx) => ctx.race([ctx.call("slow"), ctx.call("fast")]);

export async function cleans(ctx) {
  try {
    await ctx.call("slow");
  } finally {
    await ctx.call("undo");
    ctx.log("cleaned up");
  }
}

export async function hears(ctx) {
  await ctx.register("ear");
  const heard = [];
  while (heard.length < 2) {
    const { sender, body } = await ctx.receive("word");
    heard.push([sender.outside, body]);
  }
  return heard;
}

export const counts = (ctx, n) => Promise.all(Array.from({ length: n }, () => ctx.spawn(counted)));
export const counted = () => ++count;

export const draws = (ctx) => [...ctx.random(40), ...ctx.random(8)];

export async function forgets(ctx) {
  (async () => { throw new TypeError("forgotten"); })();
  await ctx.sleep("1h");
}

export function throws() {
  throw new RangeError("too far");
}

export const large = () => JSON.stringify({ n: 9007199254740993n });

export const exported = (ctx) => ({ names: Object.keys(wfhost), context: Object.keys(ctx) });

export function callsAndEnds(ctx) {
  ctx.call("price", { id: 1 });
  const awaited = ctx.call("price", { id: 2 });
  return awaited.then(() => { ctx.call("price", { id: 3 }); return 1; });
}
export const returnsPromise = (ctx) => ({ r: ctx.sleep(1) });
export const callsWithPromise = (ctx) => ctx.call("price", { id: ctx.sleep(1) });
