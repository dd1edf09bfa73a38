import {
  double,
  triple,
} from "./lib/double.js";
export function run() { return double(triple(1)); }
