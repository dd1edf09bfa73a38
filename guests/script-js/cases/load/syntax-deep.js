import "./lib/syntax.js";
export function run() {}
