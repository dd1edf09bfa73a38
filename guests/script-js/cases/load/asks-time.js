const at = Date.now();
export function run() { return [at, Date.now() > at]; }
