import { double } from "./lib/../lib/./double.js";
import { double as same } from "./lib//double.js";
export function run() { return [double(2), double === same]; }
