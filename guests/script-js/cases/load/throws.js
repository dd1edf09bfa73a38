const table = {};

table.rows.push(1);
export function run() {}
