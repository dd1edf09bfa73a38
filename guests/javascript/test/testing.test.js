// The host for tests, as a user's tests use it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Problem, hang, later, run, start } from "wfhost/testing";

const order = new URL("../../suite/javascript/order.js", import.meta.url);
const guest = new URL("./guest.js", import.meta.url);
const handlers = { price: ({ id }) => id * 10 };

test("an entry runs to its end", async () => {
  const output = await run(order, "run", { ids: [1, 2] }, { handlers, signals: { approve: [{ by: "Ann" }] } });
  assert.deepEqual(output, { total: 30, by: "Ann" });
});

test("a run waits for the test, and says what for", async () => {
  const order1 = await start(order, "run", { ids: [3] }, { handlers });
  await order1.advance("1s");
  assert.deepEqual(order1.waiting(), ["signal approve"]);
  await assert.rejects(order1.end(), /waits for signal approve/);
  assert.equal(order1.logs[0].text, "total is 30");
  await order1.signal("approve", { by: "Bob" });
  assert.equal((await order1.end()).by, "Bob");
});

test("time passes only when it is advanced", async () => {
  const waits = await start(guest, "sleeps", "24h");
  await waits.advance("23h");
  assert.equal(waits.ended, false);
  await waits.advance("1h");
  assert.deepEqual(waits.output, { slept: 86_400_000 });
});

test("a handler's problem is thrown in the entry, with all its fields", async () => {
  const price = () => { throw new Problem("too-busy", "Too busy", { status: 503, class: "retryable", retryAfter: 250, data: { queue: 7 } }); };
  const thrown = await run(order, "run", { ids: [1] }, { handlers: { price } }).catch((problem) => problem);
  const { kind, status, class: of, retryAfter, data } = thrown;
  assert.deepEqual({ kind, status, of, retryAfter, queue: data.queue }, { kind: "too-busy", status: 503, of: "retryable", retryAfter: 250, queue: 7 });
});

test("a call that is given up is cancelled", async () => {
  const raced = await start(guest, "races", null, { handlers: { slow: hang, fast: () => later("10ms", "fast") } });
  assert.equal(await raced.end(), "fast");
  assert.deepEqual(raced.calls.map(({ handler, cancelled }) => [handler, cancelled]), [["slow", true], ["fast", false]]);
});

test("a cancelled entry cleans up within its grace, and no longer", async () => {
  const options = (undo) => ({ handlers: { undo, slow: hang }, grace: "2s" });
  const cleans = await start(guest, "cleans", null, options(() => later("1s", null)));
  await cleans.cancel("no longer wanted");
  await assert.rejects(cleans.end(), { kind: "cancelled", detail: "no longer wanted" });
  assert.deepEqual(cleans.calls.map(({ handler, answered }) => [handler, answered]), [["slow", true], ["undo", true]]);
  assert.equal(cleans.logs.at(-1).text, "cleaned up");

  const begun = await start(guest, "cleans", null, options(() => later("3s", null)));
  await begun.cancel();
  await assert.rejects(begun.end(), { kind: "cancelled" });
  assert.deepEqual(begun.logs, []);
});

test("messages reach the entry, a name, and their sender", async () => {
  const hears = await start(guest, "hears");
  await hears.send("word", "a");
  await hears.send("word", "b", { to: "ear", from: "me" });
  assert.deepEqual(await hears.end(), [["test", "a"], ["me", "b"]]);
  await assert.rejects(hears.send("word", "c", { to: "ear" }), /no process is named ear/);
});

test("each process has modules of its own", async () => {
  assert.deepEqual(await run(guest, "counts", 3), [1, 1, 1]);
});

test("random numbers depend on the seed alone", async () => {
  const draw = (seed) => run(guest, "draws", null, { seed });
  assert.deepEqual(await draw("a"), await draw("a"));
  assert.notDeepEqual(await draw("a"), await draw("b"));
});

test("a rejection that nothing awaits fails the entry", async () => {
  await assert.rejects(run(guest, "forgets", null, { handlers: {} }), { kind: "unhandled-rejection", title: "TypeError: forgotten" });
});

test("a call that nothing awaits is told of when its entry ends", async () => {
  const prices = { price: ({ id }) => (id === 1 ? hang() : id) };
  const entry = await start(guest, "callsAndEnds", null, { handlers: prices });
  assert.equal(await entry.end(), 1);
  const [first, second, ...more] = entry.logs.map(({ level, text }) => `${level}: ${text}`);
  assert.match(first, /^warn: call price at .*guest\.js\?process=\d+:\d+:\d+ was not awaited: the entry has ended without its answer$/);
  assert.match(second, /^warn: call price at .* was not awaited: the entry has ended, and it is not sent$/);
  assert.deepEqual(more, []);
});

test("a promise is not handed on", async () => {
  const title = (entry) => run(guest, entry).catch((problem) => problem.title);
  assert.equal(await title("returnsPromise"), "TypeError: the promise in `r` cannot be handed on: await it");
  assert.equal(await title("callsWithPromise"), "TypeError: the promise in `id` cannot be handed on: await it");
});

test("an exception has its place", async () => {
  const { kind, title, data } = await run(guest, "throws").catch((problem) => problem);
  assert.deepEqual([kind, title], ["exception", "RangeError: too far"]);
  assert.match(data.at.path, /guest\.js/);
  const line = readFileSync(guest, "utf8").split("\n").findIndex((text) => text.includes("too far")) + 1;
  assert.equal(data.at.line, line);
});

test("an error of a handler is the test's, not the entry's", async () => {
  const price = () => { throw new TypeError("the test is wrong"); };
  await assert.rejects(run(order, "run", { ids: [1] }, { handlers: { price } }), { name: "TypeError", message: "the test is wrong" });
});

test("integers beyond 2^53 are written exactly", async () => {
  assert.equal(await run(guest, "large"), '{"n":9007199254740993}');
});

test("the types of the package are those that `wfhost new --script` writes", () => {
  const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
  const [head, body] = read("../../templates/script-js/wfhost.d.ts").split('declare module "wfhost" {\n');
  const unwrapped = body.trimEnd().slice(0, -1).split("\n").map((line) => line.replace(/^ {2}/, "")).join("\n");
  assert.equal(read("../wfhost.d.ts"), `${head}\n${unwrapped}`.replace("\nconst ctx:", "\ndeclare const ctx:"));
});

test("the types name what the module exports", async () => {
  const { default: ctx, ...module } = await run(guest, "exported");
  const types = readFileSync(new URL("../wfhost.d.ts", import.meta.url), "utf8");
  const declared = [...types.matchAll(/^export (?:const|class) (\w+)/gm)].map(([, name]) => name);
  for (const name of declared) assert.ok(module.names.includes(name), `${name} is declared, but not there`);
  const members = [...types.split("interface Context")[1].split("\n}")[0].matchAll(/^ {2}(\w+)(?:<.*?>)?[(:]/gm)].map(([, name]) => name);
  assert.deepEqual([...new Set(members)].sort(), module.context.sort());
});
