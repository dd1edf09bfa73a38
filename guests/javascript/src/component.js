// The exports of a component that componentize-js makes: `guest` and `describe` of the contract.
import { hooks } from "./component-host.js";
import "./core.js";
import "./globals.js";

// Resolves when no promise can go on. The engine does not tell of this; but it reads a Blob in a task
// of its event loop, and begins a task when no promise can go on. What a guest makes of the language
// afterwards does not change it.
const { apply } = Reflect, { stream } = Blob.prototype, { getReader } = ReadableStream.prototype, { read } = ReadableStreamDefaultReader.prototype;
const grain = new Blob(["."]);
const still = () => apply(read, apply(getReader, apply(stream, grain, []), []), []);

const option = (value) => value ?? undefined;
const micros = (value) => (value === undefined ? undefined : BigInt(Math.round(value)));

// Payloads: JSON as text, bytes, a blob.
function payload(value) {
  if (typeof value === "string") return { tag: "json", val: value };
  if (value instanceof Uint8Array) return { tag: "bytes", val: value };
  return { tag: "blob", val: { digest: value.digest, size: BigInt(value.size), mediaType: value.mediaType } };
}
function plain({ tag, val }) {
  if (tag === "json") return JSON.parse(val);
  return tag === "bytes" ? Uint8Array.from(val) : { ...val, size: Number(val.size) };
}

function wire({ kind, title, status, detail, class: of, retryAfter, data }) {
  return { kind, title, status, detail: option(detail), class: of ?? "definite", retryAfter: micros(retryAfter && retryAfter * 1000), data: option(data) };
}
const told = (problem) => ({ ...problem, retryAfter: problem.retryAfter === undefined ? undefined : Number(problem.retryAfter) / 1000 });

// Targets and senders: { name }, { child }, { process }, { call }, { outside }, { run, name }.
function target(of) {
  if (of.run !== undefined) return { tag: "run", val: { run: of.run, name: of.name } };
  const [tag] = Object.keys(of);
  return { tag, val: tag === "name" ? of.name : BigInt(of[tag]) };
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
  const tag = ["stop", "monitor", "link", "unlink"].find((name) => c[name] !== undefined);
  return { tag, val: target(c[tag]) };
}

function event({ tag, val }) {
  switch (tag) {
    case "completed":
      return val.answer.tag === "ok"
        ? { event: "completed", tag: Number(val.tag), value: plain(val.answer.val) }
        : { event: "failed", tag: Number(val.tag), value: told(val.answer.val) };
    case "message": return { event: "message", sender: sender(val.sender), topic: val.topic, body: plain(val.body) };
    case "exited": return { event: "exited", tag: Number(val.by), pid: Number(val.pid), ending: val.ending.tag, problem: val.ending.tag === "failed" ? told(val.ending.val) : undefined };
    default: return { event: tag, reason: val.reason };
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

export const guest = {
  init(entry, input) {
    try {
      hooks.init(entry, plain(input));
    } catch (error) {
      throw wire(hooks.failure(error, "exception"));
    }
  },
  async step(events) {
    hooks.hear(events.map(event));
    try { await still(); } catch { /* the task ran; a guest has changed what promises do */ }
    const outcome = hooks.outcome();
    return { then: undefined, status: status(outcome), commands: outcome.commands.map((c) => ({ tag: BigInt(c.tag), action: action(c) })) };
  },
  close() {},
};

export const describe = { describe: () => hooks.describe() };
