// Blobs, read and written part by part.
import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "wfhost/testing";

const guest = new URL("./blobs-guest.js", import.meta.url);
const digest = `blake3:${"0".repeat(64)}`;
const handle = (size) => ({ digest, size, "media-type": "text/csv" });

// A store of blobs by their numbers, and what was asked of it.
function store() {
  const blobs = [], asked = [];
  const put = (args) => {
    asked.push(args);
    const content = args instanceof Uint8Array ? Buffer.from(args)
      : args.parts ? Buffer.concat(args.parts.map((part) => blobs[part])) : Buffer.from(args.text);
    blobs.push(content);
    return { digest: `${blobs.length - 1}`, size: content.length, "media-type": "x/y" };
  };
  return { blobs, asked, handlers: { "blob.put": put } };
}

test("a blob is read part by part to its end", async () => {
  const asked = [], content = new Uint8Array(600_000);
  const get = (args) => {
    asked.push(args);
    return content.slice(args.offset, args.offset + args.length);
  };
  assert.deepEqual(await run(guest, "partsOf", handle(600_000), { handlers: { "blob.get": get } }), [524_288, 75_712]);
  assert.deepEqual(asked[1], { blob: digest, offset: 524_288, length: 524_288, as: "bytes" });
  assert.deepEqual(await run(guest, "partsOf", handle(0)), []);
});

test("lines go on where an answer ends", async () => {
  const answers = { 0: { lines: ["a", "b"], next: 4 }, 4: { lines: ["c"], next: null } };
  const handlers = { "blob.get": ({ offset }) => answers[offset] };
  assert.deepEqual(await run(guest, "linesOf", handle(5), { handlers }), ["a", "b", "c"]);
  assert.deepEqual(await run(guest, "linesOf", handle(0)), []);
});

test("texts and bytes are written in parts, which are joined in order", async () => {
  const { blobs, asked, handlers } = store();
  const pieces = [{ text: "a😀", times: 60_000 }, { bytes: 1, times: 600_000 }, { bytes: 2, times: 3 }, { text: "é", times: 2 }];
  const { size } = await run(guest, "writes", pieces, { handlers });
  const expected = Buffer.concat([Buffer.from("a😀".repeat(60_000)), Buffer.alloc(600_000, 1), Buffer.from([2, 2, 2]), Buffer.from("éé")]);
  assert.equal(size, expected.length);
  assert.ok(blobs.at(-1).equals(expected));
  assert.ok(blobs.slice(0, -1).every((blob) => blob.length <= 524_288 && blob.length > 0));
  assert.equal(asked.at(-1)["media-type"], "text/csv");
});

test("an empty blob is one part without content", async () => {
  const { blobs, asked, handlers } = store();
  await run(guest, "writes", [], { handlers });
  assert.deepEqual([blobs.length, asked[0].text, blobs.at(-1).length], [2, "", 0]);
});
