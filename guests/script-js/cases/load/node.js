export function run() {}
import fs from "node:fs";
