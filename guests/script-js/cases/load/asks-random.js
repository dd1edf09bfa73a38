export function run() {}
const id = Math.random();
