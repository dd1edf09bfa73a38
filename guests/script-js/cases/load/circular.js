import { even } from "./lib/even.js";
export const odd = (n) => n > 0 && even(n - 1);
export function run() { return [even(10), odd(10)]; }
