import bad from "./lib/bad.json" with { type: "json" };
export function run() { return bad; }
