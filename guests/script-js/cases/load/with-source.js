class A {}
export class B {}
export function run() { return [String(A), B.name]; }
