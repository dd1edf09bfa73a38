// The conformance guest in JavaScript, on the bare bindings. ../README.md describes what it does.
//
// A u64 is a BigInt, a variant { tag, val }, an absent option undefined, a list of u8 a Uint8Array.
// Throwing a problem is the error result of init.

import { log, now, random, whoami } from "wfhost:process/host@0.1.0";

const COUNT_MAX = 1000;
const MICROS_MAX = Number.MAX_SAFE_INTEGER;

let entry, data, first, started;

const json = (val) => ({ tag: "json", val });
const problem = (kind, title, detail) => ({
  kind, title, status: 0, detail, class: "definite", retryAfter: undefined, data: undefined,
});
const complete = (val) => ({ status: { tag: "complete", val }, commands: [] });
const failed = (val) => ({ status: { tag: "failed", val }, commands: [] });

const commands = (actions) => actions.map((action, i) => ({ tag: first + BigInt(i), action }));
const waiting = (tag, ...actions) => ({ status: { tag }, commands: commands(actions) });
const sleep = (micros) => ({ tag: "sleep", val: BigInt(micros) });
const spawn = (entry, input) => ({
  tag: "spawn",
  val: {
    component: undefined, entry, input: json(input), name: undefined, link: false, detached: false, narrow: undefined,
  },
});
const send = (to, topic) => ({ tag: "send", val: { to, topic, body: json(`"${topic}"`) } });

// The members of a JSON object, if they are exactly these.
function members(input, ...names) {
  if (input.tag !== "json") return undefined;
  try {
    const value = JSON.parse(input.val);
    return Object.keys(value).join() === names.join() ? value : undefined;
  } catch {
    return undefined;
  }
}

const isWhole = (n, max) => Number.isInteger(n) && n >= 0 && n <= max;

function count(input) {
  const n = members(input, "n")?.n;
  return isWhole(n, COUNT_MAX) ? n : undefined;
}

// What init stores of the input; undefined if it does not fit.
const inputs = {
  echo: (input) => input,
  sleep: (input) => {
    const micros = members(input, "micros")?.micros;
    return isWhole(micros, MICROS_MAX) ? micros : undefined;
  },
  call: (input) => {
    const call = members(input, "handler", "args");
    return typeof call?.handler === "string" ? call : undefined;
  },
  concurrent: (input) => {
    const n = count(input);
    return n === undefined ? undefined : { n, left: n, results: [] };
  },
  spawn: (input) => {
    const n = count(input);
    return n === undefined ? undefined : { n, left: n, results: [] };
  },
  message: () => null,
  ponger: () => null,
  cancel: () => null,
  failure: () => null,
  imports: () => null,
};

const range = (n) => Array.from({ length: n }, (_, i) => i + 1);

// The first step of each entry but ponger.
const starts = {
  echo: () => complete(data),
  sleep: () => waiting("blocked", sleep(data)),
  call: () => {
    const args = json(JSON.stringify(data.args));
    const val = { handler: data.handler, args, timeout: undefined, idempotencyKey: undefined };
    return waiting("blocked", { tag: "call", val });
  },
  concurrent: () => {
    if (data.n === 0) return complete(json("[]"));
    return waiting("blocked", ...range(data.n).reverse().map((n) => sleep(n * 1000)));
  },
  spawn: () => {
    if (data.n === 0) return complete(json("[]"));
    return waiting("blocked", ...range(data.n).map((n) => spawn("echo", String(n))));
  },
  message: () => waiting("idle", spawn("ponger", "null"), send({ tag: "child", val: first }, "ping")),
  cancel: () => waiting("blocked", sleep(3_600_000_000), { tag: "cancel", val: first }),
  failure: () =>
    failed({
      ...problem("conformance-failure", "The guest was asked to fail", "as asked"),
      status: 503, class: "retryable", retryAfter: 250_000n, data: '{"asked":true}',
    }),
  imports: () => {
    log("info", "conformance", '{"answer":42}');
    const me = whoami();
    const hex = Array.from(random(8), (byte) => byte.toString(16).padStart(2, "0")).join("");
    return complete(json(`{"pid":${me.pid},"next-tag":${me.nextTag},"random":"${hex}","clock":${now() !== 0n}}`));
  },
};

// The outcome with which an event ends the process, if any.
function hear({ tag, val }) {
  switch (tag) {
    case "completed": return answered(val);
    case "message": return received(val);
    case "cancel": return failed(problem("cancelled", "The guest was cancelled", val.reason));
    default: return undefined;
  }
}

function answered({ tag, answer }) {
  const index = Number(tag - first);
  if (entry === "cancel") {
    if (index !== 0) return undefined;
    if (answer.tag === "err") return complete(json(`"${answer.val.kind}"`));
    return failed(problem("not-cancelled", "The sleep was not cancelled"));
  }
  if (answer.tag === "err") return failed(answer.val);
  switch (entry) {
    case "sleep": return complete(json("null"));
    case "call": return complete(answer.val);
    case "concurrent":
      data.results.push(tag);
      break;
    case "spawn":
      if (answer.val.tag !== "json" || index >= data.n) return undefined;
      data.results[index] = answer.val.val;
      break;
    default: return undefined;
  }
  data.left -= 1;
  return data.left === 0 ? complete(json(`[${data.results.join()}]`)) : undefined;
}

function received({ sender, topic, body }) {
  if (entry === "message" && topic === "pong") return complete(body);
  if (entry === "ponger" && topic === "ping" && sender.tag === "process") {
    return { ...complete(json("null")), commands: commands([send({ tag: "process", val: sender.val }, "pong")]) };
  }
  return undefined;
}

export const guest = {
  init(name, input) {
    if (!Object.hasOwn(inputs, name)) {
      throw problem("unknown-entry", "The component has no such entry", name);
    }
    const kept = inputs[name](input);
    if (kept === undefined) throw problem("bad-input", "The input does not fit the entry");
    [entry, data, first, started] = [name, kept, whoami().nextTag, false];
  },

  step(events) {
    const begins = !started;
    started = true;
    if (begins && entry !== "ponger") return starts[entry]();
    for (const event of events) {
      const ended = hear(event);
      if (ended) return ended;
    }
    return waiting(entry === "message" || entry === "ponger" ? "idle" : "blocked");
  },

  close() {},
};
