interface A { b: number }
type C =
  | { d: 1 }
  | { e: 2 };
export function run(a: unknown, input: A) {
  const n: number = 1;
  throw new TypeError("here");
}
