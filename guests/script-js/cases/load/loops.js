export function run() {}
let n = 0;
for (;;) n++;
