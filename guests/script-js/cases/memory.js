// What wants more memory than there is. The error can be caught, and the script goes on.
export function bytes() { const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1)); }
export function caught() { const a = []; try { for (;;) a.push(new Uint8Array(1 << 20).fill(1)); } catch (e) { a.length = 0; return String(e); } }
export function array() { const a = []; for (;;) a.push({}); }
export function filled() { return new Array(1 << 28).fill(1).length; }
export function oneBuffer() { return new ArrayBuffer(1 << 30).byteLength; }
export function hugeBuffer() { return new ArrayBuffer(2 ** 52).byteLength; }
export function doubled() { let s = "x"; for (;;) s += s; }
export function repeated() { return "x".repeat(2 ** 30 - 1).length; }
export function repeatedMost() { return "x".repeat(2 ** 28).length; }
export function padded() { return "x".padEnd(2 ** 29).length; }
export function joined() { return new Array(1 << 24).join("0123456789").length; }
export function replaced() { return "x".repeat(1 << 20).replace(/x/g, "y".repeat(1 << 12)).length; }
export function text() { const a = []; for (let i = 0; ; i++) a.push(`${i}`.padEnd(1 << 16)); }
export function maps() { const m = new Map(); for (let i = 0; ; i++) m.set(i, { i }); }
export function closures() { let f = () => 1; for (;;) { const g = f, b = new Uint8Array(1 << 12); f = () => [g, b]; } }
export function promises() { const a = []; for (;;) a.push(new Promise(() => {})); }
export async function sleeps(ctx) { const a = []; for (;;) a.push(ctx.sleep(1)); }
export function bigint() { let n = 2n; for (;;) n *= n; }
export function shifted() { return 1n << (2n ** 40n); }
export function regex() { return new RegExp("(?:a{1000}){1000}{1000}").test("a"); }
export function repeatedGroups() { return new RegExp("((((((a{100}){100}){100}){100}){100}){100})").test("a".repeat(100)); }
export function output() { return "x".repeat(1 << 24); }
export function outputLarge() { return Array.from({ length: 1 << 20 }, () => "0123456789"); }
export function logged() { console.log("x".repeat(1 << 24)); }
export function kept() { globalThis.all = []; for (;;) all.push(new Uint8Array(1 << 10)); }
export async function keptOn(ctx) { globalThis.all = []; try { for (;;) all.push(new Uint8Array(1 << 10)); } catch {} await ctx.sleep(1); return "went on"; }
export async function keptFull(ctx) { globalThis.all = []; for (let n = 1 << 20; n >= 512; n >>= 2) { try { for (;;) all.push(new Uint8Array(n)); } catch {} } await ctx.sleep(1); return "went on"; }
export async function cycles() { for (let i = 0; i < 20000; i++) { const o = { b: new Uint8Array(1 << 14) }; o.o = o; } return "collected"; }
export function source() { return new Function("return " + "1,".repeat(1 << 16) + "1")(); }
export function sourceString() { return eval("'" + "x".repeat(1 << 24) + "'").length; }
export function properties() { const o = {}; for (let i = 0; ; i++) o["p" + i] = i; }
export function symbols() { const a = []; for (;;) a.push(Symbol("x".repeat(100))); }
export function errors() { const a = []; for (;;) a.push(new Error("x")); }
export function views() { const a = []; for (;;) a.push(new DataView(new ArrayBuffer(1000))); }
export function resizable() { const b = new ArrayBuffer(0, { maxByteLength: 2 ** 30 }); b.resize(2 ** 29); return b.byteLength; }
