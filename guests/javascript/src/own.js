// The language as it was when this module was loaded. What a guest makes of it afterwards, of its
// prototypes and its globals, must harm the guest alone.
const { bind, call } = Function.prototype;
const method = bind.bind(call);         // method(f)(self, …) is self.f(…)
const bytesTag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;

export const { parse, stringify, rawJSON } = JSON;
export const { hasOwn, keys, setPrototypeOf, defineProperty } = Object;
export const { isArray } = Array;
export const { isFinite, isSafeInteger } = Number;
export const { max, min, round } = Math;
export const OwnMap = Map, OwnPromise = Promise, OwnTypeError = TypeError, OwnBytes = Uint8Array;
export const errors = Error.prototype, buffers = ArrayBuffer.prototype;
export const text = String;             // and no template: QuickJS makes these by String.prototype.concat
export const species = Symbol.species;

export const isPrototypeOf = method(Object.prototype.isPrototypeOf);
export const sourceOf = method(Function.prototype.toString);
export const get = method(Map.prototype.get), set = method(Map.prototype.set), has = method(Map.prototype.has), remove = method(Map.prototype.delete);
export const each = method(Map.prototype.forEach), size = method(Object.getOwnPropertyDescriptor(Map.prototype, "size").get);
export const indexOf = method(String.prototype.indexOf), slice = method(String.prototype.slice), trim = method(String.prototype.trim);
export const startsWith = method(String.prototype.startsWith), exec = method(RegExp.prototype.exec);
export const isBytes = (value) => typeof value === "object" && value !== null && tag(value) === "Uint8Array";
export const then = method(Promise.prototype.then);
const tag = method(bytesTag), splice = method(Array.prototype.splice);

// A list without a prototype: no setter of an index, no method, nothing for JSON to ask.
export const list = () => setPrototypeOf([], null);
export const add = (of, value) => { of[of.length] = value; };
export const takeOut = (of, index) => splice(of, index, 1)[0];
// Makes a property, whatever setters there are.
export const put = (of, name, value) => defineProperty(of, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
// When a promise of the SDK's own has settled; its constructor is not asked for.
export function settled(promise, done, failed) {
  defineProperty(promise, "constructor", { __proto__: null, value: undefined, configurable: true });
  then(promise, done, failed);
}
