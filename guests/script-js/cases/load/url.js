import "https://example.com/x.js";
export function run() {}
