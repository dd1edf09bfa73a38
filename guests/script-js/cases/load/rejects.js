export function run() {}
await Promise.reject(new Error("no"));
