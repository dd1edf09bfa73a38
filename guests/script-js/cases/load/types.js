export function run(ctx, input: { a: number }) {
  return input.a;
}
