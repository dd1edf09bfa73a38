// A host for tests: deterministic, in memory, without WebAssembly.
import { createHash } from "node:crypto";
import { load, step } from "./process.js";

const LEVELS = ["trace", "debug", "info", "warn", "error"];
const UNITS = { ms: 1, s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7 };
const STEPS_MAX = 100_000;
const HANG = Symbol("hang");

function milliseconds(time) {
  if (typeof time === "number") return time;
  const [, value, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(time) ?? [];
  if (!unit) throw new TypeError(`${JSON.stringify(time)} is not a duration such as 500 (ms), "30s", "5m", "24h"`);
  return value * UNITS[unit];
}

/** An answer of a handler that is never given. */
export const hang = () => HANG;

/** An answer that is given later, in the time of the host. */
export class Later {
  constructor(time, value) {
    this.after = milliseconds(time);
    this.value = value;
  }
}
export const later = (time, value) => new Later(time, value);

/** A failure: what a handler throws, and what `run` and `end` reject with. */
export class Problem extends Error {
  constructor(kind, title = kind, more = {}) {
    super(title);
    Object.assign(this, { kind, title, status: 0, class: "definite" }, more);
  }
  get name() { return "Problem"; }
}
const isProblem = (error) => error instanceof Error && typeof error.kind === "string";

// A payload as the contract carries it: JSON as text, bytes, a blob.
function carried(value) {
  if (value instanceof Uint8Array) return value.slice();
  if (value?.digest !== undefined && value?.size !== undefined) return value;
  return JSON.stringify(value === undefined ? null : value);
}
const value = (payload) => (typeof payload === "string" ? JSON.parse(payload) : payload);
const failure = (kind, title, more) => ({ kind, title, status: 0, class: "definite", ...more });

function wire(problem) {
  const { kind, title, message, status = 0, detail, class: of = "definite", retryAfter, data } = problem;
  return { kind, title: title ?? message, status, detail, class: of, retryAfter, data: typeof data === "string" || data === undefined ? data : JSON.stringify(data) };
}
function problem(of) {
  const { data, ...rest } = of;
  return new Problem(of.kind, of.title, { ...rest, data: typeof data === "string" ? JSON.parse(data) : data });
}

/** A run: the process that a test has started, and all that it spawns. */
export class Run {
  constructor(module, options = {}) {
    this.module = module instanceof URL ? module.href : module;
    this.handlers = options.handlers ?? {};
    this.components = options.components ?? {};
    this.grace = milliseconds(options.grace ?? "5s");
    this.now = options.now ?? Date.UTC(2026, 0, 1);
    this.seed = options.seed ?? "wfhost";
    this.calls = [];      // { handler, args, key, pid, cancelled }
    this.logs = [];       // { level, text, fields, pid }
    this.sent = [];       // what went outside
    this.exposed = {};
    this.processes = new Map();
    this.names = new Map();
    this.timers = [];
    this.arrived = new Map();    // signals that nothing has awaited yet
    this.awaited = [];           // { name, process, tag }
    this.order = 0;
    for (const [name, bodies] of Object.entries(options.signals ?? {})) this.#keep(name, bodies);
  }

  // What a test does

  /** Goes on until nothing can go on without time, or without the test. */
  async settle() {
    for (let steps = 0; ; steps++) {
      const ready = [...this.processes.values()].find((process) => !process.ended && process.events.length);
      if (!ready) return this;
      if (steps >= STEPS_MAX) throw new Error(`the run has not settled in ${STEPS_MAX} steps`);
      await this.#step(ready);
    }
  }

  /** Lets time pass: sleeps and timeouts end on the way, in their order. */
  async advance(time) {
    const until = this.now + milliseconds(time);
    await this.settle();
    while (this.#next() && this.#next().at <= until) await this.#tick();
    this.now = until;
    return this;
  }

  /** Lets time pass until the first process has ended; its output. A run that waits for the test rejects. */
  async end() {
    await this.settle();
    while (!this.root.ended && this.#next()) await this.#tick();
    const { ending, output, problem: of } = this.root;
    if (ending === "completed") return output;
    if (ending) throw problem(of);
    const waits = this.waiting();
    throw new Error(`the run waits for ${waits.length ? waits.join(", ") : "a message"}: give it by signal(), send() or a handler`);
  }

  /** Whether the first process has ended. */
  get ended() { return this.root.ended; }
  get output() { return this.root.output; }

  /** The signals and calls that are awaited: `signal approve`, `call http`. */
  waiting() {
    const open = this.calls.filter((call) => !call.answered).map((call) => `call ${call.handler}`);
    return [...this.awaited.map(({ name }) => `signal ${name}`), ...open];
  }

  /** A signal from outside; a process of that name hears it as the message `wfhost.signal`. */
  async signal(name, body = null) {
    const at = this.awaited.findIndex((one) => one.name === name);
    if (at >= 0) {
      const [{ process, tag }] = this.awaited.splice(at, 1);
      this.#answer(process, tag, carried(body));
    } else if (this.names.has(name)) {
      this.#deliver(this.names.get(name), { outside: name }, "wfhost.signal", carried(body));
    } else this.#keep(name, [body]);
    return this.settle();
  }

  /** A message to a process: to its name, or to the first. */
  async send(topic, body = null, { to, from = "test" } = {}) {
    const process = to === undefined ? this.root : this.names.get(to);
    if (!process || process.ended) throw new Error(`no process is named ${to}`);
    this.#deliver(process, { outside: from }, topic, carried(body));
    return this.settle();
  }

  /** Cancels the run; what is not over after the grace is ended. */
  async cancel(reason = "test") {
    this.#cancel(this.root, reason);
    return this.settle();
  }

  // Processes

  async start(entry, input) {
    this.root = this.#process(this.module);
    await this.#begin(this.root, entry, carried(input));
    return this.settle();
  }

  #process(module, of = {}) {
    const process = { pid: this.processes.size + 1, module, events: [], tags: new Set(), children: new Map(), watchers: [], nextTag: 1, ended: false, draws: 0, ...of };
    this.processes.set(process.pid, process);
    return process;
  }

  #host(process) {
    const encoder = new TextEncoder(), decoder = new TextDecoder();
    return {
      log: (level, text, fields) => { this.logs.push({ level: LEVELS[level], text, fields: fields && JSON.parse(fields), pid: process.pid }); },
      now: () => this.now * 1000,
      random: (length) => {
        const all = [];
        while (all.length < length) all.push(...createHash("sha256").update(`${this.seed}/${process.pid}/${process.draws++}`).digest());
        return Uint8Array.from(all.slice(0, length));
      },
      whoami: () => ({ run: "test", pid: process.pid, nextTag: process.nextTag }),
      encode: (text) => encoder.encode(text),
      decode: (bytes) => decoder.decode(bytes),
    };
  }

  async #begin(process, entry, input) {
    process.hooks = await load(process.module, this.#host(process));
    try {
      process.hooks.init(entry, value(input));
    } catch (error) {
      this.#end(process, "failed", { problem: process.hooks.failure(error, "exception") });
      return;
    }
    process.fresh = true;
    process.events.push({ event: "begin" });
  }

  async #step(process) {
    const events = process.events.splice(0).filter(({ event }) => event !== "begin");
    const { status, value: of, entry, commands } = await step(process.hooks, events);
    for (const command of Array.from(commands)) {
      process.nextTag = command.tag + 1;
      await this.#act(process, command);
      if (process.ended) return;
    }
    if (status === "complete") this.#end(process, "completed", { output: value(of) });
    else if (status === "failed") this.#end(process, "failed", { problem: of });
    else if (status === "renew") await this.#begin(process, entry, of);
    else if (status === "blocked" && !process.tags.size && !process.events.length && !process.watching) {
      this.#end(process, "failed", { problem: failure("blocked-on-nothing", "It waits, and nothing can come") });
    }
  }

  async #act(process, command) {
    const { tag } = command;
    if (command.sleep !== undefined) {
      process.tags.add(tag);
      this.#timer(command.sleep / 1000, () => this.#answer(process, tag, "null"), process, tag);
    } else if (command.call !== undefined) await this.#call(process, command);
    else if (command.spawn !== undefined) await this.#spawn(process, command);
    else if (command.send !== undefined) this.#send(process, command);
    else if (command.cancel !== undefined) this.#revoke(process, command.cancel);
    else if (command.register !== undefined) this.#register(process, command);
    else if (command.expose !== undefined) this.exposed[command.expose] = value(command.value);
    else if (command.stop !== undefined) this.#stop(process, command);
    else if (command.monitor !== undefined) this.#watch(process, tag, command.monitor, false);
    else if (command.link !== undefined) this.#watch(process, tag, command.link, true);
    else if (command.unlink !== undefined) this.#unlink(process, command.unlink);
  }

  // Ends a process: who waits for it is told, what it has not detached is cancelled.
  #end(process, ending, { output, problem: of } = {}) {
    if (process.ended) return;
    const cancelled = ending === "failed" && process.cancelled !== undefined && of.kind === "cancelled";
    Object.assign(process, { ended: true, ending: cancelled ? "cancelled" : ending, output, problem: of, events: [] });
    for (const tag of [...process.tags]) this.#forget(process, tag);
    for (const [name, named] of this.names) if (named === process) this.names.delete(name);
    for (const child of process.children.values()) if (!child.detached) this.#cancel(child, "its parent has ended");
    if (process.parent && process.parent.tags.has(process.tag)) {
      if (ending === "completed") this.#answer(process.parent, process.tag, carried(output));
      else this.#refuse(process.parent, process.tag, of);
    }
    for (const { by, tag, link } of process.watchers) {
      if (by.ended) continue;
      by.events.push({ event: "exited", tag, pid: process.pid, ending: process.ending, problem: process.ending === "failed" ? this.#told(of) : undefined });
      by.watching--;
      if (link && ending !== "completed") this.#cancel(by, "a linked process has ended");
    }
  }

  #cancel(process, reason) {
    if (process.ended || process.cancelled !== undefined) return;
    process.cancelled = reason;
    process.events.push({ event: "cancel", reason, grace: this.grace });
    this.#timer(this.grace, () => {
      this.#end(process, "failed", { problem: failure("cancelled", "It was cancelled", { detail: reason }) });
    }, process, "grace");
  }

  // Answers

  #answer(process, tag, payload) {
    if (!process.tags.has(tag)) return;
    this.#forget(process, tag);
    process.events.push({ event: "completed", tag, value: value(payload) });
  }

  #refuse(process, tag, of) {
    this.#forget(process, tag);
    process.events.push({ event: "failed", tag, value: this.#told(of) });
  }

  #told(of) {
    const told = wire(of);
    return { ...told, retryAfter: told.retryAfter };
  }

  #forget(process, tag) {
    process.tags.delete(tag);
    this.timers = this.timers.filter((timer) => timer.process !== process || timer.tag !== tag);
    this.awaited = this.awaited.filter((one) => one.process !== process || one.tag !== tag);
    const call = this.calls.find((one) => one.process === process && one.tag === tag);
    if (call && !call.answered) call.answered = true;
  }

  // Commands

  async #call(process, { tag, call: handler, args, timeout, key }) {
    process.tags.add(tag);
    if (timeout !== undefined) {
      const late = () => {
        this.#abandon(process, tag);
        this.#refuse(process, tag, failure("timed-out", ...(handler === "signal" ? ["No signal came in time", { class: "retryable" }] : ["It took longer than its timeout", { class: "uncertain" }])));
      };
      this.#timer(timeout / 1000, late, process, tag);
    }
    if (handler === "signal") return this.#await(process, tag, value(args).name);
    const call = { handler, args: value(args), key: key ?? `${process.pid}.${tag}`, pid: process.pid, cancelled: false, answered: false };
    Object.defineProperties(call, { process: { value: process }, tag: { value: tag } });
    this.calls.push(call);
    const answer = this.handlers[handler];
    if (!answer) return this.#refuse(process, tag, failure("unknown-handler", "There is no such handler", { detail: handler }));
    try {
      const result = await answer(call.args, { key: call.key, pid: call.pid, run: this });
      if (result === HANG) return;
      if (result instanceof Later) this.#timer(result.after, () => this.#answer(process, tag, carried(result.value)), process, tag);
      else this.#answer(process, tag, carried(result));
    } catch (error) {
      if (!isProblem(error)) throw error;
      this.#refuse(process, tag, error);
    }
  }

  #await(process, tag, name) {
    const kept = this.arrived.get(name);
    if (kept?.length) this.#answer(process, tag, kept.shift());
    else this.awaited.push({ name, process, tag });
  }

  #keep(name, bodies) {
    const kept = this.arrived.get(name) ?? [];
    kept.push(...bodies.map(carried));
    this.arrived.set(name, kept);
  }

  async #spawn(process, { tag, spawn: entry, input, component, name, link, detached }) {
    process.tags.add(tag);
    const module = component === undefined ? process.module : this.components[component];
    if (!module) return this.#refuse(process, tag, failure("unknown-component", "The workflow has no such component", { detail: component }));
    if (name !== undefined && this.names.has(name)) return this.#refuse(process, tag, failure("name-taken", "Another process has that name", { detail: name }));
    const child = this.#process(module instanceof URL ? module.href : module, { parent: process, tag, detached });
    process.children.set(tag, child);
    if (name !== undefined) this.names.set(name, child);
    if (link) {
      process.watching = (process.watching ?? 0) + 1;
      child.watchers.push({ by: process, tag, link: true });
      child.links = [process];
    }
    await this.#begin(child, entry, input);
  }

  #find(process, { name, child, process: pid }) {
    const found = name !== undefined ? this.names.get(name) : child !== undefined ? process.children.get(child) : this.processes.get(pid);
    return found && !found.ended ? found : undefined;
  }

  #send(process, { tag, send: topic, to, body }) {
    if (to.outside !== undefined || to.run !== undefined) {
      this.sent.push({ to, topic, body: value(body) });
      return;
    }
    const found = this.#find(process, to);
    if (!found) this.#refuse(process, tag, failure("no-process", "There is no such process, or it has ended"));
    else this.#deliver(found, found.parent && process === found.parent ? { process: process.pid } : this.#sender(found, process), topic, body);
  }

  // A parent knows its children by the tag that it has spawned them with.
  #sender(receiver, process) {
    return process.parent === receiver ? { child: process.tag } : { process: process.pid };
  }

  #deliver(process, sender, topic, body) {
    process.events.push({ event: "message", sender, topic, body: value(body) });
  }

  #revoke(process, tag) {
    if (!process.tags.has(tag)) return;
    this.#abandon(process, tag);
    const child = process.children.get(tag);
    this.#refuse(process, tag, failure("cancelled", "It was cancelled"));
    if (child) this.#cancel(child, "its parent has given it up");
  }

  #abandon(process, tag) {
    const call = this.calls.find((one) => one.process === process && one.tag === tag && !one.answered);
    if (call) call.cancelled = true;
  }

  #register(process, { tag, register: name }) {
    process.tags.add(tag);
    if (this.names.has(name)) return this.#refuse(process, tag, failure("name-taken", "Another process has that name", { detail: name }));
    this.names.set(name, process);
    this.#answer(process, tag, "null");
  }

  #stop(process, { tag, stop: to }) {
    const found = this.#find(process, to);
    if (found) this.#cancel(found, "it was stopped");
    else this.#refuse(process, tag, failure("not-accepted", "This process may not end that one"));
  }

  #watch(process, tag, to, link) {
    const found = to.child !== undefined ? process.children.get(to.child) : this.#find(process, to);
    if (found?.ended) {
      const { pid, ending } = found;
      process.events.push({ event: "exited", tag, pid, ending, problem: ending === "failed" ? this.#told(found.problem) : undefined });
    } else if (!found) {
      process.events.push({ event: "exited", tag, pid: 0, ending: "failed", problem: failure("no-process", "There is no such process, or it has ended") });
    } else {
      process.watching = (process.watching ?? 0) + 1;
      found.watchers.push({ by: process, tag, link });
      if (link) (process.links ??= []).push(found);
    }
  }

  #unlink(process, to) {
    const found = this.#find(process, to);
    if (!found) return;
    found.watchers = found.watchers.filter((one) => one.by !== process || !one.link || (process.watching-- && false));
  }

  // Time

  #timer(after, then, process, tag) {
    this.timers.push({ at: this.now + after, order: this.order++, then, process, tag });
  }

  #next() {
    return this.timers.reduce((a, b) => (!a || b.at < a.at || (b.at === a.at && b.order < a.order) ? b : a), undefined);
  }

  async #tick() {
    const timer = this.#next();
    this.timers.splice(this.timers.indexOf(timer), 1);
    this.now = Math.max(this.now, timer.at);
    if (!timer.process.ended) timer.then();
    await this.settle();
  }
}

/** Starts an entry, and goes on until nothing can go on without time, or without the test. */
export const start = (module, entry, input, options) => new Run(module, options).start(entry, input);

/** Runs an entry to its end, without waiting for any real time; its output. */
export async function run(module, entry, input, options) {
  return (await start(module, entry, input, options)).end();
}
