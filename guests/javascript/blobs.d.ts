// The types of the module "wfhost/blobs", for editors.

/** The handle of a blob: a run reads what it was given or has made. */
export interface Handle {
  digest: string;
  size: number;
  "media-type": string;
}

/** The bytes of a blob from an offset on, in parts of at most 512 KiB. */
export function parts(blob: Handle, offset?: number): AsyncGenerator<Uint8Array, void>;

/** The lines of a blob in UTF-8 from an offset on, without their ends. */
export function lines(blob: Handle, offset?: number): AsyncGenerator<string, void>;

/** Writes a blob. Its parts are blobs of their own, which count for what the run holds. */
export class Writer {
  constructor(mediaType?: string);
  /** Appends bytes, or a text in UTF-8. Wait for it before the next. */
  write(content: Uint8Array | string): Promise<void>;
  /** Makes a blob of all that was written. */
  finish(): Promise<Handle>;
}
