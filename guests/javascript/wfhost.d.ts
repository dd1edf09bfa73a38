// The types of the module "wfhost", for editors.

/** Milliseconds, or `"500ms"`, `"30s"`, `"5m"`, `"24h"`, `"7d"`. */
export type Duration = number | string;

/** A value that JSON can write, or bytes. */
export type Value = any;

/** A failure: of a call, of a child, or one that the script throws. */
export class Problem extends Error {
  constructor(kind: string, title?: string, more?: {
    status?: number;
    detail?: string;
    class?: "definite" | "retryable" | "uncertain";
    retryAfter?: number;
    data?: Value;
  });
  kind: string;
  title: string;
  status?: number;
  detail?: string;
  class?: "definite" | "retryable" | "uncertain";
  retryAfter?: number;
  data?: Value;
}

/** The arguments of the handler `http`; the answer has `status`, `headers` and `body`. */
export interface Http {
  url: string;
  method?: string;
  headers?: Record<string, string>;
  query?: Record<string, Value>;
  body?: Value;
  [more: string]: Value;
}

/** Another process: its name, a child, or what a message came from. */
export type Target = string | object;

/** What was asked for and is awaited. */
export interface Asked<T> extends Promise<T> {
  /** Gives it up: the host cancels it, and it is rejected as `cancelled`. */
  cancel(reason?: string): void;
}

/** How another process ended. */
export interface Exit {
  pid: number;
  ending: "completed" | "failed" | "cancelled";
  problem?: Problem;
}

export interface Message {
  sender: Target;
  topic: string;
  body: Value;
}

/** A process that this one has spawned; awaited, it is its output. */
export interface Child<T> extends Asked<T> {
  send(topic: string, body?: Value): Sent;
  /** Asks it to end; its answer still arrives. */
  stop(): void;
  target: Target;
  sender: Target;
  /** How a linked child ended. */
  exited?: Promise<Exit>;
}

/** A message on its way: why it was refused is known one step later. */
export interface Sent {
  refusal?: Problem;
}

/** What a script reaches the world by. */
export interface Context {
  /** Waits; a wait survives a crash of the host. */
  sleep(time: Duration): Asked<null>;
  /** Calls a handler that the step is granted: `http`, `kv`, or one of the host's own. */
  call(handler: "http", args: Http, options?: { timeout?: Duration; idempotencyKey?: string }): Asked<Value>;
  call(handler: string, args?: Value, options?: { timeout?: Duration; idempotencyKey?: string }): Asked<Value>;
  /** Waits for a signal of a person or another program: `wfhost signal RUN NAME JSON`. */
  signal(name: string, options?: { timeout?: Duration }): Asked<Value>;
  /** Starts another entry as a process of its own: an exported function, or its name. */
  spawn<I, O>(entry: (ctx: Context, input: I) => O, input?: I, options?: Spawn): Child<Awaited<O>>;
  spawn(entry: string, input?: Value, options?: Spawn): Child<Value>;
  send(to: Target, topic: string, body?: Value): Sent;
  receive(what?: string | { topic?: string; sender?: Target; timeout?: Duration }): Asked<Message>;
  /** Takes a name that other processes can send to. */
  register(name: string): Asked<null>;
  /** Shows a value: `wfhost query RUN NAME`. */
  expose(query: string, value: Value): void;
  stop(target: Target): void;
  /** Waits for the end of another process. */
  monitor(target: Target): Promise<Exit>;
  /** The same; if one of the two does not end completed, the other is cancelled. */
  link(target: Target): Promise<Exit>;
  unlink(target: Target): void;
  /** Waits for the first that is done, and cancels the others. */
  select<T>(promises: Iterable<Promise<T>>): Promise<{ index: number; value: T }>;
  race<T>(promises: Iterable<Promise<T>>): Promise<T>;
  /** Fails as `timed-out`, and cancels the promise, if it takes longer. */
  within<T>(time: Duration, promise: Promise<T>): Promise<T>;
  whoami(): { run: string; pid: number; nextTag: number };
  /** Calls `make` for all items, so many at a time; the results are in the order of the items. */
  map<I, O>(limit: number, items: Iterable<I>, make: (item: I, index: number) => O | Promise<O>): Promise<O[]>;
  log(text: string, fields?: object, level?: "trace" | "debug" | "info" | "warn" | "error"): void;
  /** The time of the step, in milliseconds since 1970. */
  now(): number;
  random(bytes: number): Uint8Array;
  /** Is called when the script is cancelled; without it, what it waits for is rejected. */
  onCancel(then: (reason: string) => void): void;
  /** Goes on as another entry, with an empty history. */
  renew(entry: string, input?: Value): never;
  Problem: typeof Problem;
}

export interface Spawn {
  component?: string;
  name?: string;
  link?: boolean;
  detached?: boolean;
  narrow?: object;
}

/** An exported function: what a step calls. */
export type Entry<I = Value, O = Value> = (ctx: Context, input: I) => O | Promise<O>;

declare const ctx: Context;
export default ctx;
export const sleep: Context["sleep"];
export const call: Context["call"];
export const signal: Context["signal"];
export const spawn: Context["spawn"];
export const send: Context["send"];
export const receive: Context["receive"];
export const register: Context["register"];
export const expose: Context["expose"];
export const stop: Context["stop"];
export const monitor: Context["monitor"];
export const link: Context["link"];
export const unlink: Context["unlink"];
export const select: Context["select"];
export const race: Context["race"];
export const within: Context["within"];
export const whoami: Context["whoami"];
export const map: Context["map"];
export const log: Context["log"];
export const now: Context["now"];
export const random: Context["random"];
export const onCancel: Context["onCancel"];
export const renew: Context["renew"];
