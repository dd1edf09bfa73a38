import { eur } from "../rates.json";
export function run() { return eur; }
