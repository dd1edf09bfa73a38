// Recursion of every kind: each ends as a RangeError that the script can catch, and none as a trap.
// An entry gives the depth that it has reached and the name of what ended it.
const told = (f) => {
  let n = 0;
  try { f(() => { n++; }); return [n, "nothing"]; } catch (e) { return [n, e.name, e.message]; }
};
const nest = (open, middle, close, n = 100000) => open.repeat(n) + middle + close.repeat(n);
const compiled = (source) => told(() => new Function(source));

export const calls = () => told((tick) => { const f = () => { tick(); f(); }; f(); });
export const method = () => told((tick) => { const o = { f(a, b, c) { tick(); return this.f(a, b, c) + 1; } }; o.f(1, 2, 3); });
export const getter = () => told((tick) => { const o = { get x() { tick(); return this.x; } }; o.x; });
export const setter = () => told((tick) => { const o = { set x(v) { tick(); this.x = v; } }; o.x = 1; });
export const map = () => told((tick) => { const f = () => [1].map(() => { tick(); f(); }); f(); });
export const reduce = () => told((tick) => { const f = () => [1, 2].reduce(() => { tick(); return f(); }); f(); });
export const sort = () => told((tick) => { const f = () => [2, 1].sort(() => { tick(); f(); return 0; }); f(); });
export const typedSort = () => told((tick) => { const f = () => new Uint8Array([2, 1]).sort(() => { tick(); f(); return 0; }); f(); });
export const replaceRegex = () => told((tick) => { const f = () => "a".replace(/a/, () => { tick(); return f(); }); f(); });
export const replaceAll = () => told((tick) => { const f = () => "aa".replaceAll("a", () => { tick(); return f(); }); f(); });
export const split = () => told((tick) => { const o = { [Symbol.split]() { tick(); return "a".split(o); } }; "a".split(o); });
export const matchAll = () => told((tick) => { const r = /a/g; r.exec = () => { tick(); return r[Symbol.match]("a"); }; "a".match(r); });
export const toString = () => told((tick) => { const o = { toString() { tick(); return `${this}`; } }; `${o}`; });
export const toPrimitive = () => told((tick) => { const o = { [Symbol.toPrimitive]() { tick(); return o + 1; } }; o + 1; });
export const compare = () => told((tick) => { const o = { valueOf() { tick(); return o < 1; } }; o < 1; });
export const instance = () => told((tick) => { const o = { [Symbol.hasInstance]() { tick(); return 1 instanceof o; } }; 1 instanceof o; });
export const apply = () => told((tick) => { const f = () => { tick(); return Reflect.apply(f, null, []); }; f(); });
export const bound = () => told((tick) => { const f = function () { tick(); return f.bind(1)(); }; f(); });
export const classes = () => told((tick) => { class A { constructor() { tick(); new A(); } } new A(); });
export const derived = () => told((tick) => { class A { constructor() { tick(); new B(); } } class B extends A {} new B(); });
export const construct = () => told((tick) => { function F() { tick(); Reflect.construct(F, []); } new F(); });
export const generator = () => told((tick) => { function* g() { tick(); yield* g(); } [...g()]; });
export const iterator = () => told((tick) => { const o = { [Symbol.iterator]() { tick(); return [...o]; } }; [...o]; });
export const destructure = () => told((tick) => { const o = { get a() { tick(); const { a } = o; return a; } }; o.a; });
export const from = () => told((tick) => { const f = () => Array.from([1], () => { tick(); return f(); }); f(); });
export const evals = () => told((tick) => { const f = () => { tick(); return eval("f()"); }; f(); });
export const functions = () => told((tick) => { globalThis.deeper = () => { tick(); return new Function("return deeper()")(); }; globalThis.deeper(); });
export const template = () => told((tick) => { const f = (s) => { tick(); return f`a${1}`; }; f`a`; });
export const parallel = () => told((tick) => { const f = () => { tick(); return Promise.all([1].values().map(() => f()).toArray()); }; f(); });
export async function asyncs() { let n = 0; const f = async () => { n++; await f(); }; try { await f(); } catch (e) { return [n, e.name]; } }
export async function asyncGenerator() { let n = 0; async function* g() { n++; for await (const x of g()) yield x; } try { for await (const x of g()); } catch (e) { return [n > 50, e.name]; } }

// Proxies: of a proxy, and each trap
const trapped = (name, use) => () => told((tick) => { const p = new Proxy(function () {}, { [name]() { tick(); return use(p); } }); use(p); });
export const proxyGet = trapped("get", (p) => p.x);
export const proxySet = trapped("set", (p) => { p.x = 1; return true; });
export const proxyHas = trapped("has", (p) => "x" in p);
export const proxyDelete = trapped("deleteProperty", (p) => delete p.x);
export const proxyKeys = trapped("ownKeys", (p) => Reflect.ownKeys(p));
export const proxyDescriptor = trapped("getOwnPropertyDescriptor", (p) => Object.getOwnPropertyDescriptor(p, "x"));
export const proxyDefine = trapped("defineProperty", (p) => Reflect.defineProperty(p, "x", {}));
export const proxyPrototype = trapped("getPrototypeOf", (p) => Object.getPrototypeOf(p));
export const proxyApply = trapped("apply", (p) => p());
export const proxyConstruct = trapped("construct", (p) => new p());
const chain = (n) => { let p = {}; for (let i = 0; i < n; i++) p = new Proxy(p, {}); return p; };
export const proxyChain = () => told(() => chain(20000).x);
export const proxyChainSet = () => told(() => { chain(20000).x = 1; });
export const proxyChainHas = () => told(() => "x" in chain(20000));
export const proxyChainKeys = () => told(() => Object.keys(chain(20000)));
export const proxyChainCall = () => told(() => { let p = () => 1; for (let i = 0; i < 20000; i++) p = new Proxy(p, {}); p(); });
export const proxyChainNew = () => told(() => { let p = function () {}; for (let i = 0; i < 20000; i++) p = new Proxy(p, {}); new p(); });
export const proxyChainArray = () => told(() => { let p = []; for (let i = 0; i < 20000; i++) p = new Proxy(p, {}); Array.isArray(p); });
const proxied = (use) => () => told(() => use(chain(20000)));
export const proxyChainPrototype = proxied((p) => Object.getPrototypeOf(p));
export const proxyChainSetPrototype = proxied((p) => Object.setPrototypeOf(p, null));
export const proxyChainExtensible = proxied((p) => Object.isExtensible(p));
export const proxyChainPrevent = proxied((p) => Object.preventExtensions(p));
export const proxyChainDefine = proxied((p) => Object.defineProperty(p, "x", { value: 1 }));
export const proxyChainDelete = proxied((p) => delete p.x);
export const proxyChainOwn = proxied((p) => Object.hasOwn(p, "x"));
export const proxyChainSpread = proxied((p) => ({ ...p }));
export const proxyChainIn = proxied((p) => { for (const k in p); });
export const proxyChainRealm = () => told(() => { let p = function () {}; for (let i = 0; i < 20000; i++) p = new Proxy(p, {}); Reflect.construct(Array, [], p); });
export const proxyChainInstance = proxied((p) => p instanceof Array);
export const boundChain = () => told(() => { let f = () => 1; for (let i = 0; i < 20000; i++) { f = f.bind(null); Object.defineProperty(f, "name", { value: "" }); } f(); });
export const boundInstance = () => told(() => { let f = function () {}; for (let i = 0; i < 20000; i++) { f = f.bind(null); Object.defineProperty(f, "name", { value: "" }); } ({}) instanceof f; });
export const boundNew = () => told(() => { let f = function () {}; for (let i = 0; i < 20000; i++) { f = f.bind(null); Object.defineProperty(f, "name", { value: "" }); } new f(); });
export const proxyInherited = () => told(() => { let p = {}; for (let i = 0; i < 20000; i++) p = new Proxy(Object.create(p), {}); p.x; });
export const inherited = () => told(() => { let p = {}; for (let i = 0; i < 50000; i++) p = Object.create(p); p.x; });

// JSON and nested values
export const parseArrays = () => told(() => JSON.parse(nest("[", "", "]")));
export const parseObjects = () => told(() => JSON.parse(nest('{"a":', "1", "}")));
export const parseReviver = () => told(() => JSON.parse(nest("[", "", "]", 500), (k, v) => v));
export const reviver = () => told((tick) => { const f = () => JSON.parse("[1]", () => { tick(); return f(); }); f(); });
const nested = (make, n = 20000) => { let a = make(null); for (let i = 0; i < n; i++) a = make(a); return a; };
export const stringifyArrays = () => told(() => JSON.stringify(nested((a) => [a])));
export const stringifyObjects = () => told(() => JSON.stringify(nested((a) => ({ a })), null, 1));
export const toJSON = () => told((tick) => { const o = { toJSON() { tick(); return JSON.stringify(o); } }; JSON.stringify(o); });
export const replacer = () => told((tick) => { const f = () => JSON.stringify([1], () => { tick(); return f(); }); f(); });
export const flat = () => told(() => nested((a) => [a]).flat(Infinity));
export const join = () => told(() => String(nested((a) => [a])));
export const clone = () => told(() => structuredClone(nested((a) => ({ a }))));
export const rope = () => told(() => { let s = "x"; for (let i = 0; i < 20000; i++) s = i % 2 ? s + "ab" : "ab" + s; s.charCodeAt(7); s.localeCompare("x"); });
const dropped = (make) => () => told(() => { nested(make, 30000); });
export const freedObjects = dropped((a) => ({ a }));
export const freedArrays = dropped((a) => [a]);
export const freedFunctions = dropped((a) => () => a);
export const freedMaps = dropped((a) => new Map([[1, a]]));
export const freedProxies = dropped((a) => new Proxy({ a }, {}));
export const freedGenerators = dropped((a) => (function* () { yield a; })());
export const freedCycles = dropped((a) => { const o = { a }; o.o = o; return o; });
export const promises = () => told(() => { let p = Promise.resolve(1); for (let i = 0; i < 20000; i++) p = p.then((x) => x); });
export const output = () => nested((a) => [a]);

// Source
export const parentheses = () => compiled("return " + nest("(", "1", ")"));
export const arrays = () => compiled("return " + nest("[", "1", "]"));
export const objects = () => compiled("return " + nest("{a:", "1", "}"));
export const blocks = () => compiled(nest("{", "", "}"));
export const sourceCalls = () => compiled("return " + nest("f(", "1", ")"));
export const members = () => compiled("return " + nest("f[", "1", "]"));
export const unary = () => compiled("return " + nest("- ", "1", ""));
export const nots = () => compiled("return " + nest("!", "1", ""));
export const typeofs = () => compiled("return " + nest("typeof ", "1", ""));
export const ternary = () => compiled("return " + nest("1 ? ", "1", " : 1"));
export const ternaryElse = () => compiled("return " + nest("1 ? 1 : ", "1", ""));
export const power = () => compiled("return " + nest("1 ** ", "1", ""));
export const assign = () => compiled("let a; " + nest("a = ", "1", ""));
export const arrows = () => compiled("return " + nest("() => ", "1", ""));
export const arrowsBlock = () => compiled("return " + nest("() => {", "", "}"));
export const sourceFunctions = () => compiled(nest("function f() {", "", "}", 5000));
export const sourceClasses = () => compiled("return " + nest("class { x = ", "1", "}", 5000));
export const ifs = () => compiled(nest("if (1) ", ";", ""));
export const elses = () => compiled(nest("if (1) ; else ", ";", ""));
export const whiles = () => compiled(nest("while (1) ", ";", ""));
export const labels = () => compiled(Array.from({ length: 50000 }, (_, i) => `l${i}:`).join("") + ";");
export const tries = () => compiled(nest("try {", "", "} finally {}"));
export const switches = () => compiled(nest("switch (1) { case 1: ", "", "}"));
export const patterns = () => compiled("var " + nest("[", "a", "]") + " = 1");
export const patternsObject = () => compiled("var " + nest("{a:", "a", "}") + " = 1");
export const defaults = () => compiled("return " + nest("(a = ", "1", ") => 1"));
export const templates = () => compiled("return " + nest("`${", "1", "}`"));
export const news = () => compiled("return " + nest("new ", "f", ""));
export const optional = () => compiled("return " + nest("a?.[", "1", "]"));
export const awaits = () => compiled("return async () => " + nest("await ", "1", ""));
export const yields = () => compiled("return function* () { " + nest("yield ", "1", "") + " }");
export const commas = () => compiled("return " + nest("(1, ", "1", ")"));
export const spreads = () => compiled("return " + nest("[...", "a", "]"));
export const imports = () => compiled("return " + nest("import(", "1", ")"));
export const binary = () => compiled("return " + nest("1 + ", "1", ""));
export const nullish = () => compiled("return " + nest("a ?? ", "1", ""));
export const and = () => compiled("return " + nest("a && ", "1", ""));
export const forIn = () => compiled(nest("for (var a in ", "b", ") ;", 1) + nest("for (;;) ", ";", ""));
export const withs = () => compiled(nest("with (a) ", ";", ""));

// Regular expressions
export const groups = () => told(() => new RegExp(nest("(?:", "a", ")")));
export const captures = () => told(() => new RegExp(nest("(", "a", ")", 200)));
export const lookaheads = () => told(() => new RegExp(nest("(?=", "a", ")")));
export const lookbehinds = () => told(() => new RegExp(nest("(?<=", "a", ")")));
export const modifiers = () => told(() => new RegExp(nest("(?i:", "a", ")")));
export const sets = () => told(() => new RegExp(nest("[", "a", "]"), "v"));
export const alternatives = () => told(() => new RegExp(nest("a|", "a", "", 5000)));
export const backtracking = () => told(() => /^(?:a|a|b)*c/.test("a".repeat(20000)));
export const lookaheadMatch = () => told(() => new RegExp(nest("(?=", "a", ")", 200)).test("a"));
