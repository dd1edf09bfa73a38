// The module "wfhost", as a script sees it: commands, answers, messages, and the steps between them.
import { host } from "./host.js";
import { show } from "./show.js";
import { OwnBytes, OwnMap, OwnPromise, OwnTypeError, add, buffers, defineProperty, each, errors, exec, get, has, hasOwn, indexOf, isArray, isBytes,
  isFinite, isPrototypeOf, isSafeInteger, keys, list, max, min, parse, put, rawJSON, remove, round, set, settled, size, slice, sourceOf, species,
  startsWith, stringify, takeOut, text, then, trim } from "./own.js";

export const LEVELS = { trace: 0, debug: 1, info: 2, warn: 3, error: 4 };

// Values and payloads. What JSON cannot tell exactly: integers beyond 2^53 are written from BigInt.
BigInt.prototype.toJSON = function () { return rawJSON(this.toString()); };
// A promise has no members: what was meant is what it will be.
defineProperty(OwnPromise.prototype, "toJSON", { __proto__: null, configurable: true, writable: true, value: function (key) {
  throw new OwnTypeError(key === "" ? "a promise cannot be handed on: await it" : "the promise in `" + key + "` cannot be handed on: await it");
} });
// JSON as the host reads it. It has no halves of surrogate pairs; those are written as \ud800.
function json(value) {
  const text = stringify(value);
  for (let at = text === undefined ? -1 : indexOf(text, "\\ud"); at >= 0; at = indexOf(text, "\\ud", at + 1)) {
    let before = at;
    while (before > 0 && text[before - 1] === "\\") before--;
    if ((at - before) % 2 === 0) throw new OwnTypeError("a text with half of a surrogate pair cannot be handed on: text.toWellFormed() mends it");
  }
  return text;
}
function wire(value) {
  if (isBytes(value)) return new OwnBytes(value);          // as it is now, and not when the step ends
  if (isPrototypeOf(buffers, value)) return new OwnBytes(value);
  if (isPrototypeOf(Blob.prototype, value)) return value;
  const text = json(value ?? null);
  if (text === undefined) throw new OwnTypeError(`a ${typeof value} cannot be handed on`);
  return text;
}
export class Blob {
  constructor(o) { for (const name of ["digest", "size", "mediaType"]) put(this, name, o[name]); }
}

const FIELDS = ["status", "detail", "class", "retryAfter", "data", "cause"];
const NOTHING = { __proto__: null };
export class Problem extends Error {
  constructor(kind, title = kind, more = NOTHING) {
    super(title);
    for (let i = 0; i < FIELDS.length; i++) if (more[FIELDS[i]] !== undefined) put(this, FIELDS[i], more[FIELDS[i]]);
    put(this, "kind", kind);
    put(this, "title", title);
  }
  get name() { return "Problem"; }
}
// Gives an error that was made beforehand what has become of it.
function become(error, { kind, title, status, detail, class: of, retryAfter, data }) {
  const fields = { __proto__: null, kind, title, status, detail, class: of, retryAfter, data };
  for (const name in fields) if (fields[name] !== undefined) put(error, name, fields[name]);
  defineProperty(error, "message", { __proto__: null, value: title, writable: true, configurable: true });
  return error;
}

// "    at price (order.js:12:7)"
const PLACE = /\(?([^()\s]+):(\d+):(\d+)\)?$/;
function frames(error) {
  const all = list(), written = read(error, "stack") ?? "";
  for (let at = 0; at < written.length;) {
    const next = indexOf(written, "\n", at), end = next < 0 ? written.length : next;
    let line = trim(slice(written, at, end));
    at = end + 1;
    if (!line || exec(/[( ]wfhost:\d/, line) || indexOf(line, "/src/core.js") >= 0 || indexOf(line, "(native)") >= 0) continue;
    if (startsWith(line, "at ")) line = slice(line, 3);
    add(all, line);
  }
  return all;
}
function place(stack) {
  for (let i = 0; i < stack.length; i++) {
    const m = exec(PLACE, stack[i]);
    // What eval() runs has no file.
    if (m && !startsWith(m[1], "<")) return { __proto__: null, path: m[1], line: +m[2], column: +m[3] };
  }
}
function joined(lines) {
  let text = "";
  for (let i = 0; i < lines.length; i++) text += (i ? "\n" : "") + lines[i];
  return text;
}
// What a guest throws may be anything: a proxy, an object whose getters throw. A member as text, if it has one.
function read(of, name) {
  try {
    const value = of[name];
    return value === undefined || value === null ? undefined : text(value);
  } catch { /* there is none */ }
}
const is = (prototype, value) => { try { return isPrototypeOf(prototype, value); } catch { return false; } };
function shown(value) {
  try { return show(value); } catch { return "a value of type " + typeof value + " that cannot be shown"; }
}
// The data of a problem: an object, as text.
function dataOf(data, at, stack) {
  if (typeof data === "string") { try { data = parse(data); } catch { /* a text */ } }
  if (data !== undefined && (typeof data !== "object" || data === null || isArray(data))) data = { __proto__: null, data };
  if (at) data = { __proto__: null, ...data, at, stack };
  return data && json(data);
}
const CLASSES = { __proto__: null, definite: true, retryable: true, uncertain: true };
// `where` says it in other words, if the error has no place in the script.
function failure(error, kind, ranTooLong, where) {
  const stack = frames(error), at = place(stack);
  if (is(Problem.prototype, error)) {
    let data;
    try { data = dataOf(error.data, at, stack); } catch (e) { data = dataOf("its data is no JSON: " + read(e, "message"), at, stack); }
    const of = read(error, "class"), status = +read(error, "status"), after = +read(error, "retryAfter");
    return { kind: read(error, "kind") ?? kind, title: read(error, "title") ?? "Problem", status: status >= 0 && status < 65536 ? round(status) : 0, detail: read(error, "detail"),
      class: of in CLASSES ? of : "definite", retryAfter: after >= 0 ? min(after, 2 ** 53 / 1000) : undefined, data };
  }
  // The engine throws null where there is no memory for an error.
  let title = error === null ? "null, as if there were no memory for an error" : shown(error), cause;
  if (is(errors, error)) {
    const name = read(error, "name") ?? "Error", message = read(error, "message");
    title = message ? name + ": " + message : name;
    try { cause = error.cause && shown(error.cause); } catch { /* it has none that can be told */ }
  }
  // At `load` the kind stays `bad-script`.
  if (ranTooLong) title = "The script computed for too long without waiting";
  const detail = at ? at.path + ":" + at.line + ":" + at.column + (stack.length > 1 ? "\n" + joined(stack) : "") : where;
  return { kind, title, status: 0, detail, class: "definite", data: stringify({ __proto__: null, at, stack, cause }) };
}

// Commands and answers

let next = 1, commands = list(), main, ended, first = 1;   // `first`: the tag of this step's first command
const pending = new OwnMap();      // tag -> { promise, resolve, reject, error }
const exits = new OwnMap();        // tag of the command that tells -> the same
const inbox = list(), hearers = list();
let sends = new OwnMap(), sendsBefore = new OwnMap();   // tag -> what `send` returned, as long as a refusal may come
let cancelled, closing = false;
const cancelHooks = list();
const nothing = () => {};
// Nobody has to hear of its rejection.
const handle = (promise) => then(promise, nothing, nothing);

function command(action) {
  const tag = next++;
  add(commands, { __proto__: null, tag, ...action });
  return tag;
}
// The answer to a command, which can be cancelled while it is awaited.
class Asked extends OwnPromise {
  static get [species]() { return OwnPromise; }
  // `await` and Promise.all come here too.
  then(done, failed) {
    const one = get(pending, this.tag);
    if (one) one.awaited = true;
    return then(this, done, failed);
  }
  cancel(reason) { giveUp(this.tag, cancelProblem(reason)); }
}
const TOLD_MAX = 10;
// Calls that nothing waits for end with the entry, and those of its last step are never sent: whoever forgot
// an `await` has to hear of it.
function forgotten() {
  let count = 0;
  each(pending, (one, tag) => {
    if (one.awaited || one.handler === undefined || ++count > TOLD_MAX) return;
    const at = place(frames(one.error));
    log("call " + one.handler + (at ? " at " + at.path + ":" + at.line + ":" + at.column : "") + " was not awaited: " +
      (tag >= first ? "the entry has ended, and it is not sent" : "the entry has ended without its answer"), undefined, "warn");
  });
  if (count > TOLD_MAX) log((count - TOLD_MAX) + " more calls were not awaited", undefined, "warn");
}
function ask(action) {
  if (cancelled !== undefined && !closing) throw cancelProblem();
  const error = new Problem("pending");         // its stack says who asked
  let tag;
  const one = { __proto__: null, error, handler: action.call };
  const promise = new Asked((resolve, reject) => {
    tag = command(action);
    one.resolve = resolve;
    one.reject = reject;
  });
  one.promise = promise;
  set(pending, tag, one);
  put(promise, "tag", tag);
  return promise;
}
function cancelProblem(reason = cancelled) { return new Problem("cancelled", "The script was cancelled", { __proto__: null, detail: reason }); }
export function drop(tag) { if (remove(pending, tag)) command({ __proto__: null, cancel: tag }); }
// Cancels a command. Who awaits it is told; nobody has to.
function giveUp(tag, problem) {
  const p = get(pending, tag);
  if (!p) return;
  drop(tag);
  handle(p.promise);
  p.reject(become(p.error, problem));
}

const UNITS = { __proto__: null, ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 };
// Microseconds. What is over already is none.
const micros = (t) => {
  let time = typeof t === "number" ? t * 1000 : NaN;
  if (typeof t === "string") {
    const m = exec(/^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/, t);
    if (m) time = m[1] * UNITS[m[2]];
  }
  if (!isFinite(time)) throw new OwnTypeError(`${typeof t === "string" ? stringify(t) : shown(t)} is not a duration such as 500 (ms), "30s", "5m", "24h"`);
  return min(max(0, round(time)), 2 ** 53 - 1);
};
const timeout = (o) => (o?.timeout === undefined ? undefined : micros(o.timeout));
function named(name, what) {
  if (typeof name !== "string") throw new OwnTypeError(`${shown(name)} is not ${what}: give a text`);
  return name;
}
const option = (name, what) => (name === undefined || name === null ? undefined : named(name, what));

export const sleep = (time) => ask({ __proto__: null, sleep: micros(time) });
export const call = (handler, args, o) => ask({ __proto__: null, call: named(handler, "the name of a handler"), args: wire(args), timeout: timeout(o),
  key: option(o?.idempotencyKey, "the key of a call") });
export const signal = (name, o) => call("signal", { name }, o);
export function spawn(entry, input, o = NOTHING) {
  const child = ask({ __proto__: null, spawn: named(typeof entry === "function" ? entry.name : entry, "the name of an entry"), input: wire(input),
    component: option(o.component, "the name of a component"), name: option(o.name, "the name of a process"), link: !!o.link, detached: !!o.detached,
    narrow: o.narrow && stringify(o.narrow) });
  put(child, "target", { child: child.tag });
  put(child, "sender", child.target);
  put(child, "send", (topic, body) => send(child, topic, body));
  put(child, "stop", () => stop(child));        // it is asked to end; its answer still arrives
  if (o.link) put(child, "exited", exit(child.tag));
  return child;
}
// A name, a child, the sender of a message. A message to what is outside, or a call, is refused.
function target(to) {
  if (typeof to === "string") return { __proto__: null, name: to };
  const of = (typeof to === "object" && to !== null ? to.target : undefined) ?? to;
  if (typeof of === "object" && of !== null) {
    if (typeof of.run === "string") return { __proto__: null, run: of.run, name: named(of.name, "the name of a process") };
    if (isSafeInteger(of.child) && of.child >= 0) return { __proto__: null, child: of.child };
    if (isSafeInteger(of.process) && of.process >= 0) return { __proto__: null, process: of.process };
    if (typeof of.name === "string") return { __proto__: null, name: of.name };
    if (of.outside !== undefined) return { __proto__: null, outside: of.outside };
    if (of.call !== undefined) return { __proto__: null, call: of.call };
  }
  throw new OwnTypeError(`${shown(to)} is not a process: give a name, what spawn() returned, or the sender of a message`);
}
// `refusal` is the problem of a message that could not be delivered: one step later.
export function send(to, topic, body) {
  const sent = { refusal: undefined };
  set(sends, command({ __proto__: null, send: named(topic, "a topic"), to: target(to), body: wire(body) }), sent);
  return sent;
}
export const register = (name) => ask({ __proto__: null, register: named(name, "the name of a process") });
export const expose = (query, value) => { command({ __proto__: null, expose: named(query, "the name of a query"), value: wire(value) }); };
export const stop = (to) => { command({ __proto__: null, stop: target(to) }); };
function exit(tag) {
  return new OwnPromise((resolve) => { set(exits, tag, { __proto__: null, resolve }); });
}
// Both tell the end of another process: { ending: "completed" }, { ending: "failed", problem }, { ending: "cancelled" }.
export const monitor = (to) => exit(command({ __proto__: null, monitor: target(to) }));
export const link = (to) => exit(command({ __proto__: null, link: target(to) }));
export const unlink = (to) => { command({ __proto__: null, unlink: target(to) }); };
export function receive(o = NOTHING) {
  if (typeof o === "string") o = { __proto__: null, topic: o };
  if (cancelled !== undefined && !closing) throw cancelProblem();
  const hearer = { __proto__: null, topic: option(o.topic, "a topic"), sender: o.sender === undefined || o.sender === null ? undefined : target(o.sender), error: new Problem("pending") };
  const wait = o.timeout === undefined ? undefined : micros(o.timeout) / 1000;
  const promise = new OwnPromise((resolve, reject) => { hearer.resolve = resolve; hearer.reject = reject; });
  put(promise, "cancel", () => { if (hearer.timer) drop(hearer.timer.tag); leave(hearer); });
  add(hearers, hearer);
  deliver();
  if (wait !== undefined && !hearer.heard) {
    hearer.timer = sleep(wait);
    settled(hearer.timer, () => {
      if (leave(hearer)) hearer.reject(become(hearer.error, { kind: "timed-out", class: "retryable", title: "No message came in time" }));
    }, nothing);
  }
  return promise;
}
function leave(hearer) {
  for (let i = 0; i < hearers.length; i++) if (hearers[i] === hearer) { takeOut(hearers, i); return true; }
  return false;
}
function sameSender(a, b) {
  for (const key in b) if (!hasOwn(a, key) || a[key] !== b[key]) return false;
  return true;
}
function find(topic, sender) {
  for (let i = 0; i < inbox.length; i++) {
    const m = inbox[i];
    if ((topic === undefined ? !startsWith(m.topic, "wfhost.") : m.topic === topic) && (!sender || sameSender(m.sender, sender))) return i;
  }
  return -1;
}
function deliver() {
  for (let h = 0; h < hearers.length;) {
    const hearer = hearers[h], i = find(hearer.topic, hearer.sender);
    if (i < 0) { h++; continue; }
    takeOut(hearers, h);
    hearer.heard = true;
    if (hearer.timer) drop(hearer.timer.tag);
    hearer.resolve(takeOut(inbox, i));
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
export const log = (text, fields, level = "info") => host.log(LEVELS[level], String(text), fields === undefined ? undefined : json(fields));
export const now = () => host.now() / 1000;
export const random = (len) => host.random(len);
export const onCancel = (f) => { add(cancelHooks, f); };
class Renewal { constructor(entry, input) { put(this, "entry", entry); put(this, "input", input); } }
export const renew = (entry, input) => { throw new Renewal(entry, input); };
export const whoami = () => host.whoami();
const ctx = { sleep, call, signal, spawn, send, register, expose, stop, monitor, link, unlink, receive, map, select, race, within, log, now,
  random, whoami, onCancel, renew, Problem };
export default ctx;

// The entries of the script: functions that it exports

const entries = { __proto__: null };
let documentation;
function loaded(ns) {
  const names = keys(ns);
  for (let i = 0; i < names.length; i++) {
    const name = names[i], f = ns[name];
    if (typeof f === "function" && !exec(/^class\b/, sourceOf(f))) entries[name === "default" ? "run" : name] = f;
  }
  documentation = ns.description;
  if (!keys(entries).length) throw new Problem("bad-script", "The script exports no function", { detail: "export async function run(ctx, input) { … }" });
}
function describe() {
  const all = { __proto__: null };
  for (const name in entries) {
    const f = entries[name], one = all[name] = { __proto__: null };
    if (f.description) one.description = f.description;
    if (f.input) one.input = f.input;
    if (f.output) one.output = f.output;
  }
  return stringify({ __proto__: null, description: documentation, entries: all });
}

// A step

let begin;
const unhandled = new OwnMap();
const all = () => { let text = ""; for (const name in entries) text += (text && ", ") + name; return text; };
function init(name, input) {
  const entry = entries[name];
  if (!entry) throw new Problem("unknown-entry", "The script exports no such function", { detail: `${name}; there are: ${all()}` });
  next = host.whoami().nextTag;
  const end = (status) => { ended ??= status; };
  const failed = (error, where) => end({ __proto__: null, status: "failed", value: failure(error, "exception", false, where) });
  const guarded = (make) => (value) => { try { make(value); } catch (error) { failed(error, "in what " + name + "() returned"); } };
  begin = () => {
    main = (async () => entry(ctx, input))();
    settled(main, guarded((value) => {
      end({ __proto__: null, status: "complete", value: wire(value) });
      forgotten();
    }), guarded((error) => {
      if (!is(Renewal.prototype, error)) return failed(error);
      end({ __proto__: null, status: "renew", entry: named(error.entry, "the name of an entry"), value: wire(error.input) });
    }));
  };
}
// The members of a problem of the host, for an error.
function heard(problem) {
  let { data } = problem;
  if (data !== undefined) { try { data = parse(data); } catch { /* as it came */ } }
  return { __proto__: null, ...problem, data };
}
function hear(events) {
  first = next;
  sendsBefore = sends;
  sends = new OwnMap();
  if (begin) { const f = begin; begin = undefined; f(); }
  for (let i = 0; i < events.length; i++) {
    const e = events[i], p = e.tag !== undefined && get(pending, e.tag);
    switch (e.event) {
      case "completed": if (p) { remove(pending, e.tag); p.resolve(e.value); } break;
      case "failed": if (p) {
        remove(pending, e.tag);
        p.reject(become(p.error, heard(e.value)));
      } else if (has(sendsBefore, e.tag)) {
        put(get(sendsBefore, e.tag), "refusal", become(new Problem("pending"), heard(e.value)));
      } break;
      case "exited": {
        const exit = get(exits, e.tag);
        remove(exits, e.tag);
        exit?.resolve({ pid: e.pid, ending: e.ending, problem: e.problem && become(new Problem("pending"), heard(e.problem)) });
        break;
      }
      case "message": add(inbox, { sender: e.sender, topic: e.topic, body: e.body }); break;
      case "cancel": cancel(e.reason); break;
    }
  }
  deliver();
}
function cancel(reason) {
  cancelled = reason;
  closing = true;                    // what `finally` asks for is asked for, until the grace is over
  if (cancelHooks.length) { for (let i = 0; i < cancelHooks.length; i++) (0, cancelHooks[i])(reason); return; }
  const problem = cancelProblem(reason);
  each(pending, (p, tag) => { giveUp(tag, problem); });
  while (hearers.length) {
    const hearer = takeOut(hearers, 0);
    hearer.reject(become(hearer.error, problem));
  }
}
function outcome() {
  if (!ended && size(unhandled)) {
    let first;
    each(unhandled, (error) => { first ??= { __proto__: null, error }; });
    ended = { __proto__: null, status: "failed", value: failure(first.error, "unhandled-rejection") };
  }
  if (!ended && !size(pending) && !hearers.length && !size(exits))
    ended = { __proto__: null, status: "failed", value: failure(new Problem("never-ends", "The script waits for a promise that nothing will settle"), "") };
  const out = { __proto__: null, status: "blocked", ...ended, commands };
  if (!ended && hearers.length) out.status = "idle";
  commands = list();
  return out;
}
const rejected = (promise, reason, handled) => { if (handled) remove(unhandled, promise); else set(unhandled, promise, reason); };
host.register({ loaded, describe, init, hear, outcome, failure, rejected });
