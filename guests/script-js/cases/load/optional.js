export async function run() {
  try { await import("./nothing-here.js"); } catch (e) { return e.name; }
}
