export function run() {
  undeclared = 1;
}
