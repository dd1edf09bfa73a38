// An order: the prices of all items at once, their total, an approval.
export async function run(ctx, { ids }) {
  const prices = await Promise.all(ids.map((id) => ctx.call("price", { id })));
  await ctx.sleep(10);
  const sum = await ctx.spawn(total, prices);
  ctx.log(`total is ${sum}`);
  const { by } = await ctx.signal("approve");
  return { total: sum, by };
}

export const total = (ctx, prices) => prices.reduce((sum, price) => sum + price, 0);
