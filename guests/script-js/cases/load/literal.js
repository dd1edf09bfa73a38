export async function run() {
  const { double } = await import("./lib/double.js");
  const rates = await import("../rates.json", { with: { type: "json" } });
  return [double(4), rates.default.eur];
}
