// One process: an instance of the SDK and of the program's modules, stepped by batches of events.
import { register } from "node:module";

register(new URL("./resolve.js", import.meta.url));

const CORE = new URL("../src/core.js", import.meta.url);
const RAW = /"\\u0000raw:(.*?)\\u0000"/g;
let count = 0, loading = Promise.resolve();

// Node 20 has no JSON.rawJSON, which the SDK takes for BigInt.
if (!JSON.rawJSON) {
  const { stringify } = JSON;
  JSON.rawJSON = (text) => `\0raw:${text}\0`;
  JSON.stringify = (...args) => stringify(...args)?.replace(RAW, "$1");
}

async function instance(url, host) {
  const number = String(++count);
  const at = (address) => {
    const own = new URL(address);
    own.searchParams.set("process", number);
    return own.href;
  };
  let hooks;
  globalThis.__host = { ...host, register: (all) => { hooks = all; } };
  await import(at(CORE));
  const module = await import(at(url));
  hooks.loaded(module);
  return hooks;
}

// Loads one after the other: the SDK takes its host from a global.
export function load(url, host) {
  const loaded = loading.then(() => instance(url, host));
  loading = loaded.catch(() => {});
  return loaded;
}

// All that can run now has run: promises first, then what Node says of rejections.
const settled = () => new Promise((resolve) => setImmediate(resolve));

// One step, as the host makes it.
export async function step(hooks, events) {
  const others = process.rawListeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  const unhandled = (reason, promise) => hooks.rejected(promise, reason, false);
  const handled = (promise) => hooks.rejected(promise, undefined, true);
  process.on("unhandledRejection", unhandled).on("rejectionHandled", handled);
  try {
    hooks.hear(events);
    await settled();
    return hooks.outcome();
  } finally {
    process.off("unhandledRejection", unhandled).off("rejectionHandled", handled);
    for (const listener of others) process.on("unhandledRejection", listener);
  }
}
