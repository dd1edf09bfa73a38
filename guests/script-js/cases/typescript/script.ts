import rates from "../rates.json";
import { double } from "../load/lib/double.js";
export const run = (): number => double(rates.eur as number);
