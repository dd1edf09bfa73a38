// The host of a component that componentize-js makes: what `host.js` finds, from the imports of the
// contract. It is imported before anything else.
import * as imports from "wfhost:process/host@0.1.0";

const LEVELS = ["trace", "debug", "info", "warn", "error"];
const encoder = new TextEncoder(), decoder = new TextDecoder();
export let hooks;

globalThis.__host = {
  log: (level, text, fields) => imports.log(LEVELS[level], text, fields),
  now: () => Number(imports.now()),
  random: (length) => imports.random(length),
  whoami: () => {
    const { run, pid, nextTag } = imports.whoami();
    return { run, pid: Number(pid), nextTag: Number(nextTag) };
  },
  encode: (text) => encoder.encode(text),
  decode: (bytes) => decoder.decode(bytes),
  register: (all) => { hooks = all; },
};

// "price@order.js:12:7" as other engines write it: "price (order.js:12:7)".
const own = Object.getOwnPropertyDescriptor(Error.prototype, "stack");
Object.defineProperty(Error.prototype, "stack", {
  ...own,
  get() {
    const text = own.get.call(this);
    return typeof text === "string" ? text.replace(/^(.*?)@(.+:\d+:\d+)$/gm, (all, name, place) => (name ? `${name} (${place})` : place)) : text;
  },
});
