// The module "wfhost", as a script sees it: commands, answers, messages, and the steps between them.
import { host } from "./host.js";
import { show } from "./show.js";

export const LEVELS = { trace: 0, debug: 1, info: 2, warn: 3, error: 4 };

// What a script makes of JSON afterwards does not reach the wire.
const { parse, stringify, rawJSON } = JSON;

// Values and payloads. What JSON cannot tell exactly: integers beyond 2^53 are written from BigInt.
BigInt.prototype.toJSON = function () { return rawJSON(this.toString()); };
function wire(value) {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (value instanceof Blob) return value;
  const text = stringify(value ?? null);
  if (text === undefined) throw new TypeError(`a ${typeof value} cannot be handed on`);
  return text;
}
export class Blob { constructor(o) { Object.assign(this, o); } }

export class Problem extends Error {
  constructor(kind, title = kind, more = {}) {
    super(title);
    for (const name of ["status", "detail", "class", "retryAfter", "data", "cause"]) if (more[name] !== undefined) this[name] = more[name];
    this.kind = kind;
    this.title = title;
  }
  get name() { return "Problem"; }
}

// "    at price (order.js:12:7)"
const PLACE = /\(?([^()\s]+):(\d+):(\d+)\)?$/;
function frames(error) {
  return String(error?.stack ?? "").split("\n").filter((l) => l.trim() && !/[( ]wfhost:\d/.test(l) && !/\(native\)/.test(l)).map((l) => l.trim().replace(/^at /, ""));
}
function place(error) {
  for (const frame of frames(error)) {
    const m = PLACE.exec(frame);
    // What eval() runs has no file.
    if (m && !m[1].startsWith("<")) return { path: m[1], line: +m[2], column: +m[3] };
  }
}
function failure(error, kind, ranTooLong) {
  const at = place(error), stack = frames(error);
  if (error instanceof Problem) {
    let data = error.data;
    if (typeof data === "string") { try { data = parse(data); } catch { data = { data }; } }
    if (data !== undefined && (typeof data !== "object" || data === null || Array.isArray(data))) data = { data };
    if (at) data = { ...data, at, stack };
    return { kind: error.kind, title: error.title, status: error.status ?? 0, detail: error.detail, class: error.class ?? "definite",
      retryAfter: error.retryAfter, data: data && stringify(data) };
  }
  let title = error instanceof Error ? (error.message ? `${error.name}: ${error.message}` : error.name) : show(error);
  // At `load` the kind stays `bad-script`.
  if (ranTooLong) title = "The script computed for too long without waiting";
  const detail = at ? `${at.path}:${at.line}:${at.column}` + (stack.length > 1 ? "\n" + stack.join("\n") : "") : undefined;
  return { kind, title, status: 0, detail, class: "definite",
    data: stringify({ at, stack, cause: error?.cause && show(error.cause) }) };
}

// Commands and answers

let next = 1, commands = [], main, ended;
const pending = new Map();      // tag -> { promise, resolve, reject, error }
const exits = new Map();        // tag of the command that tells -> the same
const inbox = [], hearers = [];
let sends = new Map(), sendsBefore = new Map();   // tag -> what `send` returned, as long as a refusal may come
let cancelled, cancelHooks = [];
const nothing = () => {};

function command(action) {
  const tag = next++;
  commands.push({ tag, ...action });
  return tag;
}
// The answer to a command, which can be cancelled while it is awaited.
class Asked extends Promise {
  static get [Symbol.species]() { return Promise; }
  cancel(reason) { giveUp(this.tag, cancelProblem(reason)); }
}
function ask(action) {
  if (cancelled && !cancelHooks.closing) throw cancelProblem();
  const error = new Problem("pending");         // its stack says who asked
  let tag;
  const promise = new Asked((resolve, reject) => {
    tag = command(action);
    pending.set(tag, { resolve, reject, error });
  });
  pending.get(tag).promise = promise;
  promise.tag = tag;
  return promise;
}
function cancelProblem(reason = cancelled) { return new Problem("cancelled", "The script was cancelled", { detail: reason }); }
export function drop(tag) { if (pending.has(tag)) { pending.delete(tag); command({ cancel: tag }); } }
// Cancels a command. Who awaits it is told; nobody has to.
function giveUp(tag, problem) {
  const p = pending.get(tag);
  if (!p) return;
  drop(tag);
  p.promise.catch(nothing);
  p.reject(Object.assign(p.error, problem, { title: problem.title, message: problem.title }));
}

const ms = (t) => {
  if (typeof t === "number") return t * 1000;
  const m = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(t);
  if (!m) throw new TypeError(`${stringify(t)} is not a duration such as 500 (ms), "30s", "5m", "24h"`);
  return m[1] * { ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 }[m[2]];
};
const timeout = (o) => (o?.timeout === undefined ? undefined : ms(o.timeout));

export const sleep = (time) => ask({ sleep: ms(time) });
export const call = (handler, args, o) => ask({ call: handler, args: wire(args), timeout: timeout(o), key: o?.idempotencyKey });
export const signal = (name, o) => call("signal", { name }, o);
export function spawn(entry, input, o = {}) {
  const child = ask({ spawn: typeof entry === "function" ? entry.name : entry, input: wire(input), component: o.component, name: o.name,
    link: o.link, detached: o.detached, narrow: o.narrow && stringify(o.narrow) });
  child.target = child.sender = { child: child.tag };
  child.send = (topic, body) => send(child, topic, body);
  child.stop = () => stop(child);               // it is asked to end; its answer still arrives
  if (o.link) child.exited = exit(child.tag);
  return child;
}
// A name, a child, the sender of a message.
const target = (to) => (typeof to === "string" ? { name: to } : to?.target ?? to);
// `refusal` is the problem of a message that could not be delivered: one step later.
export function send(to, topic, body) {
  const sent = { refusal: undefined };
  sends.set(command({ send: topic, to: target(to), body: wire(body) }), sent);
  return sent;
}
export const register = (name) => ask({ register: name });
export const expose = (query, value) => { command({ expose: query, value: wire(value) }); };
export const stop = (to) => { command({ stop: target(to) }); };
function exit(tag) {
  const promise = new Promise((resolve) => exits.set(tag, { resolve }));
  return promise;
}
// Both tell the end of another process: { ending: "completed" }, { ending: "failed", problem }, { ending: "cancelled" }.
export const monitor = (to) => exit(command({ monitor: target(to) }));
export const link = (to) => exit(command({ link: target(to) }));
export const unlink = (to) => { command({ unlink: target(to) }); };
export function receive(o = {}) {
  if (typeof o === "string") o = { topic: o };
  if (cancelled && !cancelHooks.closing) throw cancelProblem();
  const hearer = { ...o, sender: target(o.sender), error: new Problem("pending") };
  const promise = new Promise((resolve, reject) => Object.assign(hearer, { resolve, reject }));
  const leave = () => { const i = hearers.indexOf(hearer); if (i >= 0) hearers.splice(i, 1); return i >= 0; };
  promise.cancel = () => { hearer.timer?.cancel(); leave(); };
  hearers.push(hearer);
  deliver();
  if (o.timeout !== undefined && hearers.includes(hearer)) {
    hearer.timer = sleep(o.timeout);
    hearer.timer.then(() => {
      const title = "No message came in time";
      if (leave()) hearer.reject(Object.assign(hearer.error, { kind: "timed-out", class: "retryable", title, message: title }));
    }, nothing);
  }
  return promise;
}
function sameSender(a, b) { return Object.keys(b).every((k) => a[k] === b[k]); }
function deliver() {
  for (let h = 0; h < hearers.length;) {
    const { topic, sender, resolve, timer } = hearers[h];
    const i = inbox.findIndex((m) => (topic === undefined ? !m.topic.startsWith("wfhost.") : m.topic === topic) && (!sender || sameSender(m.sender, sender)));
    if (i < 0) { h++; continue; }
    hearers.splice(h, 1);
    timer?.cancel();
    resolve(inbox.splice(i, 1)[0]);
  }
}
export async function map(limit, items, make) {          // in order, so many at a time
  const out = [], all = [...items];
  let at = 0;
  const worker = async () => { while (at < all.length) { const i = at++; out[i] = await make(all[i], i); } };
  await Promise.all(Array.from({ length: Math.min(limit, all.length) }, worker));
  return out;
}
// Waits for the first of several that is done, and cancels the others: { index, value }.
export function select(promises) {
  const all = [...promises];
  const others = (winner) => { for (const [i, p] of all.entries()) if (i !== winner) p?.cancel?.(); };
  return new Promise((resolve, reject) => {
    for (const [index, promise] of all.entries()) {
      Promise.resolve(promise).then((value) => { others(index); resolve({ index, value }); }, (error) => { others(index); reject(error); });
    }
  });
}
export const race = async (promises) => (await select(promises)).value;
// Fails as `timed-out`, and cancels the promise, if it takes longer.
export async function within(time, promise) {
  const { index, value } = await select([promise, sleep(time)]);
  if (index === 1) throw new Problem("timed-out", "The time is over", { class: "retryable" });
  return value;
}
export const log = (text, fields, level = "info") => host.log(LEVELS[level], String(text), fields === undefined ? undefined : stringify(fields));
export const now = () => host.now() / 1000;
export const random = (len) => host.random(len);
export const onCancel = (f) => { cancelHooks.push(f); };
class Renewal { constructor(entry, input) { this.entry = entry; this.input = input; } }
export const renew = (entry, input) => { throw new Renewal(entry, input); };
export const whoami = () => host.whoami();
const ctx = { sleep, call, signal, spawn, send, register, expose, stop, monitor, link, unlink, receive, map, select, race, within, log, now,
  random, whoami, onCancel, renew, Problem };
export default ctx;

// The entries of the script: functions that it exports

let entries = {}, documentation;
function loaded(ns) {
  for (const name of Object.keys(ns)) {
    const f = ns[name];
    if (typeof f === "function" && !/^class\b/.test(Function.prototype.toString.call(f))) entries[name === "default" ? "run" : name] = f;
  }
  documentation = ns.description;
  if (!Object.keys(entries).length) throw new Problem("bad-script", "The script exports no function", { detail: "export async function run(ctx, input) { … }" });
}
function describe() {
  const of = (f) => ({ ...(f.description && { description: f.description }), ...(f.input && { input: f.input }), ...(f.output && { output: f.output }) });
  return stringify({ description: documentation, entries: Object.fromEntries(Object.entries(entries).map(([name, f]) => [name, of(f)])) });
}

// A step

let begin, unhandled = new Map();
function init(name, input) {
  if (!Object.hasOwn(entries, name)) throw new Problem("unknown-entry", "The script exports no such function", { detail: `${name}; there are: ${Object.keys(entries).join(", ")}` });
  next = host.whoami().nextTag;
  begin = () => {
    main = (async () => entries[name](ctx, input))();
    main.then((value) => { ended ??= { status: "complete", value: wire(value) }; }).catch((error) => {
      if (error instanceof Renewal) ended ??= { status: "renew", entry: error.entry, value: wire(error.input) };
      else ended ??= { status: "failed", value: failure(error, "exception") };
    });
  };
}
// The members of a problem of the host, for an error.
function heard({ data, ...problem }) {
  if (data !== undefined) { try { data = parse(data); } catch { /* as it came */ } }
  return { ...problem, data, message: problem.title };
}
function hear(events) {
  [sends, sendsBefore] = [new Map(), sends];
  if (begin) { const f = begin; begin = undefined; f(); }
  for (const e of events) {
    const p = e.tag !== undefined && pending.get(e.tag);
    switch (e.event) {
      case "completed": if (p) { pending.delete(e.tag); p.resolve(e.value); } break;
      case "failed": if (p) {
        pending.delete(e.tag);
        p.reject(Object.assign(p.error, heard(e.value)));
      } else if (sendsBefore.has(e.tag)) {
        sendsBefore.get(e.tag).refusal = Object.assign(new Problem("pending"), heard(e.value));
      } break;
      case "exited": {
        const exit = exits.get(e.tag);
        exits.delete(e.tag);
        exit?.resolve({ pid: e.pid, ending: e.ending, problem: e.problem && Object.assign(new Problem("pending"), heard(e.problem)) });
        break;
      }
      case "message": inbox.push({ sender: e.sender, topic: e.topic, body: e.body }); break;
      case "cancel": cancel(e.reason); break;
    }
  }
  deliver();
}
function cancel(reason) {
  cancelled = reason;
  if (cancelHooks.length) { cancelHooks.closing = true; for (const f of cancelHooks) f(reason); return; }
  cancelHooks.closing = true;                    // what `finally` asks for is asked for, until the grace is over
  const problem = cancelProblem(reason);
  for (const tag of [...pending.keys()]) giveUp(tag, problem);
  for (const h of hearers.splice(0)) h.reject(Object.assign(h.error, problem, { title: problem.title, message: problem.title }));
}
function outcome() {
  if (!ended && unhandled.size) {
    const [error] = unhandled.values();
    ended = { status: "failed", value: failure(error, "unhandled-rejection") };
  }
  if (!ended && !pending.size && !hearers.length && !exits.size)
    ended = { status: "failed", value: failure(new Problem("never-ends", "The script waits for a promise that nothing will settle"), "") };
  const out = { status: "blocked", ...ended, commands };
  if (!ended && hearers.length) out.status = "idle";
  commands = [];
  return out;
}
const rejected = (promise, reason, handled) => { if (handled) unhandled.delete(promise); else unhandled.set(promise, reason); };
host.register({ loaded, describe, init, hear, outcome, failure, rejected });
