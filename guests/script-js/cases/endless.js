// What does not end by itself. Each is ended with its line, while there is fuel to report it.
export function plain() { for (;;); }
export function counting() { let i = 0; for (;;) i++; }
export function calls() { const f = (x) => x + 1; for (let i = 0; ;) i = f(i); }
export function getter() { const o = { get x() { for (;;); } }; return o.x; }
export function inFinally() { try { for (;;); } finally { for (;;); } }
export function caught() { for (;;) { try { for (;;); } catch { continue; } } }
export async function chain() { const f = () => Promise.resolve().then(f); await f(); }
export async function awaits() { for (;;) await null; }
export async function microtasks() { const f = () => queueMicrotask(f); f(); await new Promise(() => {}); }
export async function thenable() { const o = { then(f) { f(o); } }; await o; }
export function regex() { return /^(a+)+$/.test("a".repeat(40) + "b"); }
export function regexReplace() { return ("a".repeat(40) + "b").replace(/(a*)*c/g, ""); }
export function sorting() { for (;;) Array.from({ length: 10000 }, (_, i) => `${i * 7919 % 10007}`).sort(); }
export function oneSort() { const a = new Array(400000).fill("x"); a.sort(); a.sort(); a.sort(); a.sort(); a.sort(); return a.length; }
export function parsing() { const text = JSON.stringify(Array.from({ length: 50000 }, (_, i) => i)); for (;;) JSON.parse(text); }
export function stringifying() { const all = Array.from({ length: 50000 }, (_, i) => ({ i })); for (;;) JSON.stringify(all); }
export function longArray() { return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1); }
export function joining() { return Array.prototype.join.call({ length: 2 ** 32 }, ""); }
export function sparse() { const a = []; a.length = 4294967295; return a.reduce((x, y) => x + y, 0); }
export function generating() { function* g() { for (;;) yield 1; } return [...g()].length; }
export function iterating() { for (const x of { [Symbol.iterator]: () => ({ next: () => ({ done: false }) }) }); }
export function concatenating() { let s = ""; for (;;) { s = (s + "x").slice(-10); } }
export function proxied() { const p = new Proxy({}, { get() { for (;;); } }); return p.x; }
export function converting() { return `${{ toString() { for (;;); } }}`; }
export function output() { return { toJSON() { for (;;); } }; }
export function outputGetter() { return { get x() { for (;;); } }; }
export async function argument(ctx) { await ctx.call("x", { get x() { for (;;); } }); }
export function evaluated() { return eval("for (;;);"); }
export function compiled() { for (;;) new Function("return 1"); }
export function dates() { for (;;) new Date("2026-11-23T00:00:00Z").toISOString(); }
export function bigints() { let n = 3n; for (;;) n = n * n % 1000000007n; }
export function typed() { const a = new Uint8Array(1 << 20); for (;;) a.fill(1).reverse(); }
export function maps() { const m = new Map(); for (let i = 0; ; i++) { m.set(i % 100, i); } }
export function strings() { const s = "x".repeat(1 << 20); for (;;) s.split(""); }
export function searching() { const s = "a".repeat(1 << 18); for (;;) s.indexOf("ab"); }
export function normalizing() { const s = "e\u0301".repeat(1 << 14); for (;;) s.normalize("NFC"); }
export function uri() { const s = "ü".repeat(1 << 14); for (;;) encodeURIComponent(s); }
export function stackTrace() { Error.prepareStackTrace = () => { for (;;); }; for (;;); }
export function thrown() { throw { get message() { for (;;); }, get stack() { for (;;); } }; }
export function printed() { console.log({ get x() { for (;;); } }); }
