// TypeScript to JavaScript: types are removed, the rest is left where it is. Bundled with sucrase.
import { transform } from "sucrase";

export function translate(path, text, line, body) {
  // A body may return and wait. Its function stands on a line of its own, which is taken off again.
  const before = body ? "async () => {\n" : "", after = body ? "\n}" : "";
  try {
    const { code } = transform(before + text + after, {
      transforms: ["typescript"],
      disableESTransforms: true,
      preserveDynamicImport: true,
      keepUnusedImports: false,
    });
    return body ? code.slice(code.indexOf("\n") + 1, code.lastIndexOf("\n")) : code;
  } catch (error) {
    // sucrase says "Error transforming x: Unexpected token (3:14)".
    const at = /\((\d+):(\d+)\)\s*$/.exec(error.message);
    if (!at) throw error;
    const where = { line: Number(at[1]) - (body ? 1 : 0) + line - 1, column: Number(at[2]) };
    const message = error.message.replace(/^(sucrase: )?(Error transforming [^:]*: )?/, "").replace(/\s*\(\d+:\d+\)\s*$/, "");
    const syntax = new SyntaxError(message);
    syntax.stack = `    at ${path}:${where.line}:${where.column}\n`;
    throw syntax;
  }
}
