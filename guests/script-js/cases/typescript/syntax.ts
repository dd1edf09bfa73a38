export function run(): number {
  const a: = 1;
  return a;
}
