// The exports of a component that componentize-js makes: `guest` and `describe` of the contract.
import { hooks } from "./component-host.js";
import "./core.js";
import "./globals.js";
import { OwnBytes, OwnPromise, add, defineProperty, isBytes, keys, list, parse } from "./own.js";

// Resolves when no promise can go on. The engine does not tell of this; but it reads a Blob in a task
// of its event loop, and begins a task when no promise can go on. What a guest makes of the language
// afterwards does not change it.
const { apply } = Reflect, { stream } = Blob.prototype, { getReader } = ReadableStream.prototype, { read } = ReadableStreamDefaultReader.prototype;
const grain = new Blob(["."]);
const still = () => apply(read, apply(getReader, apply(stream, grain, []), []), []);

// The engine's own streams take what a guest makes of promises: then each promise goes on so many times.
const TURNS = 2_000, { getOwnPropertyDescriptor } = Object, { prototype } = OwnPromise, ofThen = prototype.then;
const intact = () => getOwnPropertyDescriptor(prototype, "then")?.value === ofThen && getOwnPropertyDescriptor(prototype, "constructor")?.value === OwnPromise;
async function rest() {
  if (intact()) { try { await still(); return; } catch { /* a guest has changed what a stream needs */ } }
  for (let turn = 0; turn < TURNS; turn++) await null;
}

const option = (value) => value ?? undefined;
const { BigInt, Number } = globalThis, { round } = Math;
const micros = (value) => (value === undefined ? undefined : BigInt(round(value)));

// Payloads: JSON as text, bytes, a blob.
function payload(value) {
  if (typeof value === "string") return { tag: "json", val: value };
  if (isBytes(value)) return { tag: "bytes", val: value };
  if (!(value.size >= 0)) throw new TypeError("a blob has a digest, a size and a media type");
  return { tag: "blob", val: { digest: value.digest, size: BigInt(value.size), mediaType: value.mediaType } };
}
function plain({ tag, val }) {
  if (tag === "json") return parse(val);
  return tag === "bytes" ? new OwnBytes(val) : { ...val, size: Number(val.size) };
}

function wire({ kind, title, status, detail, class: of, retryAfter, data }) {
  return { kind, title, status, detail: option(detail), class: of ?? "definite", retryAfter: micros(retryAfter && retryAfter * 1000), data: option(data) };
}
const told = (problem) => ({ __proto__: null, ...problem, retryAfter: problem.retryAfter === undefined ? undefined : Number(problem.retryAfter) / 1000 });

// Targets and senders: { name }, { child }, { process }, { call }, { outside }, { run, name }. What is
// no process has no name: the host refuses the message.
function target(of) {
  if (of.run !== undefined) return { tag: "run", val: { run: of.run, name: of.name } };
  const tag = keys(of)[0];
  if (tag === "child" || tag === "process") return { tag, val: BigInt(of[tag]) };
  return { tag: "name", val: of.name ?? "" };
}
const sender = ({ tag, val }) => ({ [tag]: tag === "outside" ? val : Number(val) });

function action(c) {
  if (c.sleep !== undefined) return { tag: "sleep", val: micros(c.sleep) };
  if (c.call !== undefined) return { tag: "call", val: { handler: c.call, args: payload(c.args), timeout: micros(c.timeout), idempotencyKey: option(c.key) } };
  if (c.spawn !== undefined) {
    const { spawn: entry, input, component, name, link = false, detached = false, narrow } = c;
    return { tag: "spawn", val: { component: option(component), entry, input: payload(input), name: option(name), link, detached, narrow: option(narrow) } };
  }
  if (c.send !== undefined) return { tag: "send", val: { to: target(c.to), topic: c.send, body: payload(c.body) } };
  if (c.expose !== undefined) return { tag: "expose", val: { query: c.expose, value: payload(c.value) } };
  if (c.register !== undefined) return { tag: "register", val: c.register };
  if (c.cancel !== undefined) return { tag: "cancel", val: BigInt(c.cancel) };
  const tag = c.stop !== undefined ? "stop" : c.monitor !== undefined ? "monitor" : c.link !== undefined ? "link" : "unlink";
  return { tag, val: target(c[tag]) };
}

function event({ tag, val }) {
  switch (tag) {
    case "completed":
      return val.answer.tag === "ok"
        ? { __proto__: null, event: "completed", tag: Number(val.tag), value: plain(val.answer.val) }
        : { __proto__: null, event: "failed", tag: Number(val.tag), value: told(val.answer.val) };
    case "message": return { __proto__: null, event: "message", sender: sender(val.sender), topic: val.topic, body: plain(val.body) };
    case "exited": return { __proto__: null, event: "exited", tag: Number(val.by), pid: Number(val.pid), ending: val.ending.tag, problem: val.ending.tag === "failed" ? told(val.ending.val) : undefined };
    default: return { __proto__: null, event: tag, reason: val.reason };
  }
}

function status({ status: tag, value, entry }) {
  if (tag === "complete") return { tag, val: payload(value) };
  if (tag === "failed") return { tag, val: wire(value) };
  if (tag === "renew") return { tag, val: { entry, input: payload(value) } };
  return { tag };
}

// Makes the exports of a module the entries of the guest.
export const load = (module) => hooks.loaded(module);

async function step(events) {
  try {
    const all = list(), commands = list();
    for (let i = 0; i < events.length; i++) add(all, event(events[i]));
    hooks.hear(all);
    await rest();
    const outcome = hooks.outcome();
    for (let i = 0; i < outcome.commands.length; i++) add(commands, { tag: BigInt(outcome.commands[i].tag), action: action(outcome.commands[i]) });
    return { then: undefined, status: status(outcome), commands };
  } catch (error) {
    return { then: undefined, status: { tag: "failed", val: wire(hooks.failure(error, "exception")) }, commands: list() };
  }
}

export const guest = {
  init(entry, input) {
    try {
      hooks.init(entry, plain(input));
    } catch (error) {
      throw wire(hooks.failure(error, "exception"));
    }
  },
  step(events) {
    const stepped = step(events);
    defineProperty(stepped, "constructor", { __proto__: null, value: OwnPromise });   // nobody's getter
    return stepped;
  },
  close() {},
};

export const describe = { describe: () => { try { return hooks.describe(); } catch { return "{}"; } } };
