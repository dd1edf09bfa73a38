await new Promise(() => {});
export function run() {}
