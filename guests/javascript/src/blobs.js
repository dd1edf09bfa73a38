// Large values: blobs that the run holds, read and stored part by part. The module `wfhost/blobs` of
// a component; a script copies this file, which needs nothing but `wfhost`.
import { call } from "wfhost";

// Of one call: below the limit `payload`, which is 1 MiB unless the workflow says otherwise. A
// character has up to six bytes as JSON.
const PART_BYTES = 512 << 10, PART_CHARACTERS = 128 << 10;

export async function* parts(blob, offset = 0) {
  while (offset < blob.size) {
    const part = await call("blob.get", { blob: blob.digest, offset, length: PART_BYTES, as: "bytes" });
    yield part;
    offset += part.length;
  }
}

export async function* lines(blob, offset = 0) {
  let next = offset < blob.size ? offset : null;
  while (next !== null) {
    const answer = await call("blob.get", { blob: blob.digest, offset: next, as: "lines" });
    yield* answer.lines;
    next = answer.next;
  }
}

export class Writer {
  #mediaType;
  #parts = [];
  #rest = "";                           // a text, or bytes

  constructor(mediaType = "application/octet-stream") { this.#mediaType = mediaType; }

  async write(content) {
    const isText = typeof content === "string", most = isText ? PART_CHARACTERS : PART_BYTES;
    if (this.#rest.length > 0 && typeof this.#rest !== typeof content) await this.#store();
    let rest = this.#rest.length > 0 ? joined(this.#rest, content) : content;
    while (rest.length >= most) {
      const end = isText ? whole(rest, most) : most;
      this.#rest = rest.slice(0, end);
      rest = rest.slice(end);
      await this.#store();
    }
    this.#rest = rest;
  }

  async finish() {
    if (this.#rest.length > 0 || this.#parts.length === 0) await this.#store();
    return call("blob.put", { parts: this.#parts, "media-type": this.#mediaType });
  }

  async #store() {
    const part = this.#rest;
    this.#rest = "";
    const { digest } = await call("blob.put", typeof part === "string" ? { text: part } : part);
    this.#parts.push(digest);
  }
}

function joined(before, more) {
  if (typeof before === "string") return before + more;
  const all = new Uint8Array(before.length + more.length);
  all.set(before);
  all.set(more, before.length);
  return all;
}

// Where a text is cut: not between the halves of a surrogate pair.
function whole(text, at) {
  const code = text.charCodeAt(at - 1);
  return code >= 0xd800 && code < 0xdc00 ? at - 1 : at;
}
