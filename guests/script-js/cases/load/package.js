import _ from "lodash";
export function run() { return _; }
