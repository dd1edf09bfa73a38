export function run() {}
console.log("loaded");
