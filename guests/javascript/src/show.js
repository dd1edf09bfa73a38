// A value as text, for the log and for messages.
export function show(v, depth = 0, seen = []) {
  if (typeof v === "string") return depth ? JSON.stringify(v) : v;
  if (typeof v === "bigint") return `${v}n`;
  if (typeof v === "function") return `[function ${v.name || "anonymous"}]`;
  if (typeof v !== "object" || v === null) return String(v);
  if (v instanceof Error) return depth ? `[${v.name}: ${v.message}]` : `${v.name}: ${v.message}\n${v.stack ?? ""}`.trimEnd();
  if (seen.includes(v)) return "[circular]";
  if (depth > 3) return Array.isArray(v) ? "[…]" : "{…}";
  seen = [...seen, v];
  const s = (x) => show(x, depth + 1, seen);
  if (v instanceof Date) return isNaN(v) ? "Invalid Date" : v.toISOString();
  if (v instanceof RegExp) return String(v);
  if (v instanceof Promise) return "Promise {}";
  if (v instanceof Map) return `Map(${v.size}) {${[...v].map(([k, x]) => `${s(k)} => ${s(x)}`).join(", ")}}`;
  if (v instanceof Set) return `Set(${v.size}) {${[...v].map(s).join(", ")}}`;
  if (Array.isArray(v) || ArrayBuffer.isView(v)) return `[${Array.from(v.slice(0, 100), s).join(", ")}${v.length > 100 ? ", …" : ""}]`;
  const name = v.constructor?.name;
  return `${name && name !== "Object" ? name + " " : ""}{${Object.entries(v).map(([k, x]) => ` ${/^\w+$/.test(k) ? k : JSON.stringify(k)}: ${s(x)}`).join(",")}${Object.keys(v).length ? " " : ""}}`;
}
