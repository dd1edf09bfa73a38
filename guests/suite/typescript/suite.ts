// The conformance suite in TypeScript. ../README.md says what each entry does.
import type { Context, Message } from "wfhost";
import { Problem, call as ask, expose, log, map, monitor, now, random as draw, receive, register, renew as goOn, select,
  send, signal as awaitSignal, sleep, spawn, within } from "wfhost";

type Json = null | boolean | number | string | Json[] | { [member: string]: Json };
interface Call {
  handler: string;
  args: Json;
  timeout?: number;
  key?: string;
}
enum Winner {
  sleep,
  call,
}
type Ended = "ended" | "timed out";

const begin = ({ handler, args, timeout, key }: Call): Promise<Json> => ask(handler, args, { timeout, idempotencyKey: key });
const ignored = (): void => {};

// Values and the host

export const echo = (ctx: Context, input: Json): Json => input;

export async function clock(ctx: Context, { ms }: { ms: number }) {
  const before = now(), again = now();
  await sleep(ms);
  return { still: before === again, waited: now() - before >= ms, recent: before > Date.UTC(2025, 0, 1) };
}

export async function sleeps(ctx: Context, all: number[]): Promise<number[]> {
  const ends: number[] = [];
  await Promise.all(all.map(async (ms, index) => {
    await sleep(ms);
    ends.push(index);
  }));
  return ends;
}

export const twice = (ctx: Context, n: number): number => 2 * n;

export function own(): never {
  throw new Problem("out-of-stock", "Sold out", { status: 409, detail: "sku a1", class: "retryable", retryAfter: 250, data: { sku: "a1", left: 0 } });
}

function fails(): never {
  throw new TypeError("no good");
}
export async function crash(): Promise<void> {
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
  for (const level of ["trace", "debug", "info", "warn", "error"] as const) log("a line", { n: 1 }, level);
}

export async function random() {
  const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const one = draw(16), other = draw(16);
  await ask("note", [hex(one), hex(other)]);
  return { length: one.length, differ: hex(one) !== hex(other) };
}

export async function renew(ctx: Context, { left, seen }: { left: number; seen: number[] }): Promise<number[] | undefined> {
  await sleep(1);
  if (left === 0) return seen;
  goOn("renew", { left: left - 1, seen: [...seen, left] });
}

export const never = () => new Promise<never>(() => {});

export async function turns(ctx: Context, { n }: { n: number }) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += await Promise.resolve(1);
  return sum;
}

export function nested(ctx: Context, { depth }: { depth: number }): Json {
  let list: Json[] = [];
  for (let i = 1; i < depth; i++) list = [list];
  return list;
}

export async function reverse() {
  return spawn(pass, ((await ask("bytes")) as Uint8Array).reverse());
}
export const pass = (ctx: Context, bytes: Uint8Array): Uint8Array => bytes;

// Calls, races and signals

export const call = (ctx: Context, what: Call): Promise<Json> => begin(what);

export async function caught(ctx: Context, what: Call) {
  try {
    return { answer: await begin(what) };
  } catch (error: unknown) {
    const { kind, title, status, detail = null, class: ofClass, retryAfter = null, data = null } = error as Problem;
    return { kind, title, status, detail, class: ofClass, retry: retryAfter, data };
  }
}

export async function parallel(ctx: Context, calls: Call[]) {
  const finished: number[] = [];
  const outputs = await Promise.all(calls.map(begin).map(async (answer, index) => {
    const value = await answer;
    finished.push(index);
    return value;
  }));
  return { outputs, finished };
}

export async function settle(ctx: Context, calls: Call[]) {
  const all = await Promise.allSettled(calls.map(begin));
  return all.map((one) => (one.status === "fulfilled" ? { value: one.value } : { problem: (one.reason as Problem).kind }));
}

export const limited = (ctx: Context, { limit, items }: Record<"limit" | "items", number>): Promise<number[]> =>
  map(limit, Array(items).keys(), (i: number) => ask("delay", { ms: 20, value: i }));

export async function loop(ctx: Context, { handler, n }: { handler: string; n: number }) {
  let sum = 0;
  for (let i = 1; i <= n; i++) {
    const answer = await ask(handler, { value: i });
    sum += answer.value ?? answer;
  }
  return sum;
}

export async function race(ctx: Context, { ms }: { ms: number }) {
  const { index } = await select([sleep(ms), ask("hang", "race")]);
  await awaitSignal("go");
  return Winner[index];
}

export async function revoke() {
  const answer = ask("hang", "revoke");
  await sleep(20);
  answer.cancel();
  await awaitSignal("go");
  return "revoked";
}

export async function first(ctx: Context, { names }: { names: string[] }) {
  const { index, value } = await select(names.map((name) => awaitSignal(name)));
  return { name: names[index], body: value };
}

export const signal = (ctx: Context, { name, timeout }: { name: string; timeout?: number }) => awaitSignal(name, { timeout });

// Children

export const child = (ctx: Context, { entry, input, component }: { entry: string; input: Json; component?: string }) => spawn(entry, input, { component });

export const children = (ctx: Context, { n }: { n: number }): Promise<number[]> => Promise.all(Array.from({ length: n }, (_, i) => spawn(twice, i + 1)));

export async function fib(ctx: Context, n: number): Promise<number> {
  if (n < 2) return n;
  const [a, b] = await Promise.all([spawn(fib, n - 1), spawn(fib, n - 2)]);
  return a + b;
}

export async function stop(ctx: Context, { entry }: { entry: string }) {
  await register("parent");
  const child = spawn(entry);
  await receive({ topic: "ready", sender: child });
  child.stop();
  try {
    return { output: await child };
  } catch (problem) {
    return { problem: (problem as Problem).kind };
  }
}

const hang = (name: string) => {
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

export async function outlive(ctx: Context, input: { detached: boolean }) {
  const output = await spawn(leaves, input);
  await awaitSignal("go");
  return output;
}

export async function leaves(ctx: Context, { detached }: { detached: boolean }) {
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

async function watch(ctx: Context, { entry, input }: { entry: string; input?: Json }) {
  const child = spawn(entry, input);
  child.catch(ignored);
  const { ending, problem } = await monitor(child);
  return problem ? { ending, kind: problem.kind } : { ending };
}
export { watch as monitor };

export async function deadline(ctx: Context, { ms }: { ms: number }): Promise<Ended> {
  const ended = await within(ms, spawn(waits)).then<Ended, Ended>(() => "ended", () => "timed out");
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
  const kind = await register("parent").then(ignored, (problem: Problem) => problem.kind);
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
  const bodies: Json[] = [];
  for (const topic of ["b", "b", undefined, undefined, undefined, undefined]) bodies.push((await receive(topic)).body);
  return bodies;
}

export function talker() {
  for (const [topic, body] of [["a", 1], ["b", 2], ["a", 3], ["b", 4], ["c", 5], ["c", 6]] satisfies [string, number][]) send("parent", topic, body);
}

export async function from() {
  await register("parent");
  const x = spawn(speaker, "x"), y = spawn(speaker, "y");
  const second = await receive({ sender: y }), first = await receive({ sender: x });
  return [second.body, first.body];
}

export function speaker(ctx: Context, text: string): void {
  send("parent", "said", text);
}

export async function patience(ctx: Context, { ms }: { ms: number }) {
  const message: Message | void = await receive({ topic: "none", timeout: ms }).catch(ignored);
  return { got: message?.body ?? null };
}

export async function pingpong(ctx: Context, { rounds }: { rounds: number }) {
  const child = spawn(ponger, { rounds });
  let number = 0;
  for (let i = 0; i < rounds; i++) {
    child.send("ping", number);
    number = (await receive("pong")).body;
  }
  return number;
}

export async function ponger(ctx: Context, { rounds }: { rounds: number }) {
  for (let i = 0; i < rounds; i++) {
    const { sender, body } = await receive("ping");
    send(sender, "pong", body + 1);
  }
}

export async function mailbox() {
  await register("mailbox");
  const { sender, body } = await receive("wfhost.signal");
  return { from: (sender as { outside: string }).outside, body };
}
