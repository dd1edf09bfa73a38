// The globals that are common outside of browsers and that the script engine has to bring itself.
import { host } from "./host.js";
import { LEVELS, Problem, call, drop, sleep } from "./core.js";
import { show } from "./show.js";

function format(args) {
  if (typeof args[0] !== "string" || !args[0].includes("%")) return args;
  const [text, ...rest] = args;
  return [text.replace(/%([sdifjoOc%])/g, (all, c) => c === "%" ? "%" : !rest.length ? all : c === "c" ? (rest.shift(), "") : c === "d" || c === "i" ? String(Math.trunc(Number(rest.shift()))) : c === "j" ? JSON.stringify(rest.shift()) : show(rest.shift())), ...rest];
}
const printer = (level) => (...args) => host.log(LEVELS[level], format(args).map((a) => show(a)).join(" "));
const define = (o) => { for (const [k, value] of Object.entries(o)) Object.defineProperty(globalThis, k, { value, writable: true, configurable: true }); };
const timers = new Map();
let timer = 0;
function later(f, t, args, again) {
  const id = ++timer;
  const arm = () => {
    const asked = sleep(Math.max(0, +t || 0));
    timers.set(id, asked.tag);
    asked.then(() => { if (timers.has(id)) { again ? arm() : timers.delete(id); f(...args); } }, () => timers.delete(id));
  };
  arm();
  return id;
}
const clear = (id) => { if (timers.has(id)) { drop(timers.get(id)); timers.delete(id); } };
let pool = new Uint8Array(0), used = 0;
function bits(n) { if (used + n > pool.length) { pool = host.random(512); used = 0; } used += n; return pool.subarray(used - n, used); }
Math.random = () => { const b = bits(7); let x = b[6] & 31; for (let i = 5; i >= 0; i--) x = x * 256 + b[i]; return x / 2 ** 53; };
class TextEncoder { get encoding() { return "utf-8"; } encode(s = "") { return host.encode(String(s)); } }
class TextDecoder {
  constructor(label = "utf-8") { if (!/^utf-?8$/i.test(label)) throw new RangeError(`the encoding ${label} is not there`); }
  get encoding() { return "utf-8"; }
  decode(b = new Uint8Array(0)) { return host.decode(b instanceof ArrayBuffer ? new Uint8Array(b) : new Uint8Array(b.buffer, b.byteOffset, b.byteLength)).replace(/^\ufeff/, ""); }
}
function structuredClone(v, seen = new Map()) {
  if (typeof v === "function" || typeof v === "symbol") throw new TypeError(`${typeof v} cannot be cloned`);
  if (typeof v !== "object" || v === null) return v;
  if (seen.has(v)) return seen.get(v);
  const keep = (o) => (seen.set(v, o), o);
  if (v instanceof Date) return keep(new Date(+v));
  if (v instanceof RegExp) return keep(new RegExp(v.source, v.flags));
  if (v instanceof ArrayBuffer) return keep(v.slice(0));
  if (ArrayBuffer.isView(v)) return keep(v.slice());
  if (v instanceof Map) { const o = keep(new Map()); for (const [k, x] of v) o.set(structuredClone(k, seen), structuredClone(x, seen)); return o; }
  if (v instanceof Set) { const o = keep(new Set()); for (const x of v) o.add(structuredClone(x, seen)); return o; }
  if (v instanceof Error) return keep(Object.assign(new v.constructor(v.message), { stack: v.stack }));
  const o = keep(Array.isArray(v) ? [] : {});
  for (const k of Object.keys(v)) o[k] = structuredClone(v[k], seen);
  return o;
}
const hex = (b) => Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
const crypto = {
  getRandomValues(a) { const b = new Uint8Array(a.buffer, a.byteOffset, a.byteLength); for (let i = 0; i < b.length; i += 4096) b.set(host.random(Math.min(4096, b.length - i)), i); return a; },
  randomUUID() { const b = host.random(16); b[6] = (b[6] & 15) | 64; b[8] = (b[8] & 63) | 128; const h = hex(b); return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`; },
};
class URLSearchParams {
  #list = [];
  constructor(init = "") {
    const plain = (s) => decodeURIComponent(s.replace(/\+/g, " "));
    if (typeof init === "string") for (const p of init.replace(/^\?/, "").split("&")) { if (p) { const [k, ...v] = p.split("="); this.append(plain(k), plain(v.join("="))); } }
    else for (const [k, v] of init[Symbol.iterator] ? init : Object.entries(init)) this.append(k, v);
  }
  append(k, v) { this.#list.push([String(k), String(v)]); }
  set(k, v) { const i = this.#list.findIndex(([n]) => n === k); if (i < 0) this.append(k, v); else { this.#list[i][1] = String(v); this.#list = this.#list.filter(([n], j) => n !== k || j === i); } }
  delete(k) { this.#list = this.#list.filter(([n]) => n !== k); }
  get(k) { return this.#list.find(([n]) => n === k)?.[1] ?? null; }
  getAll(k) { return this.#list.filter(([n]) => n === k).map(([, v]) => v); }
  has(k) { return this.#list.some(([n]) => n === k); }
  [Symbol.iterator]() { return this.#list[Symbol.iterator](); }
  entries() { return this[Symbol.iterator](); }
  toString() { const e = (s) => encodeURIComponent(s).replace(/%20/g, "+").replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase()); return this.#list.map(([k, v]) => `${e(k)}=${e(v)}`).join("&"); }
}
class URL {       // of http and the like; not all of the standard
  constructor(text, base) {
    let m = /^([a-z][a-z0-9+.-]*):\/\/(?:([^:@/?#]*)(?::([^@/?#]*))?@)?(\[[^\]]*\]|[^:/?#]*)(?::(\d+))?([^?#]*)(\?[^#]*)?(#.*)?$/i.exec(String(text).trim());
    if (!m && base !== undefined) {
      const b = new URL(base), t = String(text);
      m = t.startsWith("//") ? 0 : /^[?#]/.test(t) ? 1 : 2;
      const path = t.startsWith("/") ? t : b.pathname.replace(/[^/]*$/, "") + t;
      return new URL(m === 0 ? b.protocol + t : m === 1 ? b.origin + b.pathname + (t[0] === "#" ? b.search : "") + t : b.origin + path);
    }
    if (!m) throw new TypeError(`Invalid URL: ${text}`);
    this.protocol = m[1].toLowerCase() + ":";
    this.username = m[2] ?? ""; this.password = m[3] ?? "";
    this.hostname = m[4].toLowerCase();
    const standard = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443" }[this.protocol];
    this.port = m[5] && m[5] !== standard ? m[5] : "";
    const out = [];
    for (const part of (m[6] || "/").slice(1).split("/")) { if (part === "..") out.pop(); else if (part !== ".") out.push(part); }
    this.pathname = "/" + encodeURI(decodeURI(out.join("/"))) + (/\/\.\.?$/.test(m[6]) && out.length ? "/" : "");
    this.searchParams = new URLSearchParams(m[7] ?? "");
    this.hash = m[8] ?? "";
  }
  get search() { const s = this.searchParams.toString(); return s && "?" + s; }
  get host() { return this.hostname + (this.port && ":" + this.port); }
  get origin() { return `${this.protocol}//${this.host}`; }
  get href() { const user = this.username && this.username + (this.password && ":" + this.password) + "@"; return `${this.protocol}//${user}${this.host}${this.pathname}${this.search}${this.hash}`; }
  toString() { return this.href; }
  toJSON() { return this.href; }
  static canParse(t, b) { try { new URL(t, b); return true; } catch { return false; } }
}
class Headers {
  #map = new Map();
  constructor(init = {}) { for (const [k, v] of init[Symbol.iterator] ? init : Object.entries(init)) this.append(k, v); }
  append(k, v) { k = k.toLowerCase(); this.#map.set(k, this.#map.has(k) ? `${this.#map.get(k)}, ${v}` : String(v)); }
  set(k, v) { this.#map.set(k.toLowerCase(), String(v)); }
  get(k) { return this.#map.get(k.toLowerCase()) ?? null; }
  has(k) { return this.#map.has(k.toLowerCase()); }
  [Symbol.iterator]() { return this.#map[Symbol.iterator](); }
}
class Response {
  constructor(a) { this.status = a.status; this.ok = a.status >= 200 && a.status < 300; this.url = a.url; this.headers = new Headers(a.headers); Object.defineProperty(this, "a", { value: a }); }
  async bytes() { return Uint8Array.from(atob(this.a.body ?? ""), (c) => c.charCodeAt(0)); }
  async arrayBuffer() { return (await this.bytes()).buffer; }
  async text() { return new TextDecoder().decode(await this.bytes()); }
  async json() { return JSON.parse(await this.text()); }
}
async function fetch(url, o = {}) {
  const args = { url: String(url), as: "base64", expect: ["*"] };
  if (o.method) args.method = o.method.toUpperCase();
  if (o.headers) args.headers = Object.fromEntries(new Headers(o.headers));
  if (o.timeout) args.timeout = o.timeout;
  if (o.body !== undefined) args.body = typeof o.body === "string" ? { text: o.body } : o.body instanceof URLSearchParams ? { text: String(o.body) } : { base64: btoa(String.fromCharCode(...o.body)) };
  return new Response(await call("http", args));
}
class AbortSignal {
  aborted = false; reason; #f = [];
  addEventListener(_, f) { this.#f.push(f); }
  removeEventListener(_, f) { this.#f = this.#f.filter((g) => g !== f); }
  throwIfAborted() { if (this.aborted) throw this.reason; }
  set onabort(f) { this.#f.push(f); }
  static fire(s, reason) { if (!s.aborted) { s.aborted = true; s.reason = reason; for (const f of s.#f) f({ type: "abort", target: s }); } }
}
class AbortController { signal = new AbortSignal(); abort(reason = new Problem("AbortError", "This was aborted")) { AbortSignal.fire(this.signal, reason); } }
define({
  console: Object.assign(Object.create(null), { log: printer("info"), info: printer("info"), debug: printer("debug"), trace: printer("trace"), warn: printer("warn"), error: printer("error") }),
  setTimeout: (f, t, ...a) => later(f, t, a, false), setInterval: (f, t, ...a) => later(f, t, a, true), clearTimeout: clear, clearInterval: clear,
  TextEncoder, TextDecoder, structuredClone, crypto, URL, URLSearchParams, Headers, Response, fetch, AbortSignal, AbortController,
  performance: { timeOrigin: 0, now: () => host.now() / 1000 },
});
