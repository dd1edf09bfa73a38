// A step of the workflow: what it exports are its entries, and `default` is the one that runs.
// `ctx` reaches the world: ctx.call("http", …), ctx.sleep(…), ctx.signal(…), ctx.spawn(…).

/**
 * Adds up an order.
 * @param {import("wfhost").Context} ctx
 * @param {{ items: { name: string, price: number, count: number }[] }} input
 */
export default async function run(ctx, input) {
  if (input.items.length === 0) throw new Error("the order is empty");
  // All at once; each is a wait that survives a crash of the host.
  const lines = await Promise.all(input.items.map(async (item) => {
    await ctx.sleep("10ms");
    return { name: item.name, sum: item.price * item.count };
  }));
  const total = lines.reduce((sum, line) => sum + line.sum, 0);
  console.log("the total is", total);
  return { lines, total };
}
