// Module hooks: the modules of a process are its own, as on a real host. They carry its number in
// their addresses (`?process=3`), and what they import carries it too.
const CORE = new URL("../src/core.js", import.meta.url);

export async function resolve(specifier, context, next) {
  const process = context.parentURL && new URL(context.parentURL).searchParams.get("process");
  if (process === null || process === undefined || specifier.startsWith("node:")) return next(specifier, context);
  const found = specifier === "wfhost" ? { url: CORE.href, format: "module", shortCircuit: true } : await next(specifier, context);
  if (!found.url.startsWith("file:")) return found;
  const url = new URL(found.url);
  url.searchParams.set("process", process);
  return { ...found, url: url.href };
}
