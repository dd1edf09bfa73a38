export function run() {}
const f = () => f() + 1;
f();
