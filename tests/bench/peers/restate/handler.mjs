// A service of Restate as its users write one: three durable steps, each of them the user's own code.
//   node handler.mjs PORT
import * as restate from "@restatedev/restate-sdk";

const three = restate.service({
  name: "three",
  handlers: {
    run: async (ctx, { n }) => {
      const a = await ctx.run("a", () => n + 1);
      const b = await ctx.run("b", () => a + 1);
      return { n: await ctx.run("c", () => b + 1) };
    },
  },
});

restate.serve({ services: [three], port: Number(process.argv[2]) });
