// The conformance suite in JavaScript. ../README.md says what each entry does.
import { Problem, call as ask, expose, log, map, monitor, now, random as draw, receive, register, renew as goOn, select,
  send, signal as awaitSignal, sleep, spawn, within } from "wfhost";

const begin = ({ handler, args, timeout, key }) => ask(handler, args, { timeout, idempotencyKey: key });
const ignored = () => {};

// Values and the host

export const echo = (ctx, input) => input;

export async function clock(ctx, { ms }) {
  const before = now(), again = now();
  await sleep(ms);
  return { still: before === again, waited: now() - before >= ms, recent: before > Date.UTC(2025, 0, 1) };
}

export async function sleeps(ctx, all) {
  const ends = [];
  await Promise.all(all.map(async (ms, index) => {
    await sleep(ms);
    ends.push(index);
  }));
  return ends;
}

export const twice = (ctx, n) => 2 * n;

export function own() {
  throw new Problem("out-of-stock", "Sold out", { status: 409, detail: "sku a1", class: "retryable", retryAfter: 250, data: { sku: "a1", left: 0 } });
}

function fails() {
  throw new TypeError("no good");
}
export async function crash() {
  await sleep(1);
  fails();
}

export async function progress() {
  expose("progress", { done: 0 });
  await awaitSignal("go");
  expose("progress", { done: 1 });
  await awaitSignal("end");
  return "ok";
}

export function logs() {
  for (const level of ["trace", "debug", "info", "warn", "error"]) log("a line", { n: 1 }, level);
}

export async function random() {
  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const one = draw(16), other = draw(16);
  await ask("note", [hex(one), hex(other)]);
  return { length: one.length, differ: hex(one) !== hex(other) };
}

export async function renew(ctx, { left, seen }) {
  await sleep(1);
  if (left === 0) return seen;
  goOn("renew", { left: left - 1, seen: [...seen, left] });
}

export const never = () => new Promise(() => {});

export async function turns(ctx, { n }) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += await Promise.resolve(1);
  return sum;
}

export function nested(ctx, { depth }) {
  let list = [];
  for (let i = 1; i < depth; i++) list = [list];
  return list;
}

export async function reverse() {
  return spawn(pass, (await ask("bytes")).reverse());
}
export const pass = (ctx, bytes) => bytes;

// Calls, races and signals

export const call = (ctx, what) => begin(what);

export async function caught(ctx, what) {
  try {
    return { answer: await begin(what) };
  } catch ({ kind, title, status, detail = null, class: ofClass, retryAfter = null, data = null }) {
    return { kind, title, status, detail, class: ofClass, retry: retryAfter, data };
  }
}

export async function parallel(ctx, calls) {
  const finished = [];
  const outputs = await Promise.all(calls.map(begin).map(async (answer, index) => {
    const value = await answer;
    finished.push(index);
    return value;
  }));
  return { outputs, finished };
}

export async function settle(ctx, calls) {
  const all = await Promise.allSettled(calls.map(begin));
  return all.map(({ value, reason }) => (reason ? { problem: reason.kind } : { value }));
}

export const limited = (ctx, { limit, items }) =>
  map(limit, Array(items).keys(), (i) => ask("delay", { ms: 20, value: i }));

export async function loop(ctx, { handler, n }) {
  let sum = 0;
  for (let i = 1; i <= n; i++) {
    const answer = await ask(handler, { value: i });
    sum += answer.value ?? answer;
  }
  return sum;
}

export async function race(ctx, { ms }) {
  const { index } = await select([sleep(ms), ask("hang", "race")]);
  await awaitSignal("go");
  return ["sleep", "call"][index];
}

export async function revoke() {
  const answer = ask("hang", "revoke");
  await sleep(20);
  answer.cancel();
  await awaitSignal("go");
  return "revoked";
}

export async function first(ctx, { names }) {
  const { index, value } = await select(names.map((name) => awaitSignal(name)));
  return { name: names[index], body: value };
}

export const signal = (ctx, { name, timeout }) => awaitSignal(name, { timeout });

// Children

export const child = (ctx, { entry, input, component }) => spawn(entry, input, { component });

export const children = (ctx, { n }) => Promise.all(Array.from({ length: n }, (_, i) => spawn(twice, i + 1)));

export async function fib(ctx, n) {
  if (n < 2) return n;
  const [a, b] = await Promise.all([spawn(fib, n - 1), spawn(fib, n - 2)]);
  return a + b;
}

export async function stop(ctx, { entry }) {
  await register("parent");
  const child = spawn(entry);
  await receive({ topic: "ready", sender: child });
  child.stop();
  try {
    return { output: await child };
  } catch (problem) {
    return { problem: problem.kind };
  }
}

const hang = (name) => {
  send("parent", "ready");
  return ask("hang", name);
};

export async function cleanup() {
  try {
    await hang("cleanup");
  } finally {
    await ask("note", "cleanup");
  }
}

export async function stubborn() {
  await hang("stubborn").catch(ignored);
  return "completed anyway";
}

export async function deaf() {
  await hang("deaf").catch(ignored);
  await ask("note", "deaf");
  await sleep("1h");
}

export const waits = () => ask("hang", "waits");

export async function outlive(ctx, input) {
  const output = await spawn(leaves, input);
  await awaitSignal("go");
  return output;
}

export async function leaves(ctx, { detached }) {
  spawn(late, null, { detached }).catch(ignored);
  await sleep(50);
  return "left";
}

export async function late() {
  await ask("delay", { ms: 200, value: null });
  await ask("note", "late");
}

export async function linked() {
  spawn(own, null, { link: true }).catch(ignored);
  await ask("hang", "linked");
}

async function watch(ctx, { entry, input }) {
  const child = spawn(entry, input);
  child.catch(ignored);
  const { ending, problem } = await monitor(child);
  return problem ? { ending, kind: problem.kind } : { ending };
}
export { watch as monitor };

export async function deadline(ctx, { ms }) {
  const ended = await within(ms, spawn(waits)).then(() => "ended", () => "timed out");
  await awaitSignal("go");
  return ended;
}

// Messages and names

export async function names() {
  await register("parent");
  const taken = await spawn(namesake);
  return { taken, hello: (await receive("hello")).body };
}

export async function namesake() {
  const kind = await register("parent").then(ignored, (problem) => problem.kind);
  send("parent", "hello", 1);
  return kind;
}

export async function nowhere() {
  const sent = send("nobody", "hello");
  await sleep(20);
  return sent.refusal?.kind;
}

export async function inbox() {
  await register("parent");
  await spawn(talker);
  const bodies = [];
  for (const topic of ["b", "b", undefined, undefined, undefined, undefined]) bodies.push((await receive(topic)).body);
  return bodies;
}

export function talker() {
  for (const [topic, body] of [["a", 1], ["b", 2], ["a", 3], ["b", 4], ["c", 5], ["c", 6]]) send("parent", topic, body);
}

export async function from() {
  await register("parent");
  const x = spawn(speaker, "x"), y = spawn(speaker, "y");
  const second = await receive({ sender: y }), first = await receive({ sender: x });
  return [second.body, first.body];
}

export function speaker(ctx, text) {
  send("parent", "said", text);
}

export async function patience(ctx, { ms }) {
  const message = await receive({ topic: "none", timeout: ms }).catch(ignored);
  return { got: message?.body ?? null };
}

export async function pingpong(ctx, { rounds }) {
  const child = spawn(ponger, { rounds });
  let number = 0;
  for (let i = 0; i < rounds; i++) {
    child.send("ping", number);
    number = (await receive("pong")).body;
  }
  return number;
}

export async function ponger(ctx, { rounds }) {
  for (let i = 0; i < rounds; i++) {
    const { sender, body } = await receive("ping");
    send(sender, "pong", body + 1);
  }
}

export async function mailbox() {
  await register("mailbox");
  const { sender, body } = await receive("wfhost.signal");
  return { from: sender.outside, body };
}
