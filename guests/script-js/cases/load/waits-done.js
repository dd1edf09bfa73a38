const a = await 5;
export function run() { return a; }
