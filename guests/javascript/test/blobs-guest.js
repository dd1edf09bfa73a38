// Entries for blobs.test.js.
import { Writer, lines, parts } from "../src/blobs.js";

export async function partsOf(ctx, blob) {
  const lengths = [];
  for await (const part of parts(blob)) lengths.push(part.length);
  return lengths;
}

export async function linesOf(ctx, blob) {
  const all = [];
  for await (const line of lines(blob)) all.push(line);
  return all;
}

export async function writes(ctx, pieces) {
  const writer = new Writer("text/csv");
  for (const { text, bytes, times } of pieces) {
    await writer.write(text === undefined ? new Uint8Array(times).fill(bytes) : text.repeat(times));
  }
  return writer.finish();
}
