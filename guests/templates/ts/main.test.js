import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "wfhost/testing";

const main = new URL("./build/main.js", import.meta.url);

test("it greets after a moment", async () => {
  assert.deepEqual(await run(main, "run", { name: "Ann" }), { greeting: "Hello, Ann!" });
});

test("a name is needed", async () => {
  await assert.rejects(run(main, "run", { name: "" }), { kind: "no-name" });
});
