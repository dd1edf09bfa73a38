/** A host for tests: deterministic, in memory, without WebAssembly. */

export type Duration = number | string;
type Value = any;

/** How a handler is called: its idempotency key, and the process that calls it. */
export interface Asker {
  key: string;
  pid: number;
  run: Run;
}
/** Answers a call: by a value, `later`, `hang`, or by throwing a `Problem`. */
export type Handler = (args: Value, asker: Asker) => Value;

export interface Options {
  /** What calls reach, by name. A call of another one fails as `unknown-handler`. */
  handlers?: Record<string, Handler>;
  /** Bodies of signals that have come before they are awaited, by name: a list for each. */
  signals?: Record<string, Value[]>;
  /** Modules that `spawn` finds as `component`. */
  components?: Record<string, URL | string>;
  /** How long a process may go on after a cancel; `"5s"`. */
  grace?: Duration;
  /** The time at the start, in milliseconds since 1970; that of 2026-01-01. */
  now?: number;
  /** Of the random numbers. */
  seed?: string;
}

export interface Call {
  readonly handler: string;
  readonly args: Value;
  readonly key: string;
  readonly pid: number;
  readonly cancelled: boolean;
  readonly answered: boolean;
}
export interface Line {
  level: "trace" | "debug" | "info" | "warn" | "error";
  text: string;
  fields?: Record<string, Value>;
  pid: number;
}

/** A failure: what a handler throws, and what `run` and `end` reject with. */
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
  status: number;
  detail?: string;
  class: "definite" | "retryable" | "uncertain";
  retryAfter?: number;
  data?: Value;
}

/** Answers after a time, which passes by `advance` and `end`. */
export function later(time: Duration, value?: Value): unknown;
/** Never answers. */
export function hang(): unknown;

/** A process that a test has started, and all that it spawns. */
export class Run {
  /** All calls so far, signals left out. */
  readonly calls: Call[];
  readonly logs: Line[];
  /** What was sent to the outside and to other runs. */
  readonly sent: { to: object; topic: string; body: Value }[];
  /** What queries read. */
  readonly exposed: Record<string, Value>;
  /** The time, in milliseconds since 1970. */
  readonly now: number;
  readonly ended: boolean;
  readonly output: Value;
  /** What is awaited: `signal approve`, `call http`. */
  waiting(): string[];
  /** Lets time pass: sleeps and timeouts end on the way. */
  advance(time: Duration): Promise<this>;
  /** Lets time pass until the entry has ended. Its output; rejects with its problem, or if it waits for the test. */
  end(): Promise<Value>;
  signal(name: string, body?: Value): Promise<this>;
  /** A message to the entry, or to the process of a name. */
  send(topic: string, body?: Value, options?: { to?: string; from?: string }): Promise<this>;
  cancel(reason?: string): Promise<this>;
}

/** Starts an entry of a module, and goes on until it waits for time, or for the test. */
export function start(module: URL | string, entry: string, input?: Value, options?: Options): Promise<Run>;
/** Runs an entry of a module to its end; sleeps take no real time. Its output, or rejects with its problem. */
export function run(module: URL | string, entry: string, input?: Value, options?: Options): Promise<Value>;
