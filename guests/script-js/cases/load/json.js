import rates from "../rates.json" with { type: "json" };
import again from "../rates.json";
export function run() { return [rates, rates === again]; }
