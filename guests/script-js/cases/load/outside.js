import "../../../../secret.js";
export function run() {}
