export function run(): number {
  return 1;
