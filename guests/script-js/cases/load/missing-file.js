// first
import { a } from "./nothing-here.js";
export function run() { return a; }
