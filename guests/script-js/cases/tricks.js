// Against the SDK: what a script changes of the language must harm it alone.
const getters = () => { for (const name of ["tag", "sleep", "call", "spawn", "status", "value", "commands", "kind", "title", "data", "detail", "then", "event", "answer", "entry", "toJSON"])
  Object.defineProperty(Object.prototype, name, { __proto__: null, get() { throw new Error("read " + name); }, set() { throw new Error("wrote " + name); }, configurable: true }); };
export async function objectPrototype(ctx) { Object.prototype.sleep = 5; Object.prototype.status = "failed"; Object.prototype.cancel = 1; Object.prototype.kind = "x"; await ctx.sleep(1); return 1; }
export async function objectGetters(ctx) { getters(); await ctx.sleep(1); return 1; }
export async function objectGettersThrow() { getters(); throw new TypeError("mine"); }
export async function arrayIterator(ctx) { Array.prototype[Symbol.iterator] = function () { throw new Error("mine"); }; await ctx.sleep(1); return 1; }
export async function arrayMethods(ctx) { for (const name of ["push", "map", "filter", "splice", "join", "includes", "indexOf", "forEach"]) Array.prototype[name] = () => { throw new Error("mine"); }; await ctx.sleep(1); return 1; }
export async function arrayIndex(ctx) { Object.defineProperty(Array.prototype, "0", { set() { throw new Error("mine"); }, get() { throw new Error("mine"); } }); await ctx.sleep(1); return 1; }
export async function mapMethods(ctx) { for (const name of ["get", "set", "delete", "has"]) Map.prototype[name] = () => { throw new Error("mine"); }; await ctx.sleep(1); return 1; }
export async function promiseThen(ctx) { Promise.prototype.then = function () { throw new Error("mine"); }; await ctx.sleep(1); return 1; }
export async function promiseThenLost(ctx) { Promise.prototype.then = function () {}; await ctx.sleep(1); return 1; }
export async function promiseConstructor(ctx) { Object.defineProperty(Promise.prototype, "constructor", { get() { throw new Error("mine"); } }); await ctx.sleep(1); return 1; }
export async function promiseGlobal(ctx) { globalThis.Promise = null; await ctx.sleep(1); return 1; }
export async function promiseSpecies(ctx) { Object.defineProperty(Promise, Symbol.species, { get() { throw new Error("mine"); } }); await ctx.sleep(1); return 1; }
export async function json(ctx) { JSON.stringify = () => "{not json"; JSON.parse = () => { throw new Error("mine"); }; await ctx.sleep(1); return { a: 1 }; }
export async function jsonUndefined(ctx) { JSON.stringify = () => undefined; await ctx.call("x", {}); return { a: 1 }; }
export async function jsonNumber(ctx) { JSON.stringify = () => 12; await ctx.sleep(1); return { a: 1 }; }
export async function jsonHuge(ctx) { JSON.stringify = () => "[".repeat(1 << 20); await ctx.sleep(1); return { a: 1 }; }
export async function jsonLone(ctx) { JSON.stringify = () => '"\ud800"'; await ctx.sleep(1); return { a: 1 }; }
export async function lone() { return "\ud800"; }
export async function symbols(ctx) { Symbol.prototype.toString = null; return { [Symbol("x")]: 1 }; }
export async function stringMethods(ctx) { for (const name of ["split", "replace", "trim", "slice", "includes"]) String.prototype[name] = () => { throw new Error("mine"); }; await ctx.sleep(1); throw new TypeError("told"); }
export async function regexExec() { RegExp.prototype.exec = () => { throw new Error("mine"); }; throw new TypeError("told"); }
export async function errorName() { Object.defineProperty(Error.prototype, "name", { get() { throw new Error("mine"); } }); throw new TypeError("told"); }
export async function errorStack() { Error.prepareStackTrace = () => { throw new Error("mine"); }; throw new TypeError("told"); }
export async function errorStackLimit() { Error.stackTraceLimit = 0; throw new TypeError("told"); }
export async function stackValue() { const e = new TypeError("told"); e.stack = { toString() { throw new Error("mine"); } }; throw e; }
export async function stackFaked() { const e = new TypeError("told"); e.stack = "    at x (/etc/passwd:1:1)\n"; throw e; }
export async function instanceOf(ctx) { Object.defineProperty(Error, Symbol.hasInstance, { value: () => { throw new Error("mine"); } }); throw new TypeError("told"); }
export async function problemFields(ctx) { throw Object.assign(new ctx.Problem("k", "t"), { kind: { toString() { throw new Error("mine"); } }, status: "x", class: 7, data: () => 1, retryAfter: -5, detail: Symbol() }); }
export async function problemLong(ctx) { throw new ctx.Problem("k".repeat(1 << 12), "t".repeat(1 << 16), { detail: "d".repeat(1 << 16) }); }
export async function problemCyclic(ctx) { const data = {}; data.data = data; throw new ctx.Problem("k", "t", { data }); }
export async function throwsUndefined() { throw undefined; }
export async function throwsNull() { throw null; }
export async function throwsSymbol() { throw Symbol("x"); }
export async function throwsProxy() { throw new Proxy(new Error("x"), { get() { throw new Error("mine"); } }); }
export async function throwsProxyOfProxy() { throw new Proxy({}, { getPrototypeOf() { throw new Error("mine"); } }); }
export async function throwsRevoked() { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy; }
export async function throwsFunction() { throw () => 1; }
export async function throwsThenable() { throw { then() { for (;;); } }; }
export async function cyclic() { const o = {}; o.o = o; return o; }
export async function returnsBigint() { return 123456789012345678901234567890n; }
export async function returnsSymbol() { return Symbol("x"); }
export async function returnsFunction() { return () => 1; }
export async function returnsGetter() { return { get x() { throw new Error("mine"); } }; }
export async function returnsProxy() { return new Proxy({ a: 1 }, { ownKeys() { throw new Error("mine"); } }); }
export async function returnsThenable() { return { then(resolve) { resolve("from a thenable"); } }; }
export async function returnsThenableThrows() { return { then() { throw new Error("mine"); } }; }
export async function returnsThenableNever() { return { then() {} }; }
export async function returnsRevoked() { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy; }
export async function returnsDetached() { const b = new Uint8Array(8); b.buffer.transfer(); return b; }
export async function returnsMap() { return new Map([[1, 2]]); }
export async function returnsDate() { return new Date(0); }
export async function returnsInvalidDate() { return new Date(NaN); }
export async function returnsNaN() { return { a: NaN, b: Infinity, c: -0, d: undefined, e: [undefined, () => 1] }; }
export async function returnsRaw() { return JSON.rawJSON("1e400"); }
export async function returnsKeys() { return { "__proto__": 1, ["__proto__"]: 2, constructor: 3, "": 4 }; }
export async function proxyInput(ctx) { await ctx.sleep(new Proxy({}, { get() { throw new Error("mine"); } })); }
export async function proxyOptions(ctx) { await ctx.call("x", {}, new Proxy({}, { get() { throw new Error("mine"); } })); }
export async function proxyTarget(ctx) { ctx.send(new Proxy({}, { get() { throw new Error("mine"); } }), "t", 1); await ctx.sleep(1); }
export async function targetOdd(ctx) { ctx.send({ process: "x" }, "t", 1); ctx.send({ child: -1 }, "t", 1); ctx.send(7, "t", 1); await ctx.sleep(1); return 1; }
export async function nameOdd(ctx) { await ctx.call({ toString() { throw new Error("mine"); } }, {}); }
export async function nameSymbol(ctx) { await ctx.call(Symbol("x"), {}); }
export async function durations(ctx) { for (const t of [NaN, -1, "1e5s", "", null, {}]) { try { await ctx.sleep(t); } catch (e) { if (!(e instanceof TypeError) && !(e instanceof RangeError)) throw e; } } return 1; }
export async function blobForged(ctx) { const { Blob } = await import("wfhost"); return Object.assign(Object.create(Blob.prototype), { digest: "x", size: -1, mediaType: 7 }); }
export async function ctxFrozen(ctx) { try { ctx.sleep = null; } catch {} try { delete ctx.call; } catch {} const w = await import("wfhost"); await w.sleep(1); return typeof w.call; }
export async function hostHidden() { return [typeof globalThis.__host, typeof globalThis.host, Object.keys(globalThis).length]; }
export async function functionConstructor() { return (async () => {}).constructor("return await 5")(); }
export async function fakeInterrupted() { throw new Error("interrupted"); }
export async function asyncThrow() { queueMicrotask(() => { throw new Error("from a microtask"); }); await null; await null; return 1; }
export async function timerThrow(ctx) { setTimeout(() => { throw new Error("from a timer"); }, 1); await ctx.sleep(10); return 1; }
export async function unhandled(ctx) { Promise.reject(new Error("nobody listens")); await ctx.sleep(1); return 1; }
export async function handledLate(ctx) { const p = Promise.reject(new Error("x")); await null; p.catch(() => {}); await ctx.sleep(1); return "handled"; }
export async function neverSettled() { await new Promise(() => {}); }
export async function returnsEarly(ctx) { ctx.sleep("1h"); return "early"; }
export async function importMissing() { return import("./nothing-here.js"); }
export async function importComputed() { return import("./" + "rates.json"); }
export async function importPackage() { return import("lodash"); }
export async function importNode() { return import("node:fs"); }
export async function importOutside() { return import("../../secret.js"); }
export async function importAbsolute() { return import("/etc/passwd"); }
export async function importOdd() { return import({ toString() { throw new Error("mine"); } }); }
export async function importData() { return import("data:text/javascript,export default 1"); }
export async function modules() { const found = []; for (const name of ["std", "os", "bjson", "qjs:std", "qjs:os", "qjs:bjson"]) { try { await import(name); found.push(name); } catch {} } return found; }
export async function bytecode() { const b = new Uint8Array([0x15, 0x02, 0x01]); const found = []; for (const f of [eval, Function]) { try { f(b); found.push(typeof f(b)); } catch (e) { found.push(e.name); } } return found; }
export async function globals() { return ["std", "os", "bjson", "Worker", "WebAssembly", "SharedArrayBuffer", "Atomics", "process", "require", "gc", "print", "scriptArgs", "InternalError"].filter((n) => n in globalThis); }
const breakAll = () => {
  const mine = () => { throw new Error("mine"); }, all = [];
  for (const of of [Array, Map, Set, String, RegExp, Uint8Array, Object.getPrototypeOf(Uint8Array), Number, JSON, Reflect, Promise, Object, Function, Symbol])
    for (const on of [of, of.prototype]) if (on && on !== Object.prototype) for (const name of Reflect.ownKeys(on)) if (!["length", "prototype", "constructor", "name", "then"].includes(name)) all.push(on, name);
  all.push(Object.getPrototypeOf([][Symbol.iterator]()), "next", Object.getPrototypeOf(new Map()[Symbol.iterator]()), "next");
  for (const name of ["Object", "Array", "Map", "Promise", "String", "Number", "JSON", "Math", "Reflect", "TypeError", "Error", "Uint8Array", "Symbol"]) all.push(globalThis, name);
  for (let i = 0; i < all.length; i += 2) { try { all[i][all[i + 1]] = all[i] === globalThis ? undefined : mine; } catch { /* it cannot be changed */ } }
};
export async function allBroken(ctx) { breakAll(); await ctx.sleep(1); await ctx.register("me"); ctx.send("me", "t", { a: 1 }); return { a: 1 }; }
export async function allBrokenThrows(ctx) { const mine = new TypeError("told"); breakAll(); await ctx.sleep(1); throw mine; }
export async function allBrokenProblem(ctx) { breakAll(); try { await ctx.call("x", {}); } catch (e) { throw new ctx.Problem("again", e.title, { data: { from: e.kind } }); } }
export async function allBrokenReceive(ctx) { breakAll(); try { await ctx.receive({ topic: "x", timeout: 1 }); } catch (e) { return e.kind; } }
export async function objectThen(ctx) { Object.prototype.then = function () { throw new Error("mine"); }; await ctx.sleep(1); return 1; }
export async function objectToJSON() { Object.prototype.toJSON = () => "mine"; Array.prototype.toJSON = () => "mine"; throw new TypeError("told"); }
export async function loneKey() { return { "\udc00": "\ud800x", pair: "\ud83d\ude00" }; }
export async function loneNames(ctx) { ctx.log("\ud800", { "\ud800": "\udc00" }); ctx.expose("\ud800", "\ud800"); ctx.send("\ud800", "\udc00", "\ud800"); await ctx.call("\ud800", "\ud800", { idempotencyKey: "\ud800" }); }
export async function loneProblem(ctx) { throw new ctx.Problem("\ud800", "a \udc00", { detail: "\ud800", data: { "\ud800": "\udc00" } }); }
export async function callCyclic(ctx) { const o = {}; o.o = [o]; await ctx.call("x", o); }
export async function callGetter(ctx) { await ctx.call("x", { get y() { throw new Error("mine"); } }); }
export async function callToJSON(ctx) { await ctx.call("x", { toJSON() { throw new Error("mine"); } }); }
export async function callProxy(ctx) { await ctx.call("x", new Proxy({}, { ownKeys() { throw new Error("mine"); } })); }
export async function callSymbol(ctx) { await ctx.call("x", Symbol("x")); }
export async function callDetached(ctx) { const b = new Uint8Array(8); b.buffer.transfer(); await ctx.call("x", b); }
export async function sendFunction(ctx) { ctx.send("me", "t", () => 1); }
export async function exposeCyclic(ctx) { const o = {}; o.o = o; ctx.expose("q", o); }
export async function spawnBigint(ctx) { await ctx.spawn("echo", { n: 2n ** 64n, get x() { throw new Error("mine"); } }); }
export async function returnsToJSON() { return { toJSON() { throw new Error("mine"); } }; }
export async function returnsBounds() { return [2 ** 53 - 1, -(2 ** 53) + 1, 2n ** 53n + 1n, -(2n ** 63n), 2 ** 53, 1e300, 5e-324, -0]; }
const nest = (depth) => { let list = []; for (let i = 1; i < depth; i++) list = [list]; return list; };
export async function returnsDepth100() { return JSON.stringify(nest(100)).length; }
export async function returnsNested() { return nest(5000); }
export async function callNested(ctx) { await ctx.call("x", nest(5000)); }
export async function parsesNested() { return JSON.parse("[".repeat(5000) + "]".repeat(5000)); }
export async function sleepNaN(ctx) { await ctx.sleep(NaN); }
export async function sleepInfinity(ctx) { await ctx.sleep(Infinity); }
export async function sleepBefore(ctx) { await ctx.sleep(-5); return "at once"; }
export async function timeoutOdd(ctx) { await ctx.signal("x", { timeout: "soon" }); }
export async function topicOdd(ctx) { ctx.send("me", 7, 1); }
export async function targetNothing(ctx) { ctx.stop(undefined); }
export async function backslash() { return ["\\ud800", "\\\\udc00", "\ud83d\ude00"]; }
