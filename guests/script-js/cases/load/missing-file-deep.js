import "./lib/imports-missing.js";
export function run() {}
