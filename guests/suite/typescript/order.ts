// An order: the prices of all items at once, their total, an approval.
import type { Context } from "wfhost";

export async function run(ctx: Context, { ids }: { ids: number[] }) {
  const prices: number[] = await Promise.all(ids.map((id) => ctx.call("price", { id })));
  await ctx.sleep(10);
  const sum: number = await ctx.spawn(total, prices);
  ctx.log(`total is ${sum}`);
  const { by }: { by: string } = await ctx.signal("approve");
  return { total: sum, by };
}

export const total = (ctx: Context, prices: number[]) => prices.reduce((sum, price) => sum + price, 0);
